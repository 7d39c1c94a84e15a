"""Parse study files, which are TOML with variables ${NAME} for values that differ between sites."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from branchline.base.quantities import size
from branchline.errors import OptionError
from branchline.lab.limits import STUDY_ARMS_MAX, STUDY_FILE_MAX_BYTES, STUDY_JOBS_MAX
from branchline.lab.study import Factor, JobSettings, Level, Study

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_TIME = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(s|min|h|d)\s*")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TABLES = ("job", "factors", "baseline")
_FIELDS = ("question", "source", "per", "precision", "budget", "rounds", "wait", "limits", "skip")
_TEXTS = frozenset({"folder", "client", "tree", "train", "command", "stage", "before"})
_LISTS = frozenset({"where", "files", "branches", "companions", "served_from", "servers"})
_MAPPINGS = frozenset({"options", "environment"})
_SCALARS = (str, int, float, bool)
_NUMBERS = frozenset({"jobs", "files_per_job"})


def load_study(path: Path, variables: Mapping[str, str]) -> Study:
    """Load and validate a study. ``variables`` has the values that replace ${NAME} in the study's strings.

    Raises OptionError for invalid content, with the path and the key.
    """
    try:
        if path.stat().st_size > STUDY_FILE_MAX_BYTES:
            raise OptionError(f"the file is larger than {size(STUDY_FILE_MAX_BYTES)}", path=str(path))
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OptionError(f"the study cannot be read: {error.strerror}", path=str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"invalid TOML: {error}", path=str(path)) from None
    try:
        return _Reader(variables).study(content)
    except OptionError as error:
        raise OptionError(error.what, path=str(path), hint=error.hint) from None


def variables_in(path: Path) -> list[str]:
    """Return the names of the variables in a study file, in order. Raises OSError, UnicodeDecodeError."""
    return list(dict.fromkeys(_VARIABLE.findall(path.read_text(encoding="utf-8"))))


def seconds_of(text: str) -> float:
    """Parse a duration such as "90 s", "20 min" or "1.5 h". Raises OptionError."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise OptionError(f"invalid time {text!r:.40}", hint='write it like "20 min"; the units are s, min, h and d')
    return float(found.group(1)) * _SECONDS[found.group(2)]


def part_of(value: object) -> float:
    """Parse a fraction, written as "2%" or 0.02. Raises OptionError."""
    try:
        if isinstance(value, str):
            return float(value.removesuffix("%")) / 100
        return float(value)  # type: ignore[arg-type]  # the error is handled below
    except (TypeError, ValueError):
        raise OptionError(f"invalid precision {value!r:.40}", hint="write it like 2%") from None


