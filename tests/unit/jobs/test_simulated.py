"""A train on a pool in simulated time: whatever goes wrong there, each sub-job counts once, and in a bounded window."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from benches.simulated import BASE, CountedOutcomes, Figures, folded_value, simulated, without_copies
from benches.simulated_field import HEALTHY, Faults, Field, seconds_per_byte

from branchline.base.limits import FOLD_FAN_IN, GROUPS_PER_SLOT
from branchline.jobs.subjob import SubJob
from branchline.trains.subjobs.share_result import ShareResult
from branchline.trains.subjobs.shares import Share

FILES = 400
# More goes wrong than on any cluster that works, so that a small train meets all of it.
WILD = Faults(
    black_holes=1, slow_nodes_part=0.1, stragglers_part=0.02, crashes_part=0.03, worker_life_s=60.0, restart_s=5.0
)
FIELD = Field(workers=40, workers_per_node=4, faults=WILD, work_factor=3.0)


def train(field: Field) -> Figures:
    return simulated(field, FILES, seconds_per_byte(), by_file=True)


def value_by_stages(count: int) -> float:
    """The sum of what all sub-jobs bring back: neighbours are added, and the sums of neighbours, to the last one."""
    values = [math.sin(index + 1) * 10.0 ** (index % 13) for index in range(count)]
    while len(values) > 1:
        groups = [values[first : first + FOLD_FAN_IN] for first in range(0, len(values), FOLD_FAN_IN)]
        values = []
        for first, *others in groups:
            total = first
            for one in others:
                total += one
            values.append(total)
    return values[0]


@pytest.mark.parametrize("seed", [1, 2])
def test_each_subjob_counts_once_whatever_goes_wrong(seed: int) -> None:
    field = replace(FIELD, seed=seed)
    figures = train(field)
    assert (figures.exit_code, figures.missing, figures.subjobs) == (0, 0, FILES)
    assert set(figures.times) == {1}
    assert figures.value == value_by_stages(FILES) == folded_value(FILES)
    counts = figures.counts
    # It all happened, and was repaired.
    assert all((counts.worker_deaths, counts.crashes, counts.failed, figures.repeated))
    assert counts.attempts > FILES
    # Two groups for each worker, and copies of slow ones for those that are idle.
    assert counts.flying_max <= (GROUPS_PER_SLOT + 1) * field.workers
    # Neighbours are folded as they come: far fewer are held than there are.
    assert figures.results_held_max < FILES / 2


@pytest.mark.parametrize("seed", [1, 2])
def test_results_that_workers_fold_count_once_whatever_goes_wrong(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.jobs.pools.pooled_workers.FOLD_AFAR_MIN_BYTES", 1)
    files = 1500
    figures = simulated(replace(FIELD, seed=seed), files, seconds_per_byte(), by_file=True)
    assert (figures.exit_code, figures.missing, figures.subjobs) == (0, 0, files)
    assert set(figures.times) == {1}
    assert figures.value == value_by_stages(files) == folded_value(files)
    counts = figures.counts
    assert all((counts.worker_deaths, counts.crashes, counts.failed, figures.repeated))
    assert counts.folded_afar > files / 5


def test_workers_fold_large_results_but_for_the_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.jobs.pools.pooled_workers.FOLD_AFAR_MIN_BYTES", 1)
    field = replace(FIELD, faults=HEALTHY, workers=20)
    files = 1600
    figures = simulated(field, files, seconds_per_byte(), by_file=True)
    # Left are those of the first groups, whose results are of unknown size, of neighbours at several storage elements,
    # and twenty for each worker at the end.
    assert files / 3 < figures.counts.folded_afar <= files - FOLD_FAN_IN * field.workers
    assert set(figures.times) == {1}
    assert figures.value == folded_value(files)


def test_the_same_seed_gives_the_same_figures() -> None:
    first, second = (train(FIELD) for _ in range(2))
    assert first.counts == second.counts
    assert (first.makespan_s, first.value) == (second.makespan_s, second.value)
    assert train(replace(FIELD, seed=9)).counts != first.counts


def test_nothing_runs_twice_where_nothing_goes_wrong() -> None:
    figures = train(replace(FIELD, faults=HEALTHY))
    counts = figures.counts
    assert (counts.attempts - figures.repeated, counts.failed, counts.crashes, figures.lost) == (FILES, 0, 0, 0)
    assert figures.ideal_s < figures.makespan_s


def test_copies_of_slow_subjobs_and_locality_help() -> None:
    with_both = train(FIELD)
    with without_copies():
        without = train(FIELD)
    assert (with_both.repeated > 0, without.repeated) == (True, 0)
    # Times are simulated: they are the same on every machine.
    assert with_both.makespan_s <= without.makespan_s
    lost = train(replace(FIELD, knows_sites=False))
    assert with_both.counts.far_attempts < lost.counts.far_attempts / 2
    assert set(lost.times) == {1}
    assert lost.value == with_both.value


def test_copies_run_on_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    ran_on: dict[int, list[int]] = {}

    class Noting(CountedOutcomes):
        def finished(self, subjob: SubJob, share: Share, worker: str, seconds: float) -> ShareResult:
            number = int(worker.removeprefix("worker-"))
            ran_on.setdefault(subjob.index, []).append(number // FIELD.workers_per_node)
            return super().finished(subjob, share, worker, seconds)

    monkeypatch.setattr("benches.simulated.CountedOutcomes", Noting)
    faults = replace(HEALTHY, slow_nodes_part=0.2, slow_node_factor=10.0)
    figures = train(replace(FIELD, faults=faults))
    twice = [nodes for nodes in ran_on.values() if len(nodes) > 1]
    assert len(twice) >= figures.repeated > 0
    assert all(len(set(nodes)) == len(nodes) for nodes in twice)


def test_a_subjob_that_counts_twice_would_be_seen() -> None:
    from benches.simulated import Counted, of_subjob

    once = Counted(*of_subjob(0)) + Counted(*of_subjob(2))
    assert once.times(3) == [1, 0, 1]
    assert (once + Counted(*of_subjob(2))).times(3) == [1, 0, 2]
    assert BASE > 2
