"""A study: a question, factors with their levels, and the arms, which are combinations of levels.

`StorageTests` creates a study of storage elements without a study file: it measures copying, reading and a real job on
each storage element. The three tests come from W Bhimji et al., "Optimising grid storage resources for LHC data
analysis", J. Phys.: Conf. Ser. 396 (2012) 032010, section 3.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from branchline.base.plain import to_plain
from branchline.errors import OptionError

STUDY_VERSION = 1
#: Type of the values of client options and environment variables.
Value = str | int | float | bool
#: Units of work in rates: events, bytes of the files, or jobs.
PER = ("event", "byte", "job")
#: Names of the tests of storage elements.
COPY, READING, JOB = "file copy", "reading", "real job"


@dataclass(frozen=True, kw_only=True)
class JobSettings:
    """The settings of an arm's jobs. Factors can vary every field.

    - ``jobs`` is the number of concurrent jobs. Each reads ``files_per_job`` files of its own; with 0, all files are
      distributed among the jobs.
    - ``files`` are patterns below ``folder`` in ``where``. With several locations in ``where``, job i reads from
      location i, for example from its own disk.
    - ``client`` reads ``branches`` (all by default) of ``tree`` with ``options``.
    - ``stage`` is a folder to which files are copied first, such as the local disk of a worker.
    - ``before`` is a command that runs before each sample.
    - With ``cold``, files are evicted from the page cache, including the files in ``served_from``, the folders of local
      servers.
    - ``servers`` are the names of server processes whose CPU time does not count as other load.
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
        """Return the settings with the fields of a level changed. Options and environment variables are merged by name.
        If the level sets ``client``, only its own options are kept, since the previous options belong to another
        client.
        """
        merged = {name: tuple(one) if isinstance(one, list) else one for name, one in changes.items()}
        before = {"options": {} if "client" in merged else self.options, "environment": self.environment}
        for name, values in before.items():
            more = merged.get(name, {})
            if isinstance(more, Mapping):
                merged[name] = {**values, **more}
        return dataclasses.replace(self, **merged)  # type: ignore[arg-type]  # the study file was validated


@dataclass(frozen=True)
class Level:
    """A level of a factor: its name, and the job settings that it changes."""

    name: str
    changes: dict[str, object]


@dataclass(frozen=True)
class Factor:
    """A variable of the study, and the levels that it can have."""

    name: str
    levels: tuple[Level, ...]


@dataclass(frozen=True)
class Arm:
    """A combination of levels, one per factor, and the resulting settings of its jobs."""

    levels: dict[str, str]
    settings: JobSettings

    @property
    def name(self) -> str:
        """The factors with their levels as text."""
        return arm_name(self.levels)


def arm_name(levels: Mapping[str, str]) -> str:
    """Return the name of the arm that has these levels."""
    return ", ".join(f"{factor} {level}" for factor, level in levels.items()) or "the only arm"


@dataclass(frozen=True)
class Study:
    """A question, and the measurements that answer it.

    ``baseline`` sets the levels of some factors: each arm is compared with the arm that has these levels and otherwise
    the arm's own levels. Combinations that contain all levels of an entry of ``skipped`` are left out.

    The study stops when the half width of every interval, relative to the ratio, is below ``precision``, or after
    ``budget_s`` seconds or ``rounds_max`` rounds. It does not stop because a difference was found, which would increase
    the rate of false differences. ``wait_s`` is the timeout of a job. With ``limits``, the limit of each arm's storage
    is also measured.
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
        """Raise OptionError for invalid settings."""
        if not 0 < self.precision < 1:
            raise OptionError(f"invalid precision: {self.precision:g}", hint="give a fraction such as 0.02 (2 %)")
        if self.budget_s <= 0 or self.wait_s <= 0 or self.rounds_max < 1:
            raise OptionError("budget, wait and rounds of a study must be positive")
        if self.per and self.per not in PER:
            raise OptionError(f"unknown unit of rates {self.per!r}", hint=f"choose one of {', '.join(PER)}")
        known = {one.name: [level.name for level in one.levels] for one in self.factors}
        for levels in (self.baseline, *self.skipped):
            for factor, level in levels.items():
                if factor not in known:
                    raise OptionError(f"unknown factor {factor!r}", hint=f"known factors: {', '.join(known) or 'none'}")
                if level not in known[factor]:
                    raise OptionError(
                        f"{factor} has no level {level!r}", hint=f"choose one of {', '.join(known[factor])}"
                    )
        if not self.arms():
            raise OptionError("all arms are skipped", hint="remove entries from skip")

    def arms(self) -> list[Arm]:
        """Return all combinations of levels that are not skipped, in the order of the study file."""
        found = []
        for combination in itertools.product(*(one.levels for one in self.factors)):
            levels = {factor.name: level.name for factor, level in zip(self.factors, combination, strict=True)}
            if any(one and one.items() <= levels.items() for one in self.skipped):
                continue
            settings = self.job
            # Options in the level of one factor apply to the client in the level of another factor, so levels with a
            # client are applied first.
            for level in sorted(combination, key=lambda one: "client" not in one.changes):
                settings = settings.with_level(level.changes)
            found.append(Arm(levels, settings))
        return found

    def baseline_of(self, arm: Arm) -> str:
        """Return the name of the baseline of an arm, which is the arm itself if it is a baseline. The baseline may be
        skipped.
        """
        return arm_name({**arm.levels, **self.baseline})

    @property
    def digest(self) -> str:
        """A hash of everything that affects the measurements, such as settings, but not the wording of the study."""
        measured = {**to_plain(self), "question": "", "source": "", "budget_s": 0, "rounds_max": 0, "precision": 0}
        return hashlib.sha256(json.dumps(measured, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class StorageTests:
    """Tests of the storage elements ``where``, with the first files that match ``files``. All storage elements must
    have these files.

    ``train`` is the file with the wagons of the real job; without it, that test is left out. ``jobs`` are the numbers
    of concurrent jobs to test.
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
        """Return the study that compares each storage element with the first one. Raises OptionError for invalid
        settings.
        """
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
        which = f"Which of {', '.join(self.where)} is faster"
        question = f"How fast is {self.where[0]}" if len(self.where) == 1 else which
        study = Study(
            question=f"{question}, for copies, reading and jobs?",
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
