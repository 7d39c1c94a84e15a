"""Applies the advice for real files and datasets, near and far, for one and for eight jobs, and measures the gain."""

from __future__ import annotations

import math
import multiprocessing
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import branchline
from benches.conditions import machine_lines
from benches.data import shared_folder
from benches.tables import table
from branchline.errors import BranchlineError
from branchline.lab.advice.advise import Advised, advise, do, gains_of
from branchline.lab.advice.timed_read import ReadingRequest, read_at_once_s
from branchline.lab.forecast.subject import Subject, situated, subject_of
from branchline.lab.statistics import PAIRS_MIN, Ratio, paired_ratio
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile

#: Real files below this size stand for datasets of many such files.
SMALL_BYTES, COPIES = 1_000_000, 40
#: Round trip of the far storage, and the numbers of concurrent jobs.
FAR, JOBS = "latency=30ms", (1, 8)
#: Time for which a change is measured, and the number of pairs that end it earlier.
MEASURED_S, PAIRS_MAX = 20.0, 25
#: Goals: the fraction of gains inside their intervals, and the median error as a part of the time.
INSIDE_LEAST, ERROR_MOST, GAIN_LEAST = 0.85, 0.15, 0.02

Say = Callable[[str], None]


@dataclass(frozen=True)
class Situation:
    """Where the files are, and how many jobs read them."""

    is_far: bool
    jobs: int

    def __str__(self) -> str:
        return f"{'30 ms away' if self.is_far else 'near'}, {self.jobs} job{'s' if self.jobs > 1 else ''}"


@dataclass(frozen=True)
class MeasuredGain:
    """A piece of advice for a dataset, and the gain that was measured, with the interval of its pairs."""

    dataset: str
    situation: str
    advice: str
    said: float
    said_low: float
    said_high: float
    measured: float
    low: float | None
    high: float | None
    pairs: int

    @property
    def is_inside(self) -> bool:
        """Whether the measured gain is compatible with the interval of the advice."""
        low, high = (self.measured if one is None else one for one in (self.low, self.high))
        return low <= self.said_high and high >= self.said_low

    @property
    def error(self) -> float:
        """Difference between the advised and the measured gain, as a part of the time."""
        return abs(self.said - self.measured)


SITUATIONS = tuple(Situation(is_far, jobs) for is_far in (False, True) for jobs in JOBS)


def advice_gains_page(cache: Path, most: int, say: Say) -> tuple[str, list[dict[str, Any]]]:
    """Return the page and a row for each piece of advice, for the ``most`` largest real files."""
    shared = shared_folder()
    if shared is None:
        raise SystemExit("advice-gains needs the shared test data; BRANCHLINE_SHARED names its folder")
    files = sorted((shared / "data" / "root").glob("*.root"), key=lambda one: -one.stat().st_size)
    found: list[MeasuredGain] = []
    left_out: list[str] = []
    used = 0
    # Each dataset is handled in a new process, like a command, so that links are measured again.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as processes:
        for file in files:
            if used == most:
                break
            say(f"advice-gains: {file.name}")
            try:
                found += processes.submit(gains_of_dataset, file, cache).result()
                used += 1
            except BranchlineError as error:
                left_out.append(f"{file.name}: {error}")
    return page(found, used, left_out), [asdict(one) for one in found]


def gains_of_dataset(file: Path, cache: Path) -> list[MeasuredGain]:
    """Return the measured gains of all advice for a file, or for a dataset of such files."""
    with tempfile.TemporaryDirectory(dir=cache) as name:
        folder = Path(name)
        tree = _largest_tree(file)
        paths = [f"{path}:{tree}" for path in _dataset(file, folder / "data")]
        return [one for situation in SITUATIONS for one in _gains(paths, situation, folder)]


def _largest_tree(file: Path) -> str:
    """Return the name of the tree with the most bytes."""
    with branchline.open(file) as opened:
        names = opened.keys(filter_classname=["TTree", "ROOT::RNTuple"])
        return max((name.partition(";")[0] for name in names), key=lambda name: int(opened[name].compressed_bytes))


