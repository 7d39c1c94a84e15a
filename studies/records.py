"""What was measured of a study, kept in the repository: its pages are drawn from nothing else."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path

from branchline.base.plain import finite, from_plain, to_plain
from branchline.lab.sampling.job import this_processor
from branchline.lab.studies.study_result import StudyResult
from studies.findings import FindingHere, NumberHere
from studies.published import STUDIES

RECORDS = STUDIES / "results"


@dataclass(frozen=True)
class Machine:
    """Where and when it was measured. ``load`` is that of other programs, before the study began."""

    at: str
    processor: str
    cores: int
    memory_bytes: int
    system: str
    load: float

    @classmethod
    def now(cls) -> Machine:
        return cls(
            dt.datetime.now(dt.UTC).isoformat(timespec="minutes"),
            this_processor(),
            len(os.sched_getaffinity(0)),
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            f"{platform.system()} {platform.release().partition('-')[0]}",
            os.getloadavg()[0],
        )


@dataclass(frozen=True)
class Record:
    """A study's outcome: measured, or left out with the reason in ``skipped``."""

    name: str
    is_quick: bool
    machine: Machine
    skipped: str = ""
    result: StudyResult | None = None
    numbers: list[NumberHere] = field(default_factory=list)
    findings: list[FindingHere] = field(default_factory=list)
    record_version: int = 1

    @property
    def is_disturbed(self) -> bool:
        """Whether other programs were at work in most samples."""
        arms = self.result.arms if self.result is not None else []
        disturbed = sum(count for one in arms for note, count in one.notes.items() if "other programs" in note)
        return disturbed > sum(one.samples for one in arms) / 2

    @property
    def is_provisional(self) -> bool:
        """Whether it only shows that the study works."""
        return self.is_quick or self.is_disturbed


def write(record: Record, folder: Path = RECORDS) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(finite(to_plain(record)), indent=1) + "\n"
    (folder / f"{record.name}.json").write_text(text, encoding="utf-8")


def read(name: str, folder: Path = RECORDS) -> Record | None:
    """The record of a study; None where it was never run."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    found: Record = from_plain(Record, json.loads(path.read_text(encoding="utf-8")))
    return found
