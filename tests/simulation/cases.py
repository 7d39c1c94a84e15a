"""Platforms with jobs, as SimGrid and as our simulator take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from branchline import _core
from branchline.lab.simulation.platform import Link
from branchline.lab.simulation.simulated_jobs import (
    NumberedBlock,
    NumberedJob,
    NumberedNodes,
    NumberedPlan,
    NumberedPlatform,
    NumberedReading,
    NumberedWay,
)


@dataclass(frozen=True)
class CaseJob:
    """A job at a node: blocks of bytes and seconds, read one ahead over one of the ways."""

    way: int
    node: int
    blocks: list[tuple[float, float]]
    blocks_ahead: int = 1


@dataclass(frozen=True)
class Case:
    """Links by name; ways, each of several links, with a round trip and a bound for each stream; nodes with cores."""

    links: dict[str, float]
    ways: list[tuple[list[str], float, float | None]]
    cores: list[int]
    network: float
    jobs: list[CaseJob]

    def for_simgrid(self) -> dict[str, Any]:
        """The case as the program in SimGrid reads it."""
        networks = {f"network{number}": self.network for number in range(len(self.cores))}
        jobs = [
            {
                "way": one.way,
                "node": one.node,
                "round_trip_s": self.ways[one.way][1],
                "rate": self.ways[one.way][2],
                "blocks_ahead": one.blocks_ahead,
                "blocks": [{"bytes": size, "cpu_s": cpu_s} for size, cpu_s in one.blocks],
            }
            for one in self.jobs
        ]
        return {
            "links": {**self.links, **networks},
            "ways": [way[0] for way in self.ways],
            "nodes": self.cores,
            "jobs": jobs,
        }

    def ends(self) -> list[float]:
        """When its jobs end, by our simulator."""
        names = list(self.links)
        # The round trip of a way is that of a link of its own, which is never used up.
        trips = [Link(f"trip {number}", 1e18, way[1]) for number, way in enumerate(self.ways)]
        links = [*(Link(name, rate) for name, rate in self.links.items()), *trips]
        ways = [
            NumberedWay(
                None,
                None,
                [*(names.index(name) for name in way), len(names) + number],
                None if rate is None else rate * round_trip_s,
                1,
                None,
            )
            for number, (way, round_trip_s, rate) in enumerate(self.ways)
        ]
        slots = len(self.jobs)
        nodes = [NumberedNodes(1, cores, slots, self.network, 1.0) for cores in self.cores]
        simulation = _core.Simulation(NumberedPlatform([], [], links, [], ways, nodes))
        for one in self.jobs:
            reading = NumberedReading(1, 1e18, one.blocks_ahead, 1.0)
            blocks = [NumberedBlock(one.way, size, 1.0, 1.0, cpu_s) for size, cpu_s in one.blocks]
            plan = simulation.add_plan(NumberedPlan(blocks, reading))
            simulation.submit(NumberedJob(plan, 0.0, 0.0, 1.0, 0, one.node))
        ends = [0.0] * len(self.jobs)
        for done in simulation.all_done():
            ends[done.job] = done.end_s
        return ends


def one_link(jobs: int, seed: int) -> Case:
    """Equal storages behind one link of a site: about 31 blocks for each job, on nodes of 16 cores."""
    chance = Random(seed)
    cores = [16] * (-(-jobs // 16))
    made = [CaseJob(0, number % len(cores), _blocks(chance, chance.randint(26, 36))) for number in range(jobs)]
    return Case({"disk": 2.5e9, "site": 1.9e9}, [(["disk", "site"], 0.002, None)], cores, 1.25e9, made)


def narrow_cards(jobs: int, seed: int) -> Case:
    """Nodes of 16 cores with cards of 12 MB/s, behind a link that gives 95 % of what these take, and two disks."""
    chance = Random(seed)
    cores = [16] * (-(-jobs // 16))
    cards = 12e6 * len(cores)
    links = {"disk": 0.6 * cards, "other disk": 0.4 * cards, "site": 0.95 * cards}
    ways: list[tuple[list[str], float, float | None]] = [
        (["disk", "site"], 0.002, None), (["other disk", "site"], 0.002, None),
    ]  # fmt: skip
    made = []
    for number in range(jobs):
        way, blocks = chance.randrange(2), _blocks(chance, chance.randint(16, 26))
        made.append(CaseJob(way, number % len(cores), blocks))
    return Case(links, ways, cores, 12e6, made)


def several_ways(jobs: int, seed: int) -> Case:
    """A near disk, a far one with a window over a long round trip, and a slow one; nodes with more jobs than cores."""
    chance = Random(seed)
    links = {"near": 6e8, "far": 9e8, "slow": 8e7, "wide area": 4e8}
    ways: list[tuple[list[str], float, float | None]] = [
        (["near"], 0.0, None), (["far", "wide area"], 0.06, 4e6 / 0.06), (["slow", "wide area"], 0.01, None),
    ]  # fmt: skip
    cores = [chance.choice([2, 4, 8]) for _ in range(max(jobs // 6, 1))]
    made = []
    for _ in range(jobs):
        way, node, blocks = chance.randrange(3), chance.randrange(len(cores)), _blocks(chance, chance.randint(5, 25))
        made.append(CaseJob(way, node, blocks, chance.randint(0, 3)))
    return Case(links, ways, cores, 1.5e8, made)


def _blocks(chance: Random, count: int) -> list[tuple[float, float]]:
    return [(float(chance.randint(500_000, 14_000_000)), chance.uniform(0.3, 2.5)) for _ in range(count)]


def median(values: Sequence[float]) -> float:
    """The lower of the two in the middle."""
    return sorted(values)[(len(values) - 1) // 2]
