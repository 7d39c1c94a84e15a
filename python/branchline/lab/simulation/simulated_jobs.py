"""Simulate concurrent jobs on a platform: their times, their total throughput, and the resource that limits them.

The simulator is in the compiled module. Platforms and plans for it refer to resources by index instead of by name
(``Numbered...``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np

from branchline import _core
from branchline.base.plain import to_plain
from branchline.errors import OptionError
from branchline.lab.limits import FREE_PART, REMOTE_GAP_BYTES, SATURATION_PART, SIMULATED_JOBS_MAX
from branchline.lab.simulation.job_plan import BlockPlan
from branchline.lab.simulation.platform import Cache, Disk, Link, Platform, Server, Storage
from branchline.reading.access import Access

#: Version of the format of results.
JOBS_AT_ONCE_VERSION = 1
#: Names of limits of requests that are not resources.
WINDOW, ROUND_TRIPS = "the window of TCP", "round trips"


@dataclass(frozen=True)
class JobsRequest:
    """The jobs to simulate, which use the plans in turn. Equal seeds give equal results.

    Start times are random within ``start_spread_s``. The computing times of a job are the times in its plan,
    multiplied by a random factor from a log-normal distribution; ``cpu_spread`` is the standard deviation of the
    logarithm. Jobs read from ``datasets_count`` datasets in turn; None stands for one dataset per job. Jobs with
    equal plans and datasets read the same bytes, which a cache may contain.
    """

    platform: Platform
    plans: tuple[BlockPlan, ...]
    access: Access = field(default_factory=Access)
    start_spread_s: float = 0.0
    cpu_spread: float = 0.0
    datasets_count: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class JobTimes:
    """Quantiles of the times of jobs in seconds, from start to end, without the wait for a slot."""

    p5_s: float
    median_s: float
    p95_s: float
    max_s: float


@dataclass(frozen=True)
class Load:
    """The load of a resource.

    ``used_part`` is the utilization until the end of the last job. ``limiting_part`` is the fraction of the time of all
    requests (for cores, of all computing) during which the resource was the limit.
    """

    name: str
    used_part: float
    limiting_part: float


@dataclass(frozen=True)
class JobsPoint:
    """The result of the simulation of one number of concurrent jobs."""

    jobs: int
    makespan_s: float
    job_times: JobTimes
    slot_wait_s: float
    bytes_per_s: float
    #: CPU time of the jobs, divided by the time for which they occupied cores.
    cpu_efficiency: float
    #: Fraction of the jobs' bytes that came from caches.
    cached_part: float
    loads: tuple[Load, ...]

    @property
    def limited_by(self) -> str:
        """Name of the resource that limited requests for the longest time."""
        reads = [one for one in self.loads if not one.name.startswith("cores of ")]
        return max(reads, key=lambda one: one.limiting_part).name if reads else ""


@dataclass(frozen=True)
class SimulatedJob:
    """One simulated job. ``nodes`` and ``storage`` are the names of its type of nodes and of its storage element. Times
    are in seconds since the first submission; ``begin_s`` is when the job got a slot. ``threads`` is the number of
    cores that it occupied.
    """

    begin_s: float
    end_s: float
    cpu_s: float
    threads: float
    read_bytes: float
    cached_bytes: float
    nodes: str
    storage: str


@dataclass(frozen=True)
class Saturation:
    """The smallest number of jobs, within 1 %, at which each job runs at less than 90 % of its speed when alone, and
    the resource that limits the jobs.
    """

    jobs: int
    limited_by: str


@dataclass(frozen=True)
class JobsAtOnce:
    """The result of a simulation, with a point for each number of jobs. ``saturation`` is None if the jobs do not
    saturate the platform. ``jobs`` are the jobs of the last point.
    """

    points: tuple[JobsPoint, ...]
    saturation: Saturation | None
    seed: int
    jobs: tuple[SimulatedJob, ...] = field(default=(), repr=False)
    jobs_at_once_version: int = JOBS_AT_ONCE_VERSION

    def to_plain(self) -> Mapping[str, object]:
        """Return the result without its jobs as dicts, lists, numbers and strings."""
        plain = dict(to_plain(replace(self, jobs=())))
        del plain["jobs"]
        return plain


def jobs_at_once(request: JobsRequest, counts: Sequence[int]) -> JobsAtOnce:
    """Simulate each number of jobs, and find the number at which jobs slow each other down. Raises OptionError."""
    wrong = [one for one in counts if not 1 <= one <= SIMULATED_JOBS_MAX]
    if wrong or not counts:
        raise OptionError(f"cannot simulate {wrong[-1] if wrong else 'no'} jobs", hint="give 1 to 100000")
    counted = {count: simulate_counted(request, count) for count in sorted(set(counts))}
    found = {count: one.point for count, one in counted.items()}
    saturation = _saturation(request, found)
    return JobsAtOnce(tuple(found.values()), saturation, request.seed, counted[max(counts)].jobs)


def counts_between(first: int, last: int) -> list[int]:
    """Return numbers of jobs from ``first`` to ``last``, each about 1.5 times the previous one: 1, 2, 3, 4, 6, 9 ..."""
    if not 1 <= first <= last:
        raise OptionError(f"invalid range of numbers of jobs: {first} to {last}", hint="give a range such as 1..1000")
    found = [first]
    while found[-1] < last:
        found.append(min(max(found[-1] + 1, round(found[-1] * 1.5)), last))
    return found


def _saturation(request: JobsRequest, found: dict[int, JobsPoint]) -> Saturation | None:
    """Find the saturation by bisection, which is possible since the time of jobs grows with their number. Each step
    simulates many jobs, so bisection stops at the precision that the random computing times allow.
    """
    alone = [simulate_jobs(replace(request, plans=(plan,)), 1).job_times.median_s for plan in request.plans]
    alone_s = float(np.median(alone))

    def is_held_up(point: JobsPoint) -> bool:
        return alone_s < FREE_PART * point.job_times.median_s

    held = [count for count, point in found.items() if is_held_up(point)]
    if not held:
        return None
    low, high = max([count for count in found if count < min(held)], default=1), min(held)
    points = dict(found)
    while high - low > max(1, int(high * SATURATION_PART)):
        middle = (low + high) // 2
        points[middle] = simulate_jobs(request, middle)
        low, high = (low, middle) if is_held_up(points[middle]) else (middle, high)
    return Saturation(high, points[high].limited_by)


def simulate_jobs(request: JobsRequest, count: int) -> JobsPoint:
    """Simulate ``count`` concurrent jobs. Raises OptionError for an invalid platform or invalid plans."""
    return simulate_counted(request, count).point


@dataclass(frozen=True)
class CountedPoint:
    """The result of the simulation of one number of jobs, with its jobs, and counts of the simulator's work, which do
    not depend on the machine.
    """

    point: JobsPoint
    totals: _core.SimulationTotals
    jobs: tuple[SimulatedJob, ...]


def simulate_counted(request: JobsRequest, count: int) -> CountedPoint:
    """Simulate ``count`` concurrent jobs, and also return the simulator's work. Raises the same errors as
    `simulate_jobs`.
    """
    if not request.plans:
        raise OptionError("no plan was given for the jobs")
    simulation = _core.Simulation(numbered_platform(request.platform))
    for one in request.plans:
        simulation.add_plan(numbered_plan(one, request.platform, request.access))
    chance = Random(request.seed)  # noqa: S311 - not for secrets
    for number in range(count):
        plan = number % len(request.plans)
        datasets = request.datasets_count
        job = NumberedJob(
            plan,
            start_s=chance.random() * request.start_spread_s,
            prepare_s=request.plans[plan].prepare_s,
            cpu_factor=math.exp(chance.gauss(0.0, 1.0) * request.cpu_spread),
            data=number if datasets is None else number % max(datasets, 1),
        )
        simulation.submit(job)
    done = simulation.all_done()
    return CountedPoint(_point(request, simulation, done), simulation.totals(), tuple(_jobs(request, done)))


def _jobs(request: JobsRequest, done: Sequence[_core.JobDone]) -> Iterator[SimulatedJob]:
    """Yield the jobs. Nodes are numbered over all types of nodes."""
    first_s = min(one.start_s for one in done)
    names = [one.name for one in request.platform.nodes for _ in range(one.count)]
    for one in done:
        plan = request.plans[one.job % len(request.plans)]
        yield SimulatedJob(
            one.begin_s - first_s,
            one.end_s - first_s,
            one.cpu_s,
            plan.reading.threads,
            one.read_bytes,
            one.cached_bytes,
            names[one.node],
            plan.blocks[0].storage,
        )


def _point(request: JobsRequest, simulation: _core.Simulation, done: Sequence[_core.JobDone]) -> JobsPoint:
    begin_s = min(one.start_s for one in done)
    makespan_s = max(one.end_s for one in done) - begin_s
    took = np.array([one.end_s - one.begin_s for one in done])
    read = sum(one.read_bytes for one in done)
    threads = [request.plans[number % len(request.plans)].reading.threads for number in range(len(done))]
    held_s = sum(span * threads[one.job] for span, one in zip(took.tolist(), done, strict=True))
    p5_s, median_s, p95_s = (float(one) for one in np.percentile(took, [5, 50, 95]))
    return JobsPoint(
        jobs=len(done),
        makespan_s=makespan_s,
        job_times=JobTimes(p5_s, median_s, p95_s, float(took.max())),
        slot_wait_s=float(np.mean([one.begin_s - one.start_s for one in done])),
        bytes_per_s=read / makespan_s if makespan_s else 0.0,
        cpu_efficiency=sum(one.cpu_s for one in done) / held_s if held_s else 0.0,
        cached_part=sum(one.cached_bytes for one in done) / read if read else 0.0,
        loads=tuple(_loads(request.platform, simulation, makespan_s)),
    )


def _loads(platform: Platform, simulation: _core.Simulation, makespan_s: float) -> list[Load]:
    """Return the loads of all used resources, and of the limits that are not resources. Nodes of the same type count as
    one resource.
    """
    sums: dict[str, list[float]] = {}
    for one in simulation.uses():
        entry = sums.setdefault(_name(platform, one), [0.0, 0.0, 0.0])
        for place, value in enumerate((one.units_per_s, one.moved, one.limited_s)):
            entry[place] += value
    totals = simulation.totals()
    requests_s = totals.transfers_s + totals.round_trips_s
    loads, held_s = [], 0.0
    for name, (rate, moved, limited_s) in sums.items():
        is_cores = name.startswith("cores of ")
        of_s = totals.computing_s if is_cores else requests_s
        held_s += 0.0 if is_cores else limited_s
        if moved:
            used = moved / (rate * makespan_s) if makespan_s else 0.0
            loads.append(Load(name, used, limited_s / of_s if of_s else 0.0))
    if requests_s:
        loads.append(Load(WINDOW, 0.0, max(totals.transfers_s - held_s, 0.0) / requests_s))
        loads.append(Load(ROUND_TRIPS, 0.0, totals.round_trips_s / requests_s))
    return loads


def _name(platform: Platform, one: _core.ResourceUse) -> str:
    if one.kind in ("disk", "operations"):
        name = platform.disks[one.number].name
        return f"disk {name}" if one.kind == "disk" else f"operations of disk {name}"
    if one.kind == "server":
        return f"server {platform.servers[one.number].name}"
    if one.kind == "link":
        return f"link {platform.links[one.number].name}"
    name = platform.nodes[one.number].name
    return f"cores of {name}" if one.kind == "cores" else f"network of {name}"


# --- platforms and plans for the compiled module ----------------------------------------------------------------------


@dataclass(frozen=True)
class NumberedPlatform:
    """A platform whose parts are identified by index."""

    disks: Sequence[Disk]
    servers: Sequence[Server]
    links: Sequence[Link]
    caches: Sequence[NumberedCache]
    storages: Sequence[NumberedWay]
    nodes: Sequence[NumberedNodes]


@dataclass(frozen=True)
class NumberedWay:
    """The path to a storage element or to a cache, given by indices of disk, server, links and cache."""

    disk: int | None
    server: int | None
    links: list[int]
    window_bytes: float | None
    streams: int
    cache: int | None


@dataclass(frozen=True)
class NumberedCache:
    """A cache, and the path to it."""

    size_bytes: float
    way: NumberedWay


@dataclass(frozen=True)
class NumberedNodes:
    """Worker nodes of one type."""

    count: int
    cores: int
    slots: int
    bytes_per_s: float
    speed: float


def numbered_platform(platform: Platform) -> NumberedPlatform:
    """Replace the names in a platform by indices. Raises OptionError for unknown and duplicate names."""
    disks, servers = _numbers("disk", platform.disks), _numbers("server", platform.servers)
    links, caches = _numbers("link", platform.links), _numbers("cache", platform.caches)
    _numbers("storage", platform.storages)

    def way(one: Storage | Cache) -> NumberedWay:
        cache = one.cache if isinstance(one, Storage) else None
        return NumberedWay(
            None if one.disk is None else _number(disks, "disk", one.disk, one.name),
            None if one.server is None else _number(servers, "server", one.server, one.name),
            [_number(links, "link", name, one.name) for name in one.links],
            one.window_bytes,
            one.streams,
            None if cache is None else _number(caches, "cache", cache, one.name),
        )

    return NumberedPlatform(
        platform.disks,
        platform.servers,
        platform.links,
        [NumberedCache(one.size_bytes, way(one)) for one in platform.caches],
        [way(one) for one in platform.storages],
        [
            NumberedNodes(
                one.count, one.cores, one.cores if one.slots is None else one.slots, one.bytes_per_s, one.speed
            )
            for one in platform.nodes
        ],
    )


@dataclass(frozen=True)
class NumberedPlan:
    """A plan that refers to storage elements by index."""

    blocks: list[NumberedBlock]
    reading: NumberedReading


@dataclass(frozen=True)
class NumberedBlock:
    """A block that refers to its storage element by index."""

    storage: int
    bytes: float
    operations: float
    round_trips: float
    cpu_s: float


@dataclass(frozen=True)
class NumberedReading:
    """How far reading runs ahead of computing, including the engine's choices."""

    requests_in_flight: int
    bytes_in_flight: float
    blocks_ahead: int
    threads: float


