"""Forecasts of arms of the studies with the simulator, each from another arm of the same study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from docs.generate.tables import table

from branchline.base.quantities import counted, percent, significant
from branchline.lab.limits import CPU_SPREAD
from branchline.lab.simulation.job_plan import ONE_BY_ONE, Block, BlockPlan, ReadingAhead
from branchline.lab.simulation.kernel_requests import KernelSettings, ReadCall, kernel_requests
from branchline.lab.simulation.platform import Disk, Link, Nodes, Platform, Storage
from branchline.lab.simulation.simulated_jobs import JobsPoint, JobsRequest, simulate_jobs
from branchline.lab.studies.study_result import ArmResult, StudyResult
from studies import curves, reads, records
from studies.published import Levels, Number, StudyPair
from studies.yard.disks import HARD_DISK, MB, DiskKind
from studies.yard.links import WideArea
from studies.yard.places import WIDE_AREA, WIDE_AREA_LOADED

#: Rate of the network card of the machine, high enough not to limit anything.
_CARD_BYTES_PER_S = 10e9
#: The kernel reads ahead while a program computes.
_READ_AHEAD = ReadingAhead(requests_in_flight=1, blocks_ahead=1)
#: Requests per second of the disks on which the samples were taken, wherever these requests are on the disk.
_REQUESTS_PER_S = 540.0
#: Maximum number of blocks of a job on a disk: enough for jobs to interleave, few enough to simulate quickly.
_BLOCKS_MAX = 200
#: Maximum relative error of a good forecast.
_NEAR = 0.15


@dataclass(frozen=True)
class Case:
    """Arms of a study to forecast. The arm ``known``, with one job, provides the CPU time, bytes and read calls of a
    job. ``reads`` names the job whose trace has the positions of reads on a disk; without it, a job reads one file
    sequentially.
    """

    study: str
    known: Levels
    of: tuple[Levels, ...]
    disk: DiskKind | None = None
    way: WideArea | None = None
    reads: str = ""


def _jobs(known: Levels, *numbers: int, **others: str) -> tuple[Levels, ...]:
    return tuple({**known, "jobs": str(one), **others} for one in numbers)


def _on_disk(study: str, reads: str, **levels: str) -> Case:
    known = {**levels, "jobs": "1"}
    return Case(study, known, _jobs(known, 8), HARD_DISK, reads=reads)


_ONE_DISK = {"disks": "1", "jobs": "1"}
_SSD = {"device": "solid state disk"}
CASES = (
    _on_disk("gsi-test-1-2", "small ESD", data="ESD"),
    _on_disk("gsi-test-1-2", "small Pythia", data="Pythia"),
    Case(
        "gsi-test-2-1-disks",
        _ONE_DISK,
        _jobs(_ONE_DISK, 2, 4) + _jobs(_ONE_DISK, 4, 8, disks="2") + _jobs(_ONE_DISK, 8, disks="4"),
        HARD_DISK,
        reads="large ESD",
    ),
    Case("grid-table-1", _SSD, ({"device": "WAN"},), way=WIDE_AREA),
    Case("grid-table-1", _SSD, ({"device": "WAN, loaded server"},), way=WIDE_AREA_LOADED),
)


@dataclass(frozen=True)
class JobCost:
    """The resources of a job: CPU time in seconds, bytes read, read calls."""

    cpu_s: float
    bytes_: float
    calls: int

    @classmethod
    def of(cls, arm: ArmResult) -> JobCost:
        """Return the cost of an arm with one job. Raises ValueError for an arm without samples."""
        values = (arm.wall_s, arm.efficiency, arm.bytes_per_s, arm.calls)
        if any(one is None for one in values):
            raise ValueError(f"{arm.name} was not measured")
        wall_s, efficiency, bytes_per_s, calls = (float(one or 0.0) for one in values)
        return cls(efficiency * wall_s, bytes_per_s * wall_s * (arm.read_share or 1.0), max(1, round(calls)))


def forecast(case: Case, arm: Levels, cost: JobCost, cores: int) -> JobsPoint:
    """Simulate the concurrent jobs of an arm on one machine. Raises ValueError for a case without disk and link."""
    jobs = int(arm.get("jobs", "1"))
    nodes = (Nodes("here", 1, cores, _CARD_BYTES_PER_S, slots=jobs),)
    if case.disk is not None:
        kind, names = case.disk, [f"disk {one}" for one in range(int(arm.get("disks", "1")))]
        disks = tuple(Disk(one, float(kind.bytes_per_s), _REQUESTS_PER_S) for one in names)
        platform = Platform(tuple(Storage(one, disk=one) for one in names), nodes, disks)
        plan = _as_traced(case, cost) if case.reads else _from_begin_to_end(cost, kind)
        plans = tuple(replace(plan.at(one), reading=_READ_AHEAD) for one in names)
    elif case.way is not None:
        link = Link("way", case.way.mb_per_s * 1e6, case.way.round_trip_ms / 1e3)
        platform = Platform((Storage("far", links=("way",)),), nodes, links=(link,))
        plans = (_plan(cost, cost.calls, cost.calls, "far"),)
    else:
        raise ValueError(f"{case.study} has neither a disk nor a link")
    return simulate_jobs(JobsRequest(platform, plans, cpu_spread=CPU_SPREAD), jobs)


def _as_traced(case: Case, cost: JobCost) -> BlockPlan:
    """Return a block per read that reaches the disk, with the following reads that are served from the page cache."""
    blocks: list[Block] = []
    for one in reads.plan_of(case.reads).with_cpu(cost.cpu_s).blocks:
        if one.operations or not blocks:
            blocks.append(one)
        else:
            before = blocks[-1]
            sums = before.size_bytes + one.size_bytes, before.cpu_s + one.cpu_s
            blocks[-1] = replace(before, size_bytes=sums[0], cpu_s=sums[1])
    return BlockPlan(tuple(blocks))


def _from_begin_to_end(cost: JobCost, kind: DiskKind) -> BlockPlan:
    size = math.ceil(cost.bytes_ / cost.calls)
    calls = [ReadCall(size * one, size) for one in range(cost.calls)]
    sent = kernel_requests(calls, math.ceil(cost.bytes_), KernelSettings(kind.read_ahead_bytes))
    return _plan(cost, min(cost.calls, _BLOCKS_MAX), sum(len(one) for one in sent), "")


def _plan(cost: JobCost, count: int, requests: int, storage: str) -> BlockPlan:
    """Return a plan that alternately reads and computes, in ``count`` equal blocks."""
    block = Block(storage, cost.bytes_ / count, cost.cpu_s / count, operations=requests / count)
    return BlockPlan((block,) * count, ONE_BY_ONE)


def page(pairs: Sequence[StudyPair], kept: Path) -> str:
    """Return the page with the table of forecasts."""
    published = {one.name: one.published for one in pairs}
    rows, errors = [], []
    for case in CASES:
        record = records.read(case.study, kept)
        own = published[case.study]
        title = f"[{own.objects}]({own.document}.md)"
        if record is None or record.result is None:
            rows.append([title, "", "", "", "not measured", "", ""])
            continue
        note = " (provisional)" if record.reservation else ""
        for levels in case.of:
            row, error = _row(case, levels, record.result, own.numbers, record.machine.cores)
            rows.append([title + note, *row])
            errors.append(abs(error))
    head = ["study", "arm", "forecast from", "published", "measured", "forecast", "error"]
    near = sum(1 for one in errors if one <= _NEAR)
    summary = f"{near} of {len(errors)} forecasts are within {percent(_NEAR, 1.0)} of the measured throughput."
    return "\n".join([_head(kept), summary, "", table(head, rows), curves.section(curves.read(kept))])


def _head(kept: Path) -> str:
    """Return the text above the table, with the values of the disks, links and machines of its cases."""
    disks = {
        f"{one.disk.bytes_per_s / MB:g} MB/s and {_REQUESTS_PER_S:.0f} requests per second" for one in CASES if one.disk
    }
    ways = [one.way for one in CASES if one.way]
    trips = " or ".join(f"{one:g}" for one in sorted({way.round_trip_ms for way in ways}))
    rates = " or ".join(f"{one:g}" for one in sorted({way.mb_per_s for way in ways}))
    found = [record.machine.cores for one in CASES if (record := records.read(one.study, kept))]
    cores = " or ".join(counted(one, "core") for one in sorted(set(found))) or "cores"
    ahead = " or ".join(f"{one >> 10} KiB" for one in sorted({one.disk.read_ahead_bytes for one in CASES if one.disk}))
    return _HEAD.format(
        disks=" or ".join(sorted(disks)),
        link=f"{trips} ms, {rates} MB/s",
        cores=cores,
        ahead=ahead,
        spread=percent(CPU_SPREAD, 1.0),
    )


def _row(
    case: Case, levels: Levels, result: StudyResult, numbers: Sequence[Number], cores: int
) -> tuple[list[str], float]:
    """Return the cells of a row, and the relative error of the forecast of the throughput."""
    known, arm = _arm(result, case.known), _arm(result, levels)
    point = forecast(case, levels, JobCost.of(known), cores)
    share = known.read_share or 1.0
    ours = (arm.bytes_per_s or 0.0) / 1e6, arm.efficiency or 0.0
    # The measured rate counts bytes of the files, the simulator counts bytes read. The measured efficiency is relative
    # to the cores that the jobs can use, the simulated one to the jobs' time.
    jobs = int(levels.get("jobs", "1"))
    said = point.bytes_per_s / share / 1e6, point.cpu_efficiency * jobs / min(jobs, cores)
    error = said[0] / ours[0] - 1 if ours[0] else math.inf
    cells = [
        arm.name,
        known.name,
        _pair(*(_theirs(numbers, levels, name) for name in ("bytes_per_s", "efficiency"))),
        _pair(significant(ours[0]), percent(ours[1], 1.0)),
        _pair(significant(said[0]), percent(said[1], 1.0)),
        f"{100 * error:+.0f} %",
    ]
    return cells, error


def _arm(result: StudyResult, levels: Levels) -> ArmResult:
    for one in result.arms:
        if one.levels == levels:
            return one
    raise ValueError(f"{result.question} has no arm {levels}")


def _theirs(numbers: Sequence[Number], levels: Levels, quantity: str) -> str:
    found = [one for one in numbers if one.arm == levels and one.quantity == quantity]
    return f"{found[0].value:g}{' %' if quantity == 'efficiency' else ''}" if found else ""


def _pair(rate: str, efficiency: str) -> str:
    """Return a rate and an efficiency as text; either may be empty."""
    parts = [f"{rate} MB/s" if rate else "", efficiency]
    return ", ".join(one for one in parts if one)


_HEAD = """# Forecasts of the studies

The simulator of `branchline forecast` predicts arms of the studies, each from another arm of the same study with one
job. That arm provides the CPU time, the bytes and the read calls of a job. The study provides the emulated disks
({disks}) or the link ({link}), and the {cores}. All jobs start at the same time and send one
request after the other, like ROOT without a cache; the kernel reads ahead from disks. The CPU times of jobs vary by
{spread}.

- *Published* is the throughput and the CPU efficiency in the paper, from a text or a table. It comes from other
  machines and from larger files, and does not test the forecast.
- *Measured* is the result of `make studies`. With two or more jobs, most of them wait for our {cores}.
- *Positions of reads* are not part of a record. They come from a trace of one job on the same files (`python -m
  studies.reads`), which determines the requests of Linux for cold files with a read-ahead of {ahead}. A file of 1.3 MB
  needs 38 requests instead of the 11 that its size suggests.
- *Forecasts over a link* lack the round trips of opening files, which a record does not count.
"""
