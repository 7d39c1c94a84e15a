"""Many jobs at once on a platform: how long they take, what they reach together, and what holds them back.

The compiled module simulates them. It takes platforms and plans with numbers in place of names (``Numbered...``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np

from branchline import _core
from branchline.base.plain import to_plain
from branchline.errors import OptionError
from branchline.lab.limits import FREE_PART, REMOTE_GAP_BYTES, SATURATION_PART, SIMULATED_JOBS_MAX
from branchline.lab.simulation.job_plan import BlockPlan
from branchline.lab.simulation.platform import Cache, Disk, Link, Nodes, Platform, Server, Storage
from branchline.reading.access import Access

#: The version of the form of results.
JOBS_AT_ONCE_VERSION = 1
#: Limits of requests besides resources.
WINDOW, ROUND_TRIPS = "the window of TCP", "round trips"


@dataclass(frozen=True)
class JobsRequest:
    """What is simulated: jobs that take the plans in turn. The same seed gives the same figures.

    Jobs come within ``start_spread_s`` by chance. The time that each computes is drawn from a log-normal distribution
    around that of its plan, with ``cpu_spread`` as the deviation of the logarithm. ``datasets_count`` is how many data
    sets there are: jobs with the same plan and data set read the same bytes, which a cache may have; None for one of
    its own for each job.
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
    """How long jobs took, from the begin of each to its end, without waiting for a slot: seconds."""

    p5_s: float
    median_s: float
    p95_s: float
    max_s: float


@dataclass(frozen=True)
class Load:
    """A resource: the part of what it could give until the last job ended, and the part of the time of requests, or of
    computing where it is cores, in which it was what held these back.
    """

    name: str
    used_part: float
    limiting_part: float


@dataclass(frozen=True)
class JobsPoint:
    """So many jobs at once."""

    jobs: int
    makespan_s: float
    job_times: JobTimes
    slot_wait_s: float
    bytes_per_s: float
    #: Seconds of cores that jobs computed, over the seconds of the cores that they held.
    cpu_efficiency: float
    #: Of their bytes, the part that caches had.
    cached_part: float
    loads: tuple[Load, ...]

    @property
    def limited_by(self) -> str:
        """What held requests back for most of the time."""
        reads = [one for one in self.loads if not one.name.startswith("cores of ")]
        return max(reads, key=lambda one: one.limiting_part).name if reads else ""


@dataclass(frozen=True)
class Saturation:
    """The smallest number of jobs at which each gets less than 90 % of what it gets alone, to one in a hundred, and
    what holds them back.
    """

    jobs: int
    limited_by: str


@dataclass(frozen=True)
class JobsAtOnce:
    """The answer: a point for each number of jobs. ``saturation`` is None if the largest number has none."""

    points: tuple[JobsPoint, ...]
    saturation: Saturation | None
    seed: int
    jobs_at_once_version: int = JOBS_AT_ONCE_VERSION

    def to_plain(self) -> Mapping[str, object]:
        """All of it as dicts, lists, numbers and texts."""
        return dict(to_plain(self))


def jobs_at_once(request: JobsRequest, counts: Sequence[int]) -> JobsAtOnce:
    """Simulates each of these numbers of jobs, and finds where they begin to hold each other up. Raises OptionError."""
    wrong = [one for one in counts if not 1 <= one <= SIMULATED_JOBS_MAX]
    if wrong or not counts:
        raise OptionError(f"{wrong[0] if wrong else 'no'} jobs cannot be simulated", hint="give 1 to 100000")
    found = {count: simulate_jobs(request, count) for count in sorted(set(counts))}
    saturation = _saturation(request, found)
    return JobsAtOnce(tuple(found[count] for count in sorted(set(counts))), saturation, request.seed)


