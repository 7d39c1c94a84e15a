"""Samples of a study, and the file that stores them: one line per sample, synced to disk before the next sample is
taken.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from branchline.base.plain import finite, from_plain, to_plain
from branchline.errors import OptionError
from branchline.lab.sampling.job import JobOutcome
from branchline.lab.sampling.machine import Surroundings
from branchline.lab.study import Study

SAMPLES, STUDY = "samples.jsonl", "study.json"

SAMPLE_VERSION = 1
SampleKind = Literal["arm", "control", "limit", "client", "network", "trace", "blocks"]


@dataclass(frozen=True)
class StudySample:
    """One concurrent run of the jobs of an arm.

    ``round`` and ``position`` (from 0) are its position in the random order. ``kind`` is the arm itself, the repeated
    baseline, or a measurement of a limit of the arm's storage: reading whole files, copying with a bare client, the
    bare network, or repeating the ranges of the arm's trace. A sample of kind ``trace`` records that trace.

    ``wall_s`` is the time from the first start to the last end, ``file_bytes`` the total size of the files.
    ``cached_bytes`` is the part of the files that was in the page cache before the run, None without cold files;
    ``cold_remark`` says which caches could not be cleared. ``spent_s`` is the time that the study has used so far,
    ``session`` the number of times that the study was interrupted before.

    ``place`` is the farm that ran the jobs, empty for this machine. On a farm, jobs start when the farm schedules them,
    failed jobs are not included in sums, and network and loopback bytes are totals of all machines.
    """

    round: int
    position: int
    arm: str
    kind: SampleKind
    at: str
    wall_s: float
    jobs: list[JobOutcome]
    file_bytes: int | None = None
    cached_bytes: int | None = None
    cold_remark: str = ""
    surroundings: Surroundings = field(default_factory=Surroundings)
    spent_s: float = 0.0
    session: int = 0
    error: str = ""
    place: str = ""
    sample_version: int = SAMPLE_VERSION

    @property
    def key(self) -> tuple[int, str, str]:
        """The key that identifies the sample within its study."""
        return (self.round, self.kind, self.arm)

    @property
    def good_jobs(self) -> list[JobOutcome]:
        """Outcomes of the jobs that succeeded."""
        return [one for one in self.jobs if not one.error]

    @property
    def events(self) -> int | None:
        """Total number of events; None if a client does not count events."""
        counts = [one.events for one in self.good_jobs]
        return None if None in counts else sum(one for one in counts if one is not None)

    @property
    def cpu_s(self) -> float:
        return sum(one.cpu_s for one in self.good_jobs)

    def units(self, per: str) -> float | None:
        """Return the amount of work in the unit ``per``; None if the amount is unknown."""
        amount = {"event": self.events, "byte": self.file_bytes, "job": len(self.good_jobs)}[per]
        return float(amount) if amount else None

    def rate(self, per: str) -> float | None:
        """Return the rate of all jobs together, in units of ``per`` per second; None for a failed sample or if the
        client does not count these units.
        """
        units = self.units(per)
        return units / self.wall_s if units and not self.error and self.wall_s > 0 else None


class SampleFile:
    """The file with the samples of a study. After a kill, its last line may be incomplete."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[StudySample]:
        """Return all complete samples. An incomplete last line is removed from the file, so that its sample is
        repeated. Raises OptionError.
        """
        if not self._path.exists():
            return []
        content = self._path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            with self._path.open("r+b") as file:
                file.truncate(len(whole))
        samples, seen = [], set()
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                sample: StudySample = from_plain(StudySample, json.loads(line))
            except ValueError as error:
                what = f"line {number} is not a valid sample: {error}"
                raise OptionError(what, path=str(self._path), hint="use another directory") from None
            if sample.key not in seen:
                seen.add(sample.key)
                samples.append(sample)
        return samples

    def add(self, sample: StudySample) -> None:
        """Append a sample to the file, and sync the file to disk."""
        line = json.dumps(finite(to_plain(sample))) + "\n"
        with self._path.open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())


@dataclass(frozen=True)
class KeptStudy:
    """The description of a study in its directory.

    ``seed`` is the seed of its random orders. ``branchline`` is the version and ``command`` the command that started
    the study. The command does not contain the seed, and is empty if Python code started the study.
    """

    study: Study
    seed: int
    digest: str
    branchline: str = ""
    command: str = ""


def load_kept(folder: Path) -> KeptStudy:
    """Load the description of a study from its directory. Raises OptionError."""
    try:
        found: KeptStudy = from_plain(KeptStudy, json.loads((folder / STUDY).read_text(encoding="utf-8")))
    except OSError as error:
        raise OptionError(f"the directory contains no study: {error.strerror}", path=str(folder)) from None
    except ValueError as error:
        raise OptionError(f"{STUDY} is damaged: {error}", path=str(folder)) from None
    return found