@dataclass(frozen=True)
class NumberedJob:
    """A job: the index of its plan, and its random numbers. ``node`` is the index of a node, None for the node with the
    fewest jobs.
    """

    plan: int
    start_s: float
    prepare_s: float
    cpu_factor: float
    data: int
    node: int | None = None


def numbered_plan(plan: BlockPlan, platform: Platform, access: Access) -> NumberedPlan:
    """Replace the names in a plan by indices, and add the engine's choices for the link to the storage element. Raises
    OptionError.
    """
    storages = _numbers("storage", platform.storages)
    blocks = [
        NumberedBlock(
            _number(storages, "storage", one.storage, "a block"),
            one.size_bytes,
            one.operations,
            one.round_trips,
            one.cpu_s,
        )
        for one in plan.blocks
    ]
    if not blocks:
        raise OptionError("a plan has no blocks, so there is nothing to simulate")
    reading = plan.reading
    chosen = _chosen(platform, platform.storages[blocks[0].storage], access)
    # The engine returns 0 for a link without latency, which means that requests are sequential.
    requests = max(chosen.requests_in_flight, 1) if reading.requests_in_flight is None else reading.requests_in_flight
    bytes_ = chosen.bytes_in_flight if reading.bytes_in_flight is None else reading.bytes_in_flight
    ahead = max(plan.blocks_ahead(), requests - 1) if reading.blocks_ahead is None else reading.blocks_ahead
    return NumberedPlan(blocks, NumberedReading(requests, float(bytes_), ahead, reading.threads))


