"""Records of measured studies in the repository, from which the pages in docs/studies are generated."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path

from branchline.base.plain import finite, from_plain, to_plain
from branchline.lab.studies.study_result import StudyResult
from branchline.records.sensors.this_process import processor
from studies.findings import ArmRatio
from studies.published import STUDIES

RECORDS = STUDIES / "results"


@dataclass(frozen=True)
class Machine:
    """The machine, and the time of the measurement. ``load`` is its load before the study."""

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
            processor(),
            len(os.sched_getaffinity(0)),
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            f"{platform.system()} {platform.release().partition('-')[0]}",
            os.getloadavg()[0],
        )


@dataclass(frozen=True)
class DiskRates:
    """The rate of an emulated disk in bytes per second, as measured before and after the study."""

    kind: str
    before: float
    after: float


@dataclass(frozen=True)
class Record:
    """The outcome of a study: its result, or in ``skipped`` the reason why this machine cannot measure it.

    ``ratios`` are the ratios that its findings need. Verdicts are not stored: they follow from the ratios, the result
    and the published findings.
    """

    name: str
    is_quick: bool
    machine: Machine
    skipped: str = ""
    result: StudyResult | None = None
    ratios: list[ArmRatio] = field(default_factory=list)
    disks: list[DiskRates] = field(default_factory=list)
    record_version: int = 2

    @property
    def is_disturbed(self) -> bool:
        """Whether other programs kept the machine busy in most samples."""
        arms = self.result.arms if self.result is not None else []
        disturbed = sum(count for one in arms for note, count in one.notes.items() if "other programs" in note)
        return disturbed > sum(one.samples for one in arms) / 2

    @property
    def reservation(self) -> str:
        """Why the values are not meaningful; empty if they are."""
        arms = self.result.arms if self.result is not None else []
        if self.is_quick:
            return "measured with small files and one round"
        if any(one.samples and one.bound is None for one in arms):
            return "measured on disks without seek times, before samples recorded the load and what limits an arm"
        return "measured while other programs kept the machine busy" if self.is_disturbed else ""


def write(record: Record, folder: Path = RECORDS) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(finite(to_plain(record)), indent=1) + "\n"
    (folder / f"{record.name}.json").write_text(text, encoding="utf-8")


def read(name: str, folder: Path = RECORDS) -> Record | None:
    """Return the record of a study; None if it was never run."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    found: Record = from_plain(Record, json.loads(path.read_text(encoding="utf-8")))
    return found