def _dataset(file: Path, folder: Path) -> list[str]:
    folder.mkdir()
    copies = COPIES if file.stat().st_size < SMALL_BYTES else 1
    paths = [folder / f"{number:02}-{file.name}" for number in range(copies)]
    for path in paths:
        shutil.copyfile(file, path)
    return [str(path) for path in paths]


def _gains(paths: list[str], situation: Situation, folder: Path) -> Iterator[MeasuredGain]:
    access = Access(throttle=FAR) if situation.is_far else Access()
    subject = situated(subject_of(paths, access=access), situation.jobs, is_cold=False)
    for number, one in enumerate(gains_of(advise(subject))):
        if one.change.writes or one.change.access is not None:
            ratio = _measured(one, subject, folder / f"{situation.is_far}-{situation.jobs}-{number}")
            gain = one.advice.gain
            bounds = [None if part is None else 1 - part for part in (ratio.high, ratio.low)]
            yield MeasuredGain(
                Path(paths[0].rpartition(":")[0]).name.partition("-")[2]
                + (f", {len(paths)} files" if len(paths) > 1 else ""),
                str(situation),
                one.advice.id,
                gain.value,
                gain.low,
                gain.high,
                1 - ratio.value,
                *bounds,
                ratio.pairs,
            )


def _measured(advised: Advised, subject: Subject, folder: Path) -> Ratio:
    """Read the whole dataset before and after the change alternately, each job in a new process."""
    folder.mkdir()
    change = advised.change
    files = do(advised, subject.files, folder / "changed") if change.writes else subject.files
    series: list[list[float]] = [[], []]
    begin_s = time.monotonic()
    while len(series[1]) < PAIRS_MAX and (len(series[1]) < PAIRS_MIN or time.monotonic() - begin_s < MEASURED_S):
        for own, read, access in zip(
            series, (subject.files, files), (subject.access, change.access or subject.access), strict=True
        ):
            own.append(read_at_once_s(_requests(subject, read, access, folder), folder))
    return paired_ratio(*series)


def _requests(subject: Subject, files: Sequence[DataFile], access: Access, folder: Path) -> list[ReadingRequest]:
    """Return a request for each job, all of which read all files."""
    request = ReadingRequest.of(files, subject.branches, access, subject.threads, folder)
    return [replace(request, memory_limit_bytes=subject.memory_limit_bytes)] * subject.jobs


def page(found: Sequence[MeasuredGain], datasets: int, left_out: Sequence[str]) -> str:
    """Return the results in Markdown."""
    head = ["dataset", "situation", "advice", "advised gain", "measured gain", "inside"]
    rows = [
        [
            one.dataset,
            one.situation,
            f"`{one.advice}`",
            f"{_percent(one.said)} ({_percent(one.said_low)} to {_percent(one.said_high)})",
            _percent(one.measured)
            + ("" if one.low is None or one.high is None else f" ({_percent(one.low)} to {_percent(one.high)})"),
            "yes" if one.is_inside else "no",
        ]
        for one in found
    ]
    inside = sum(one.is_inside for one in found)
    error = statistics.median(one.error for one in found) if found else math.nan
    useless = sum(one.measured < GAIN_LEAST for one in found)
    lines = [
        "# Advice applied to real files",
        "",
        *machine_lines(1),
        "",
        f"{datasets} real files, those below {SMALL_BYTES // 10**6} MB as datasets of {COPIES} copies, are read whole "
        "near, and over an emulated round trip of 30 ms, by one and by eight jobs. Every gain that `branchline advise` "
        "names is applied to all files and measured in pairs. Gains are fractions of the time, with the 90 % interval "
        "of the advice and the 96 % interval of the pairs.",
        "",
        table(head, rows),
        "",
        f"- Compatible with its interval: {inside} of {len(found)} (goal: at least {INSIDE_LEAST:.0%}).",
        f"- Median error: {error:.0%} of the time (goal: at most {ERROR_MOST:.0%}).",
        f"- Gains below {GAIN_LEAST:.0%}: {useless} (goal: 0).",
        *(["", "## Left out", "", *(f"- {one}" for one in left_out)] if left_out else []),
    ]
    return "\n".join(lines) + "\n"


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"
