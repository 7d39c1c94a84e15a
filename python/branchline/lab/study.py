"""A study: a question, factors with their levels, and the arms that they make.

`StorageTests` is a study of storages without a file: copying, reading and a real job, for any of them. Its three tests
come from W Bhimji et al., "Optimising grid storage resources for LHC data analysis", J. Phys.: Conf. Ser. 396 (2012)
032010, section 3.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from branchline.base.plain import to_plain
from branchline.errors import OptionError

STUDY_VERSION = 1
#: Type of a client's option and of the value of a level.
Value = str | int | float | bool
#: Units that rates count: events, bytes of the files, or jobs.
PER = ("event", "byte", "job")
#: Names of the tests of storages.
COPY, READING, JOB = "file copy", "reading", "real job"


@dataclass(frozen=True, kw_only=True)
class JobSettings:
    """What the jobs of an arm do; every field can be varied by a factor.

    ``jobs`` of them run at once. Each has ``files_per_job`` files of its own; with 0 all files are shared out. Files
    are patterns below ``where``/``folder``; with several places, job i reads from place i, as with a disk for each job.
    ``client`` reads them, with ``options`` of its own, ``branches`` of ``tree`` (none: all). ``stage`` is a folder to
    which files are copied first, as on a worker's disk. ``before`` is a command that runs before each sample.
    ``cold`` files are thrown out of the page cache, those of ``served_from``, too: folders of a server of ours.
    ``servers`` are names of its processes: their CPU time is not that of other programs.
    """

    where: tuple[str, ...] = (".",)
    folder: str = ""
    files: tuple[str, ...] = ("*.root",)
    files_per_job: int = 0
    jobs: int = 1
    client: str = "branchline"
    options: dict[str, Value] = field(default_factory=dict)
    tree: str = ""
    branches: tuple[str, ...] = ()
    train: str = ""
    companions: tuple[str, ...] = ()
    command: str = ""
    stage: str = ""
    before: str = ""
    environment: dict[str, Value] = field(default_factory=dict)
    cold: bool = False
    served_from: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()

    def with_level(self, changes: Mapping[str, object]) -> JobSettings:
        """With the fields that a level sets. Options and variables of the environment are set one by one, by name. A
        level with a ``client`` begins without options: those before are of another client.
        """
        merged = {name: tuple(one) if isinstance(one, list) else one for name, one in changes.items()}
        before = {"options": {} if "client" in merged else self.options, "environment": self.environment}
        for name, values in before.items():
            more = merged.get(name, {})
            if isinstance(more, Mapping):
                merged[name] = {**values, **more}
        return dataclasses.replace(self, **merged)  # type: ignore[arg-type]  # the study's file was checked


@dataclass(frozen=True)
class Level:
    """One setting of a factor: its name, and the fields of the jobs that it sets."""

    name: str
    changes: dict[str, object]


@dataclass(frozen=True)
class Factor:
    """What is varied."""

    name: str
    levels: tuple[Level, ...]


@dataclass(frozen=True)
class Arm:
    """A combination of levels, by factor, and what its jobs do."""

    levels: dict[str, str]
    settings: JobSettings

    @property
    def name(self) -> str:
        """Its levels, as people write them."""
        return arm_name(self.levels)


def arm_name(levels: Mapping[str, str]) -> str:
    """The name of the arm with these levels."""
    return ", ".join(f"{factor} {level}" for factor, level in levels.items()) or "the only arm"


@dataclass(frozen=True)
class Study:
    """A question and how it is answered. ``baseline`` gives levels: each arm is compared with the arm that differs from
    it in these only. Combinations with all levels of one of ``skipped`` are left out.

    It ends when half of every interval is within ``precision``, a part of the ratio, or after ``budget_s`` seconds or
    ``rounds_max`` rounds; never because a difference was found: then one would be found too often. A job takes up to
    ``wait_s``. With ``limits`` the storage's own limit is measured beside each arm.
    """

    question: str
    job: JobSettings
    factors: tuple[Factor, ...] = ()
    baseline: dict[str, str] = field(default_factory=dict)
    skipped: tuple[dict[str, str], ...] = ()
    per: str = ""
    precision: float = 0.02
    budget_s: float = 600.0
    rounds_max: int = 30
    wait_s: float = 3600.0
    limits: bool = True
    source: str = ""
    study_version: int = STUDY_VERSION

    def check(self) -> None:
        """Raises OptionError for what cannot be."""
        if not 0 < self.precision < 1:
            raise OptionError(f"a precision of {self.precision:g} is impossible", hint="0.02 are two per cent")
        if self.budget_s <= 0 or self.wait_s <= 0 or self.rounds_max < 1:
            raise OptionError("a study needs time: budget, wait and rounds are above zero")
        if self.per and self.per not in PER:
            raise OptionError(f"rates cannot be per {self.per!r}", hint=f"there are {', '.join(PER)}")
        known = {one.name: [level.name for level in one.levels] for one in self.factors}
        for levels in (self.baseline, *self.skipped):
            for factor, level in levels.items():
                if factor not in known:
                    raise OptionError(f"there is no factor {factor!r}", hint=f"there are {', '.join(known) or 'none'}")
                if level not in known[factor]:
                    raise OptionError(f"{factor} has no level {level!r}", hint=f"there are {', '.join(known[factor])}")
        if not self.arms():
            raise OptionError("all arms are skipped", hint="take something out of skip")

    def arms(self) -> list[Arm]:
        """All combinations of levels that are not skipped, in the order of the file."""
        found = []
        for combination in itertools.product(*(one.levels for one in self.factors)):
            levels = {factor.name: level.name for factor, level in zip(self.factors, combination, strict=True)}
            if any(one and one.items() <= levels.items() for one in self.skipped):
                continue
            settings = self.job
            # Options of one factor are for the client of another, whichever the file names first.
            for level in sorted(combination, key=lambda one: "client" not in one.changes):
                settings = settings.with_level(level.changes)
            found.append(Arm(levels, settings))
        return found

    def baseline_of(self, arm: Arm) -> str:
        """The name of the arm that this one is compared with: its own for a baseline. It may be skipped."""
        return arm_name({**arm.levels, **self.baseline})

    @property
    def digest(self) -> str:
        """Another one for every study that measures something else, however its words differ."""
        measured = {**to_plain(self), "question": "", "source": "", "budget_s": 0, "rounds_max": 0, "precision": 0}
        return hashlib.sha256(json.dumps(measured, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class StorageTests:
    """What is tested of the storages ``where``: their first files that match ``files``, which all of them hold.
    ``train`` are the wagons of the real job; without it there is none. ``jobs`` are numbers of jobs at once.
    """

    where: tuple[str, ...]
    files: tuple[str, ...] = ("**/*.root",)
    files_per_job: int = 0
    tree: str = ""
    train: str = ""
    jobs: tuple[int, ...] = (1,)
    cold: bool = True
    budget_s: float = 1200.0
    precision: float = 0.02
    rounds_max: int = 30

    def study(self) -> Study:
        """The study that does it: each storage beside the first one. Raises OptionError."""
        if len(set(self.where)) < len(self.where):
            raise OptionError("a storage is given twice")
        tests = [
            Level(COPY, {"client": "copy"}),
            Level(READING, {"client": "branchline"}),
        ]
        if self.train:
            tests.append(Level(JOB, {"client": "train", "train": self.train}))
        factors = [
            Factor("storage", tuple(Level(one, {"where": (one,)}) for one in self.where)),
            Factor("test", tuple(tests)),
        ]
        if len(self.jobs) > 1:
            factors.append(Factor("jobs", tuple(Level(str(one), {"jobs": one}) for one in self.jobs)))
        study = Study(
            question=_question(self.where),
            job=JobSettings(
                files=self.files, files_per_job=self.files_per_job, tree=self.tree, jobs=self.jobs[0], cold=self.cold
            ),
            factors=tuple(factors),
            baseline={"storage": self.where[0]},
            precision=self.precision,
            budget_s=self.budget_s,
            rounds_max=self.rounds_max,
        )
        study.check()
        return study


def _question(where: Sequence[str]) -> str:
    if len(where) == 1:
        return f"How fast is {where[0]}, for copies, reading and jobs?"
    return f"Which of {', '.join(where)} is faster, for copies, reading and jobs?"
