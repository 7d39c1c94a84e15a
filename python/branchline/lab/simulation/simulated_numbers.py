"""Platforms and plans as the compiled module takes them: with numbers in place of names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from branchline import _core
from branchline.errors import OptionError
from branchline.lab.simulated_limits import REMOTE_GAP_BYTES
from branchline.lab.simulation.job_plan import BlockPlan
from branchline.lab.simulation.platform import Cache, Disk, Link, Nodes, Platform, Server, Storage
from branchline.reading.access import Access


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


@dataclass(frozen=True)
class NumberedPlan:
    """A plan."""

    blocks: list[NumberedBlock]
    reading: NumberedReading


@dataclass(frozen=True)
class NumberedJob:
    """A job: the number of its plan and what it is drawn to be. ``node`` is None for the one with the fewest jobs."""

    plan: int
    start_s: float
    prepare_s: float
    cpu_factor: float
    data: int
    node: int | None = None


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


def _slots(one: Nodes) -> int:
    return one.cores if one.slots is None else one.slots


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