def _chosen(platform: Platform, storage: Storage, access: Access) -> _core.Link:
    """Return the engine's choice for the link to a storage element that is not used otherwise."""
    links = {one.name: one for one in platform.links}
    passed = [links[name] for name in storage.links]
    round_trip_s = sum(one.round_trip_s for one in passed)
    rates = [one.bytes_per_s for one in passed]
    rates += [one.bytes_per_s for one in platform.servers if one.name == storage.server]
    rates += [one.bytes_per_s for one in platform.disks if one.name == storage.disk]
    rate = min(rates, default=math.inf)
    return _core.link_chosen(access, round_trip_s, rate if math.isfinite(rate) else 0.0, REMOTE_GAP_BYTES)


def _numbers(kind: str, named: Sequence[Disk | Server | Link | Cache | Storage]) -> dict[str, int]:
    found = {one.name: number for number, one in enumerate(named)}
    if len(found) < len(named):
        names = [one.name for one in named]
        twice = next(name for name in names if names.count(name) > 1)
        raise OptionError(f"duplicate {kind} {twice!r:.60} in the platform")
    return found


def _number(numbers: dict[str, int], kind: str, name: str, where: str) -> int:
    if name not in numbers:
        known = ", ".join(numbers) or "none"
        raise OptionError(f"{where} names the {kind} {name!r:.60}, which does not exist", hint=f"known names: {known}")
    return numbers[name]