@dataclasses.dataclass(frozen=True)
class _Reader:
    """Converts the content of a TOML file to a study. Errors contain the key of the invalid value."""

    variables: Mapping[str, str]

    def study(self, written: Mapping[str, object]) -> Study:
        content = {name: self._filled(value, name) for name, value in written.items()}
        self._check_names(content, (*_FIELDS, *_TABLES), "the study")
        question = content.get("question")
        if not isinstance(question, str) or not question.strip():
            raise self._wrong("the study has no question", 'begin with question = "..."')
        skipped = content.get("skip", [])
        if not isinstance(skipped, list):
            hint = 'write it like skip = [{ client = "copy", jobs = "16" }]'
            raise self._wrong("skip must be a list of tables", hint)
        factors = self._table(content, "factors")
        study = Study(
            question=question.strip(),
            job=JobSettings(**self._changes(self._table(content, "job"), "job")),  # type: ignore[arg-type]
            factors=tuple(self._factor(name, given) for name, given in factors.items()),
            baseline=self._levels(self._table(content, "baseline"), "baseline"),
            skipped=tuple(self._levels(one, "skip") for one in skipped),
            per=str(content.get("per", "")),
            precision=part_of(content.get("precision", "2%")),
            budget_s=seconds_of(str(content.get("budget", "10 min"))),
            rounds_max=self._count(content.get("rounds", 30), "rounds"),
            wait_s=seconds_of(str(content.get("wait", "1 h"))),
            limits=self._switch(content.get("limits", True), "limits"),
            source=str(content.get("source", "")),
        )
        arms_count = 1
        for factor in study.factors:
            arms_count *= len(factor.levels)
        if arms_count > STUDY_ARMS_MAX:
            raise self._wrong(f"the study has {arms_count} arms", f"a study may have up to {STUDY_ARMS_MAX}")
        study.check()
        return study

    def _filled(self, value: object, place: str) -> object:
        """Replace variables in strings at any depth, but not in the names of levels."""
        if isinstance(value, str):
            return _VARIABLE.sub(lambda found: self._variable(found.group(1), place), value)
        if isinstance(value, dict):
            return {key: self._filled(one, f"{place}.{key}") for key, one in value.items()}
        if isinstance(value, list):
            return [self._filled(one, place) for one in value]
        return value

    def _variable(self, name: str, place: str) -> str:
        if name not in self.variables:
            raise self._wrong(f"{place} needs ${{{name}}}", f"give --set {name}=VALUE")
        return self.variables[name]

    def _factor(self, name: str, given: object) -> Factor:
        if isinstance(given, list) and given:
            if name not in _job_fields():
                hint = f"write its levels as a table; a list can vary {', '.join(sorted(_job_fields()))}"
                raise self._wrong(f"factor {name!r} cannot be varied by a list", hint)
            levels = [Level(_shown(one), self._changes({name: one}, f"factors.{name}")) for one in given]
        elif isinstance(given, dict) and given:
            levels = []
            for level, one in given.items():
                place = f"factors.{name}.{level}"
                if not isinstance(one, dict):
                    raise self._wrong(f"{place} must be a table", 'write it like { client = "root" }')
                levels.append(Level(level, self._changes(one, place)))
        else:
            raise self._wrong(f"factor {name!r} has no levels", "write them like jobs = [1, 2, 4]")
        names = [one.name for one in levels]
        if len(set(names)) < len(names):
            raise self._wrong(f"factor {name!r} has a duplicate level")
        return Factor(name, tuple(levels))

    def _changes(self, given: Mapping[str, object], place: str) -> dict[str, object]:
        """Return job settings, with values converted to the types of the settings."""
        self._check_names(given, tuple(_job_fields()), place)
        return {name: self._value(name, value, f"{place}.{name}") for name, value in given.items()}

    def _value(self, name: str, value: object, place: str) -> object:
        if name in _TEXTS and isinstance(value, str):
            return value
        if name in _LISTS:
            listed = value if isinstance(value, list) else [value]
            if listed and all(isinstance(one, str) for one in listed):
                return tuple(listed)
        if name in _MAPPINGS and isinstance(value, dict) and all(isinstance(one, _SCALARS) for one in value.values()):
            return dict(value)
        if name in _NUMBERS:
            number = self._count(value, place, least=0 if name == "files_per_job" else 1)
            if name == "jobs" and number > STUDY_JOBS_MAX:
                raise self._wrong(f"{place} is {number}", f"up to {STUDY_JOBS_MAX} can run concurrently")
            return number
        if name == "cold":
            return self._switch(value, place)
        kind = "a table" if name in _MAPPINGS else "a string or a list of strings" if name in _LISTS else "a string"
        raise self._wrong(f"{place} must be {kind}")

    def _levels(self, given: object, place: str) -> dict[str, str]:
        if not isinstance(given, dict):
            hint = 'write it like { jobs = 1, client = "root" }'
            raise self._wrong(f"{place} must be a table of factors and levels", hint)
        return {name: _shown(one) for name, one in given.items()}

    def _table(self, content: Mapping[str, object], name: str) -> Mapping[str, object]:
        value = content.get(name, {})
        if not isinstance(value, dict):
            raise self._wrong(f"{name} must be a table", f"write [{name}]")
        return value

    def _count(self, value: object, place: str, least: int = 1) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        raise self._wrong(f"{place} must be an integer of at least {least}")

    def _switch(self, value: object, place: str) -> bool:
        if isinstance(value, bool):
            return value
        raise self._wrong(f"{place} must be true or false")

    def _check_names(self, given: Mapping[str, object], known: tuple[str, ...], place: str) -> None:
        for name in given:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known names: {', '.join(known)}"
                raise self._wrong(f"{place} has no {name!r:.60}", hint)

    def _wrong(self, what: str, hint: str | None = None) -> OptionError:
        return OptionError(what, hint=hint)


def _job_fields() -> list[str]:
    return [one.name for one in dataclasses.fields(JobSettings)]


def _shown(value: object) -> str:
    """Return the name of the level that has this value."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
