"""Published results: the numbers and findings of a table or figure, and what a study of it needs on this machine.

Each study consists of two files. NAME.toml is the input of `branchline study run`. NAME.published.toml contains the
published results, and names the required file sets and places. `load` enforces the rules for findings.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from branchline.lab.studies.study_file import load_study
from branchline.lab.study import Arm, Study

STUDIES = Path(__file__).parent

Levels = dict[str, str]
#: Quantities of arms, and their units.
QUANTITIES = {
    "events_per_s": "events/s",
    "bytes_per_s": "MB/s",
    "efficiency": "%",
    "calls": "read calls",
    "read_share": "bytes read per byte",
    "network_share": "bytes over the network per byte",
    "wall_s": "s",
}
#: Quantities that are lower in the faster of two arms.
COSTS = frozenset({"calls", "read_share", "network_share", "wall_s"})
#: Amounts per event that may explain a ratio.
COUNTS = {"reads": "read calls per event", "bytes": "bytes read per event", "CPU": "CPU time per event"}
#: The possible limits of an arm. With "latency" the jobs wait, although neither the processors nor the storage are
#: busy.
Limiter = Literal["CPU", "storage", "latency"]
LIMITERS: tuple[Limiter, ...] = ("CPU", "storage", "latency")

#: Maximum ratio of a bound to the published ratio, and of the published ratio to a bound.
BOUND_FACTOR_MAX = 1.5
#: A published ratio that differs from 1 by more than this is an effect: its bounds exclude 1.
EFFECT_MIN = 0.05


@dataclass(frozen=True)
class Number:
    """A published number, and the arm that measures the same quantity here."""

    what: str
    value: float
    where: str
    arm: Levels
    quantity: str


@dataclass(frozen=True)
class Mechanism:
    """The cause of a ratio in the paper, and its cause on this machine."""

    paper: str
    here: str
    is_same: bool


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A published ratio of a ``quantity`` between the arms ``of`` and ``over``.

    ``published`` is the ratio, or the two published numbers. The ratio measured here agrees with it between ``least``
    and ``most``. ``limited_by`` names what limits the arms ``of`` and ``over`` if the mechanism is at work, ``counts``
    the amounts that then differ between them.
    """

    text: str
    where: str
    quantity: str
    of: Levels
    over: Levels
    published: float | tuple[float, float]
    least: float
    most: float
    mechanism: Mechanism
    limited_by: dict[str, Limiter] = field(default_factory=dict)
    counts: tuple[str, ...] = ()
    is_about_clients: bool = False

    @property
    def ratio(self) -> float:
        return self.published if isinstance(self.published, float) else self.published[0] / self.published[1]


@dataclass(frozen=True)
class Published:
    """The published results of a study, and its needs. ``differences`` are the differences from the paper.
    ``copies`` is the number of copies of each set at a place. ``no_finding`` says why a study has no findings.
    """

    title: str
    document: str
    objects: str
    differences: str
    sets: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    copies: int = 1
    numbers: tuple[Number, ...] = ()
    findings: tuple[Finding, ...] = ()
    no_finding: str = ""


@dataclass(frozen=True)
class Document:
    """A paper. ``not_examined`` says which of its results no finding covers, and why."""

    name: str
    title: str
    about: str
    not_examined: str


@dataclass(frozen=True)
class StudyPair:
    """The two files of a study."""

    name: str
    asked: Path
    published: Published


def documents() -> list[Document]:
    content = tomllib.loads((STUDIES / "documents.toml").read_text(encoding="utf-8"))
    return [Document(name, **one) for name, one in content.items()]


def all_studies() -> list[StudyPair]:
    """Return all studies in the order of the documents and of their names."""
    found = []
    for document in documents():
        for path in sorted((STUDIES / document.name).glob("*.published.toml")):
            name = path.name.removesuffix(".published.toml")
            found.append(StudyPair(f"{document.name}-{name}", _asked(path), load(path)))
    return found


