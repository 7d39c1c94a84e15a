"""Samples of a study, and the file that keeps them: a line for each, on the disk before the next one is taken."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
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
    """The jobs of an arm, run once at the same time: in a round at a position, from 0, of its drawn order. ``kind``
    says whether it is the arm itself, the baseline once more, or a limit of its storage: whole files, a bare client,
    the bare network, the ranges of its trace. In the sample of kind ``trace`` that is recorded.

    ``wall_s`` goes from the first begin to the last end, ``file_bytes`` are the sizes of all files. ``cached_bytes`` is
    what the page cache held of the files before, None where nothing had to be cold; ``cold_remark`` says what could not
    be made cold. ``place`` is the farm where its jobs ran, empty for this machine: there they begin when the farm lets
    them, those that failed are left out of its sums, and network and loopback bytes are those of all their machines.
    ``spent_s`` is what the study has taken so far, ``session`` counts its interruptions.
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
        """No two samples of a study have the same."""
        return (self.round, self.kind, self.arm)

    @property
    def good_jobs(self) -> list[JobOutcome]:
        """Those that did not fail."""
        return [one for one in self.jobs if not one.error]

    @property
    def events(self) -> int | None:
        """Those of all jobs; None where a client does not count them."""
        counts = [one.events for one in self.good_jobs]
        return None if None in counts else sum(one for one in counts if one is not None)

    @property
    def cpu_s(self) -> float:
        return sum(one.cpu_s for one in self.good_jobs)

    def units(self, per: str) -> float | None:
        """How much was done, in what rates count."""
        amount = {"event": self.events, "byte": self.file_bytes, "job": len(self.good_jobs)}[per]
        return float(amount) if amount else None

    def rate(self, per: str) -> float | None:
        """Units per second of all jobs together; None for a sample that failed or counts no such units."""
        units = self.units(per)
        return units / self.wall_s if units and not self.error and self.wall_s > 0 else None


class SampleFile:
    """The samples of a study in a file, of which the last line may be torn by a kill."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[StudySample]:
        """All whole samples; a torn last line is cut off, and its sample is taken again. Raises OptionError."""
        if not self._path.exists():
            return []
        content = self._path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            with self._path.open("r+b") as file:
                file.truncate(len(whole))
        return list(self._samples(whole))

    def _samples(self, content: bytes) -> Iterator[StudySample]:
        seen = set()
        for number, line in enumerate(content.splitlines(), 1):
            try:
                sample: StudySample = from_plain(StudySample, json.loads(line))
            except ValueError as error:
                what = f"line {number} is no sample: {error}"
                raise OptionError(what, path=str(self._path), hint="begin in another directory") from None
            if sample.key not in seen:
                seen.add(sample.key)
                yield sample

    def add(self, sample: StudySample) -> None:
        """Writes a sample, and waits until it is on the disk."""
        line = json.dumps(finite(to_plain(sample))) + "\n"
        with self._path.open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())


@dataclass(frozen=True)
class KeptStudy:
    """What a study's directory says of it: the study, the seed of its orders, the version that began it, and the
    command that did, without its seed; empty where Python code did.
    """

    study: Study
    seed: int
    digest: str
    branchline: str = ""
    command: str = ""


def load_kept(folder: Path) -> KeptStudy:
    """What a directory says of its study. Raises OptionError."""
    try:
        found: KeptStudy = from_plain(KeptStudy, json.loads((folder / STUDY).read_text(encoding="utf-8")))
    except OSError as error:
        raise OptionError(f"there is no study in it: {error.strerror}", path=str(folder)) from None
    except ValueError as error:
        raise OptionError(f"{STUDY} is damaged: {error}", path=str(folder)) from None
    return found