def _saturation(request: JobsRequest, found: dict[int, JobsPoint]) -> Saturation | None:
    """By halving, as the time of jobs grows with their number, until what is left says no more: chance in what jobs
    compute moves it as much, and each step near it is a simulation of as many jobs.
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
    """So many jobs at once. Raises OptionError for a platform or plans that make no sense."""
    return simulate_counted(request, count).point


@dataclass(frozen=True)
class CountedPoint:
    """So many jobs at once, and what simulating them has cost, in counts that are the same on every machine."""

    point: JobsPoint
    totals: _core.SimulationTotals


def simulate_counted(request: JobsRequest, count: int) -> CountedPoint:
    """The same, with what it has cost."""
    if not request.plans:
        raise OptionError("there is no plan for the jobs")
    simulation = _core.Simulation(numbered_platform(request.platform))
    for plan in request.plans:
        simulation.add_plan(numbered_plan(plan, request.platform, request.access))
    chance = Random(request.seed)  # noqa: S311 - not for secrets
    for number in range(count):
        simulation.submit(_job(request, number, chance))
    return CountedPoint(_point(request, simulation, simulation.all_done()), simulation.totals())


def counts_between(first: int, last: int) -> list[int]:
    """Numbers of jobs from the first to the last, each about 1.5 times the one before: 1, 2, 3, 4, 6, 9 ..."""
    if not 1 <= first <= last:
        raise OptionError(f"{first} to {last} is no range of numbers of jobs", hint="give two numbers as 1..1000")
    found = [first]
    while found[-1] < last:
        found.append(min(max(found[-1] + 1, round(found[-1] * 1.5)), last))
    return found


def _job(request: JobsRequest, number: int, chance: Random) -> NumberedJob:
    plan = number % len(request.plans)
    datasets = request.datasets_count
    return NumberedJob(
        plan,
        start_s=chance.random() * request.start_spread_s,
        prepare_s=request.plans[plan].prepare_s,
        cpu_factor=math.exp(chance.gauss(0.0, 1.0) * request.cpu_spread),
        data=number if datasets is None else number % max(datasets, 1),
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
    """All resources that were used, and what else holds requests back. Nodes of one kind are one resource."""
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
    """A platform."""

    disks: Sequence[Disk]
    servers: Sequence[Server]
    links: Sequence[Link]
    caches: Sequence[NumberedCache]
    storages: Sequence[NumberedWay]
    nodes: Sequence[NumberedNodes]


@dataclass(frozen=True)
class NumberedWay:
    """The way to a storage, or to a cache."""

    disk: int | None
    server: int | None
    links: list[int]
    window_bytes: float | None
    streams: int
    cache: int | None


@dataclass(frozen=True)
class NumberedCache:
    """A cache."""

    size_bytes: float
    way: NumberedWay


@dataclass(frozen=True)
class NumberedNodes:
    """Nodes of one kind."""

    count: int
    cores: int
    slots: int
    bytes_per_s: float
    speed: float


def numbered_platform(platform: Platform) -> NumberedPlatform:
    """The platform with numbers. Raises OptionError for names that it does not have, or has twice."""
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
        [NumberedNodes(one.count, one.cores, _slots(one), one.bytes_per_s, one.speed) for one in platform.nodes],
    )


def _slots(one: Nodes) -> int:
    return one.cores if one.slots is None else one.slots


@dataclass(frozen=True)
class NumberedPlan:
    """A plan."""

    blocks: list[NumberedBlock]
    reading: NumberedReading


@dataclass(frozen=True)
class NumberedBlock:
    """A block."""

    storage: int
    bytes: float
    operations: float
    round_trips: float
    cpu_s: float


@dataclass(frozen=True)
class NumberedReading:
    """How reading runs ahead, with what the engine chooses."""

    requests_in_flight: int
    bytes_in_flight: float
    blocks_ahead: int
    threads: float


def numbered_plan(plan: BlockPlan, platform: Platform, access: Access) -> NumberedPlan:
    """The plan with numbers, and with what the engine chooses for the way to its storage. Raises OptionError."""
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
        raise OptionError("a plan has no blocks, so that there is nothing to simulate")
    reading = plan.reading
    chosen = _chosen(platform, platform.storages[blocks[0].storage], access)
    # A link without a round trip to hide is read by one request after the other, which the engine counts as none.
    requests = max(chosen.requests_in_flight, 1) if reading.requests_in_flight is None else reading.requests_in_flight
    bytes_ = chosen.bytes_in_flight if reading.bytes_in_flight is None else reading.bytes_in_flight
    ahead = max(plan.blocks_ahead(), requests - 1) if reading.blocks_ahead is None else reading.blocks_ahead
    return NumberedPlan(blocks, NumberedReading(requests, float(bytes_), ahead, reading.threads))


def _chosen(platform: Platform, storage: Storage, access: Access) -> _core.Link:
    """What the engine would choose for a link that nobody else uses."""
    links = {one.name: one for one in platform.links}
    passed = [links[name] for name in storage.links]
    round_trip_s = sum(one.round_trip_s for one in passed)
    rates = [one.bytes_per_s for one in passed]
    rates += [one.bytes_per_s for one in platform.servers if one.name == storage.server]
    rates += [one.bytes_per_s for one in platform.disks if one.name == storage.disk]
    rate = min(rates, default=math.inf)
    return _core.link_chosen(access, round_trip_s, rate if math.isfinite(rate) else 0.0, REMOTE_GAP_BYTES)


@dataclass(frozen=True)
class NumberedJob:
    """A job: the number of its plan and what it is drawn to be. ``node`` is None for the one with the fewest jobs."""

    plan: int
    start_s: float
    prepare_s: float
    cpu_factor: float
    data: int
    node: int | None = None


def _numbers(kind: str, named: Sequence[Disk | Server | Link | Cache | Storage]) -> dict[str, int]:
    found = {one.name: number for number, one in enumerate(named)}
    if len(found) < len(named):
        names = [one.name for one in named]
        twice = next(name for name in names if names.count(name) > 1)
        raise OptionError(f"the platform has the {kind} {twice!r:.60} twice")
    return found


def _number(numbers: dict[str, int], kind: str, name: str, where: str) -> int:
    if name not in numbers:
        known = ", ".join(numbers) or "none"
        raise OptionError(f"{where} names the {kind} {name!r:.60}, which is not there", hint=f"there are {known}")
    return numbers[name]