def load(path: Path) -> Published:
    """Load published results, and check them against the arms of their study. Raises ValueError with the file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        numbers = tuple(Number(**one) for one in content.pop("numbers", []))
        findings = tuple(_finding(one) for one in content.pop("findings", []))
        sets, places = tuple(content.pop("sets", ())), tuple(content.pop("places", ()))
        found = Published(
            document=path.parent.name, numbers=numbers, findings=findings, sets=sets, places=places, **content
        )
    except (TypeError, KeyError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
    problems = _problems(found, study_without_places(_asked(path)).arms())
    if problems:
        raise ValueError(f"{path}: {'; '.join(problems)}")
    return found


def study_without_places(asked: Path) -> Study:
    """Load a study with placeholders for the variables that its places would set."""
    return load_study(asked, _AnyVariable())


def problems_of(finding: Finding, arms: Sequence[Arm]) -> list[str]:
    """Return the rules that a finding violates."""
    settings = [next((arm.settings for arm in arms if arm.levels == one), None) for one in (finding.of, finding.over)]
    of, over = settings
    if of is None or over is None:
        return [f"finding {finding.text!r}: the study has no arm {finding.of if of is None else finding.over}"]
    ratio = finding.ratio
    found = []
    if finding.quantity not in QUANTITIES:
        found.append(f"unknown quantity {finding.quantity!r}")
    if not ratio / BOUND_FACTOR_MAX <= finding.least < ratio < finding.most <= ratio * BOUND_FACTOR_MAX:
        found.append(f"bounds must surround the published ratio {ratio:.3g} within a factor of {BOUND_FACTOR_MAX:g}")
    is_effect = abs(ratio - 1) > EFFECT_MIN
    if is_effect and finding.least <= 1 <= finding.most:
        found.append("bounds must exclude 1, since the published ratio is an effect")
    if finding.counts and not is_effect:
        found.append("counts can only explain an effect")
    if of == over:
        found.append("the arms are the same")
    if (of.client != over.client) != finding.is_about_clients:
        found.append("arms must have the same client, except for findings with is_about_clients = true")
    is_storage_limited = finding.limited_by == {"of": "storage", "over": "storage"}
    if of.jobs != over.jobs and finding.quantity != "efficiency" and not is_storage_limited:
        found.append("arms with different numbers of jobs must compare efficiencies or be limited by the storage")
    if not finding.limited_by and not finding.counts:
        found.append("a finding needs limited_by or counts, which show the mechanism in the samples")
    found += [f"unknown arm {one!r} in limited_by" for one in finding.limited_by if one not in ("of", "over")]
    found += [f"unknown limiter {one!r}" for one in finding.limited_by.values() if one not in LIMITERS]
    found += [f"unknown count {one!r}" for one in finding.counts if one not in COUNTS]
    if not finding.mechanism.paper or not finding.mechanism.here:
        found.append("the mechanism must be described for the paper and for this machine")
    return [f"finding {finding.text!r}: {one}" for one in found]


def _problems(published: Published, arms: Sequence[Arm]) -> list[str]:
    levels = [one.levels for one in arms]
    found = [one for finding in published.findings for one in problems_of(finding, arms)]
    found += [f"unknown quantity {one.quantity!r}" for one in published.numbers if one.quantity not in QUANTITIES]
    found += [f"the study has no arm {one.arm}" for one in published.numbers if one.arm not in levels]
    if bool(published.findings) == bool(published.no_finding):
        found.append("a study has either findings or no_finding, which says why there are none")
    return found


def _finding(content: dict[str, object]) -> Finding:
    published = content.pop("published")
    values: float | tuple[float, float]
    match published:
        case int() | float() if published > 0:
            values = float(published)
        case [int() | float() as of, int() | float() as over] if of > 0 and over > 0:
            values = (float(of), float(over))
        case _:
            raise TypeError(f"published must be a positive ratio or a pair of positive numbers, not {published!r:.40}")
    if not isinstance(content.get("limited_by", {}), dict):
        raise TypeError('limited_by must be a table such as { over = "storage" }')
    mechanism = Mechanism(**content.pop("mechanism"))  # type: ignore[arg-type]  # TypeError is handled by the caller
    counts = tuple(content.pop("counts", ()))  # type: ignore[arg-type]
    return Finding(published=values, mechanism=mechanism, counts=counts, **content)  # type: ignore[arg-type]


def _asked(path: Path) -> Path:
    return path.with_name(path.name.replace(".published.toml", ".toml"))


class _AnyVariable(dict[str, str]):
    """A value for any variable of a study."""

    def __contains__(self, _: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return f"/{name}"
