"""Makespans of simulated trains with several seeds, relative to a lower bound of the makespan."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import linprog

from benches.simulated import check, simulated
from benches.simulated_field import HEALTHY, Durations, Faults, Field, seconds_per_byte
from benches.tables import table
from branchline.reading.datasets.data_file import DataFile

#: Maximum goals for the mean makespan, as multiples of the lower bound.
GOALS = {"healthy": 1.15, "remote data": 1.3, "slow storage": 1.4, "faults": 1.5}
#: Factor for the work of the recorded job: files take 7.4 s.
WORK_FACTOR = 10.0
#: Median time of a file in the recorded job in seconds.
MEDIAN_S = 0.74


def scenarios(workers: int) -> Mapping[str, Field]:
    """Return a cluster for each scenario. In "remote data", half of the sites have no workers."""
    healthy = Field(workers=workers, faults=HEALTHY, work_factor=WORK_FACTOR)
    return {
        "healthy": healthy,
        "remote data": replace(healthy, worker_sites=2),
        "slow storage": replace(healthy, faults=replace(HEALTHY, slow_elements=1, slow_element_factor=3.0)),
        "faults": replace(healthy, faults=Faults()),
    }


def lower_bound_s(field: Field, durations: Durations, files: Sequence[DataFile]) -> float:
    """Return a time in which no schedule can finish, except by luck with the random failures.

    Work is divided freely among the sites, without losses at the end of the job (a linear program). Slow nodes do less,
    black holes nothing, and workers are away for their mean restart times. No job ends before its longest file.
    """
    faults = field.faults
    up_part = faults.worker_life_s / (faults.worker_life_s + faults.restart_s + field.process_start_s)
    speeds: dict[str, float] = dict.fromkeys(map(field.worker_site, range(field.nodes)), 0.0)
    for number in range(field.workers):
        node = number // field.workers_per_node
        speed = (
            0.0 if node in field.black_holes else 1.0 / (faults.slow_node_factor if node in field.slow_nodes else 1.0)
        )
        speeds[field.worker_site(node)] += up_part * speed
    work_s: dict[str, float] = {}
    longest_s = 0.0
    sites = list(speeds)
    for file in files:
        element = file.elements[0]
        seconds = durations.near_s([file]) * durations.element_factor(element)
        work_s[element] = work_s.get(element, 0.0) + seconds
        is_near = file.sites.site_of(file.path) in sites
        longest_s = max(longest_s, seconds * (1.0 if is_near else field.far_factor))
    site_of = {file.elements[0]: file.sites.site_of(file.path) for file in files}
    elements = list(work_s)
    # The variables are the parts of each element's work at each site, and the time.
    count = len(elements) * len(sites)
    limits = np.zeros((len(sites), count + 1))
    whole = np.zeros((len(elements), count + 1))
    for row, element in enumerate(elements):
        for column, site in enumerate(sites):
            at = row * len(sites) + column
            whole[row, at] = 1.0
            limits[column, at] = work_s[element] * (1.0 if site_of[element] == site else field.far_factor)
    limits[:, count] = [-speeds[site] for site in sites]
    costs = np.zeros(count + 1)
    costs[count] = 1.0
    found = linprog(costs, A_ub=limits, b_ub=np.zeros(len(sites)), A_eq=whole, b_eq=np.ones(len(elements)))
    if not found.success:
        raise RuntimeError(f"the lower bound cannot be computed: {found.message}")
    return field.process_start_s + max(float(found.fun), longest_s)


@dataclass(frozen=True)
class Run:
    """A simulated train: its makespan and the lower bound in seconds, and the fraction of time that workers worked."""

    scenario: str
    seed: int
    makespan_s: float
    bound_s: float
    busy_part: float
    far_attempts: int
    attempts: int

    @property
    def ratio(self) -> float:
        return self.makespan_s / self.bound_s


def runs(files_count: int, workers: int, seeds: Sequence[int], say: Callable[[str], None]) -> list[Run]:
    """Simulate each scenario with each seed. Raises RuntimeError if a sub-job is not counted exactly once."""
    by_byte = seconds_per_byte()
    found = []
    for name, field in scenarios(workers).items():
        say(f"simulating {files_count} files with {len(seeds)} seeds: {name}")
        for seed in seeds:
            seeded = replace(field, seed=seed)
            figures = simulated(seeded, files_count, by_byte, by_file=True)
            check(figures)
            bound_s = lower_bound_s(seeded, Durations(seeded, by_byte), seeded.files(files_count))
            counts = figures.counts
            found.append(
                Run(name, seed, figures.makespan_s, bound_s, figures.busy_part, counts.far_attempts, counts.attempts)
            )
    return found


def policies_part(
    files_count: int, workers: int, seeds: int, say: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Simulate the scenarios, and return a section of the page in Markdown, and a row for each train."""
    found = runs(files_count, workers, range(1, seeds + 1), say)
    head = [
        "## Scenarios relative to a lower bound",
        "",
        f"{files_count} files of {WORK_FACTOR * MEDIAN_S:.1f} s (median), {workers} workers, {seeds} seeds. The lower "
        "bound divides the work freely among the sites (a linear program). It includes slow nodes and storage "
        "elements, black holes and the mean restart times of workers, but no losses at the end of the job.",
        "",
    ]
    return "\n".join([*head, _table_of(found), ""]), [{**vars(one), "ratio": one.ratio} for one in found]


def _table_of(found: Sequence[Run]) -> str:
    """Return a table of the ratios by scenario."""
    rows = []
    for name, goal in GOALS.items():
        ratios = [one.ratio for one in found if one.scenario == name]
        busy = statistics.fmean(one.busy_part for one in found if one.scenario == name)
        rows.append(
            [
                name,
                str(len(ratios)),
                f"{statistics.fmean(ratios):.2f}",
                f"{min(ratios):.2f} to {max(ratios):.2f}",
                f"{goal:g}",
                f"{100 * busy:.0f}",
            ]
        )
    return table(["scenario", "seeds", "mean makespan / bound", "range", "goal", "workers busy %"], rows)
