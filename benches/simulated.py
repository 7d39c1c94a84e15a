"""A train over 10 000 files on 1000 workers in simulated time.

Runs the real `branchline.trains.running.train_run.run_train` on a pool of simulated workers, which only take time. The
same seed gives the same figures.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from unittest.mock import patch

from benches.simulated_field import HEALTHY, Durations, Field, seconds_per_byte
from benches.simulated_pool import Counts, SimulatedPool
from benches.tables import table
from branchline.jobs.fold_tree import FoldNode, FoldTree
from branchline.jobs.interruption import Interruption
from branchline.jobs.subjob import SubJob
from branchline.jobs.where import OnPool
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.dataset import Dataset
from branchline.records.sensors.record import FileRecord
from branchline.trains.plan import LoadedWagons, TrainPlan, TrainRequest
from branchline.trains.run_options import RunOptions
from branchline.trains.running.train_run import run_train
from branchline.trains.subjobs.share_result import JobError, ShareResult, WagonShare, WorkerTimes
from branchline.trains.subjobs.shares import Share, cut
from branchline.trains.wagons.clock import PHASES

EVENTS_PER_FILE = 125
#: Each sub-job adds 1 to its own digit in this base, so that the sum shows how often each sub-job was counted.
BASE = 16
#: If less than this fraction of the workers is busy, a job is in its tail or starting.
FULL_PART = 0.9


class Counted:
    """The result of sub-jobs: which ones they are, and a sum of floating-point numbers, which depends on the order of
    addition.

    ``alive`` is the current number of results in memory, ``alive_max`` its maximum.
    """

    alive = 0
    alive_max = 0

    def __init__(self, marks: int, value: float) -> None:
        self.marks, self.value = marks, value
        Counted.alive += 1
        Counted.alive_max = max(Counted.alive_max, Counted.alive)

    def __del__(self) -> None:
        Counted.alive -= 1

    def __reduce__(self) -> tuple[object, ...]:
        return (Counted, (self.marks, self.value))

    def __add__(self, other: Counted) -> Counted:
        return Counted(self.marks + other.marks, self.value + other.value)

    def times(self, count: int) -> list[int]:
        """Return how often each sub-job was counted."""
        digits = f"{self.marks:0{count}x}"[::-1]
        return [int(one, BASE) for one in digits]


def of_subjob(index: int) -> tuple[int, float]:
    """Return the result of a sub-job: its mark, and a number with many digits and a random magnitude."""
    return BASE**index, math.sin(index + 1) * 10.0 ** (index % 13)


def folded_value(count: int) -> float:
    """Return the sum of the numbers of all sub-jobs, added along the fixed tree of neighbours."""
    tree = FoldTree(count)

    def sum_of(node: FoldNode) -> float:
        if node.stage == 0:
            return of_subjob(node.index)[1]
        first, *others = (sum_of(one) for one in tree.parts_of(node))
        for one in others:
            first += one
        return first

    return sum_of(tree.root)


class Wagon:
    """The wagon of the simulated train. It is never called."""

    name = "Counted"
    branches = ("pt",)

    def process(self, events: Any) -> None:
        raise NotImplementedError("simulated workers must not call wagons")


class CountedOutcomes:
    """Creates the outcomes of sub-jobs: their marks, and records of realistic size."""

    def finished(self, subjob: SubJob, share: Share, worker: str, seconds: float) -> ShareResult:
        events = EVENTS_PER_FILE * len(share.files)
        wagon = WagonShare(Counted(*of_subjob(subjob.index)), events, 1, seconds, seconds)
        files = [
            FileRecord(path=one.path, worker=worker, subjobs=1, entries=EVENTS_PER_FILE, events=EVENTS_PER_FILE)
            for one in share.files
        ]
        return ShareResult(wagons={Wagon.name: wagon}, events=events, files=files, times=_times(worker))

    def failed(self, share: Share, worker: str) -> ShareResult:
        error = JobError(OSError(f"{share.files[0].path} cannot be read on {worker}"), "")
        return ShareResult(wagons={Wagon.name: WagonShare()}, error=error, is_whole=False, times=_times(worker))


def _times(worker: str) -> WorkerTimes:
    phases = dict.fromkeys(PHASES, 0.0)
    return WorkerTimes(time.monotonic(), worker, phases, 0.0, 0)


@dataclass(frozen=True)
class SimulatedRequest(TrainRequest):
    """The request of a train whose files are never opened."""

    by_file: bool = False

    def plan(self, loaded: LoadedWagons, progress: object = None) -> TrainPlan:
        del progress  # There are no remote files.
        files: list[DataFile] = list(self.dataset)  # type: ignore[call-overload]
        shares = [Share((one,)) for one in files] if self.by_file else cut(files)
        return TrainPlan(
            self.options.for_plan(), loaded, Dataset(tuple(files)), (), shares, {}, Wagon.branches, 1000, []
        )


@dataclass(frozen=True)
class Figures:
    """The figures of a train. Times are compared with the time from its start to its end, and the times of workers with
    the total time of all workers.
    """

    subjobs: int
    workers: int
    makespan_s: float
    ideal_s: float
    counts: Counts
    times: tuple[int, ...]
    value: float
    repeated: int
    lost: int
    missing: int
    exit_code: int
    results_held_max: int

    @property
    def busy_part(self) -> float:
        """The fraction of the workers' time spent working, including discarded work."""
        return sum(busy * lasted_s for busy, lasted_s in self._spans()) / (self.workers * self.makespan_s)

    @property
    def tail_part(self) -> float:
        """The fraction of the time with less than 90 % of the workers busy, after that level was first reached."""
        spans = list(self._spans())
        full = [one for one, (busy, _) in enumerate(spans) if busy >= FULL_PART * self.workers]
        begun = full[0] if full else 0
        return sum(lasted for busy, lasted in spans[begun:] if busy < FULL_PART * self.workers) / self.makespan_s

    @property
    def merge_part(self) -> float:
        """The fraction of the time in which the submitting process merged results."""
        return self.counts.fold_s / self.makespan_s

    def _spans(self) -> Iterator[tuple[int, float]]:
        changes = [(1.0, 0), *self.counts.busy, (1.0 + self.makespan_s, 0)]
        for (begin_s, busy), (end_s, _) in pairwise(changes):
            yield busy, end_s - begin_s


def simulated(field: Field, files_count: int, seconds_by_byte: Sequence[float], *, by_file: bool) -> Figures:
    """Run a train over this many files."""
    durations = Durations(field, seconds_by_byte)
    pool = SimulatedPool(field, durations, CountedOutcomes())
    options = RunOptions(step_size=1000, on=OnPool(pool, pool.now_s))
    files = field.files(files_count)
    Counted.alive_max = Counted.alive
    result = run_train(SimulatedRequest([Wagon()], files, options, by_file=by_file), Interruption())
    output, record = result.outputs[Wagon.name], result.record
    work_s = [durations.near_s([one]) for one in files]
    return Figures(
        subjobs=record.subjobs,
        workers=field.workers,
        makespan_s=pool.now_s() - 1.0,
        ideal_s=max(sum(work_s) / field.workers, *work_s),
        counts=pool.counts,
        times=tuple(output.times(record.subjobs)),
        value=output.value,
        repeated=len(record.repeated),
        lost=len(record.workers_lost),
        missing=len(record.missing),
        exit_code=result.exit_code,
        results_held_max=Counted.alive_max,
    )


#: The constants that control policies, in the modules that use them.
COPIES = "branchline.jobs.stragglers.TAIL_FACTOR"
WINDOW = "branchline.jobs.pools.pooled_workers.GROUPS_PER_SLOT"
FOLDING = "branchline.jobs.pools.pooled_workers.FOLD_AFAR_MIN_BYTES"
NO_COPIES: Mapping[str, float] = {COPIES: math.inf}


@contextmanager
def changed(constants: Mapping[str, float]) -> Iterator[None]:
    """Run with other values of these constants."""
    with ExitStack() as stack:
        for name, value in constants.items():
            stack.enter_context(patch(name, value))
        yield


def without_copies() -> AbstractContextManager[None]:
    """Disable second copies of slow sub-jobs inside a ``with`` block, with an infinite factor."""
    return changed(NO_COPIES)


@dataclass(frozen=True)
class Arm:
    """A configuration of the train, with changed constants."""

    name: str
    field: Field
    constants: Mapping[str, float]
    by_file: bool = True


def arms_of(field: Field) -> list[Arm]:
    """Return the arms, each with one policy changed."""
    unknown = replace(field, knows_sites=False)
    return [
        Arm("default policies", field, {}),
        Arm("no speculative execution", field, NO_COPIES),
        Arm("no locality", unknown, {}),
        Arm("neither", unknown, NO_COPIES),
        Arm("one group per worker", field, {WINDOW: 1}),
        Arm("eight groups per worker", field, {WINDOW: 8}),
        Arm("workers merge neighbouring results", field, {FOLDING: 1}),
        Arm("no failures", replace(field, faults=HEALTHY), {}),
        Arm("default policies, default sub-jobs", field, {}, by_file=False),
    ]


def simulated_page(
    files: int, workers: int, seed: int, progress: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Simulate all arms and return the page and its rows."""
    base = Field(workers=workers, seed=seed)
    by_byte = seconds_per_byte()
    parts, rows = [], []
    for factor in (1.0, 10.0):
        cells = []
        for arm in arms_of(replace(base, work_factor=factor)):
            progress(f"simulating {files} files, work times {factor:.0f}: {arm.name}")
            with changed(arm.constants):
                figures = simulated(arm.field, files, by_byte, by_file=arm.by_file)
            check(figures)
            rows.append(_row(arm, factor, figures))
            cells.append(_cells(arm, figures))
        median_s = factor * by_byte[len(by_byte) // 2] * 3e6
        parts += [f"## Files that take {median_s:.1f} s (median)", "", table(HEAD, cells), ""]
    return "\n".join([*_opening(base, files, len(by_byte)), *parts]), rows


def check(figures: Figures) -> None:
    """Raise RuntimeError unless each sub-job is counted once and the sum equals the sum along the fixed tree."""
    wrong = [index for index, count in enumerate(figures.times) if count != 1]
    if figures.exit_code or figures.missing or wrong:
        msg = f"{len(wrong)} sub-jobs do not count once, {figures.missing} are missing, as {wrong[:5]}"
        raise RuntimeError(msg)
    if figures.value != folded_value(figures.subjobs):
        raise RuntimeError("the sum differs from the sum along the fixed tree")


HEAD = [
    "the train", "sub-jobs", "makespan s", "ideal s", "times ideal", "workers busy %", "tail %", "merge %", "far %",
    "attempts", "ran twice", "lost or set aside", "groups in flight", "results held",
]  # fmt: skip


def _cells(arm: Arm, one: Figures) -> list[str]:
    counts = one.counts
    numbers = [
        f"{one.subjobs}", f"{one.makespan_s:.1f}", f"{one.ideal_s:.1f}", f"{one.makespan_s / one.ideal_s:.2f}",
        f"{100 * one.busy_part:.0f}", f"{100 * one.tail_part:.0f}", f"{100 * one.merge_part:.0f}",
        f"{100 * counts.far_attempts / counts.attempts:.0f}", f"{counts.attempts}", f"{one.repeated}", f"{one.lost}",
        f"{counts.flying_max}", f"{one.results_held_max}",
    ]  # fmt: skip
    return [arm.name, *numbers]


def _row(arm: Arm, factor: float, one: Figures) -> dict[str, Any]:
    counts = {name: value for name, value in vars(one.counts).items() if name != "busy"}
    left_out = ("counts", "times")
    plain = {name: value for name, value in vars(one).items() if name not in left_out}
    parts = {"busy_part": one.busy_part, "tail_part": one.tail_part, "merge_part": one.merge_part}
    return {"arm": arm.name, "work_factor": factor, **plain, **parts, **counts}


def _opening(field: Field, files: int, recorded: int) -> list[str]:
    faults = field.faults
    nodes = -(-field.workers // field.workers_per_node)
    return [
        "# A train in simulated time",
        "",
        f"{files} files of 3 MB at {field.elements} storage elements of {field.sites} sites, {field.workers} workers "
        f"on {nodes} nodes, seed {field.seed}; the same seed gives the same figures. Only the workers and the clock "
        "are simulated. Windows, groups, locality, retries, excluded nodes, speculative execution and merging are the "
        "real code. In every row, each sub-job was counted once, and the sum was bit-identical to the sum along "
        "the fixed tree.",
        "",
        f"- the time of a file is drawn from {recorded} files of a real job (the demo's wagons); it is "
        f"{field.far_factor} times as long from another site",
        f"- {faults.slow_nodes_part:.0%} of the nodes are {faults.slow_node_factor:.0f} times as slow, "
        f"{faults.slow_elements} of the storage elements {faults.slow_element_factor:.0f} times; "
        f"{faults.stragglers_part:.1%} of the attempts take {faults.straggler_factor:.0f} times as long",
        f"- {faults.black_holes} nodes fail every sub-job immediately; in {faults.crashes_part:.1%} of the attempts "
        f"the process dies; a worker lives {faults.worker_life_s / 3600:.0f} h on average and restarts after "
        f"{faults.restart_s:.0f} s",
        f"- a process takes {field.process_start_s} s to start; the submitting process takes {1000 * field.submit_s} "
        f"ms to submit a group and {1000 * field.fold_s} ms to merge a result",
        "- ideal: healthy workers read all files at their own sites without pauses; at least the longest file",
        f"- tail: the fraction of the time, after the start, with fewer than {FULL_PART:.0%} of the workers busy",
        "- merge: the fraction of the time in which the submitting process merged results",
        "",
    ]
