"""Results of sub-jobs become one by fixed neighbours: the same bits in any order of arrival, with gaps and failures."""

from __future__ import annotations

import os
import pickle
import random
from typing import Any

import numpy as np
import pytest

from branchline.base.limits import FOLD_FAN_IN
from branchline.jobs.fold_tree import FoldNode, FoldTree
from branchline.reading.datasets.data_file import DataFile
from branchline.records.sensors.record import BranchRecord, FileRecord, WagonFault
from branchline.trains.subjobs.folding import FoldedResult, Merger, fold
from branchline.trains.subjobs.share_result import ShareResult, WagonShare
from branchline.trains.subjobs.shares import Share
from branchline.trains.sums.digests import digest_of
from branchline.trains.wagons.wagons import Wagon

SEEDS = range(int(os.environ.get("BRANCHLINE_FOLD_SEEDS", "8")))


class Summing:
    name = "summing"

    def process(self, events: Any) -> float:
        return 0.0


class Needing:
    name = "needing"
    requires = ("summing",)

    def process(self, events: Any) -> float:
        return 0.0


WAGONS = (Wagon(Summing()), Wagon(Needing()))


def shares_of(count: int) -> list[Share]:
    return [Share((DataFile(f"f{index:05}.root", size_bytes=1),)) for index in range(count)]


def results_of(count: int, draw: random.Random, failing: dict[int, set[str]]) -> list[ShareResult]:
    """Results whose sums differ in their last bits for another order; in some sub-jobs wagons fail."""
    results = []
    for index in range(count):
        numbers = {name: np.array([draw.gauss(0, 1) * 10 ** draw.randint(-9, 9) for _ in range(3)]) for name in "ab"}
        wagons = {
            wagon.name: WagonShare(
                total={"sums": numbers["a"], "one": draw.random(), "names": [f"f{index:05}"]},
                events=10,
                chunks=1,
                requires=wagon.requires,
                error=WagonFault("ValueError", f"in {index}") if wagon.name in failing.get(index, ()) else None,
            )
            for wagon in WAGONS
        }
        file = FileRecord(f"f{index:05}.root", events=10, bytes_read=index)
        results.append(ShareResult(wagons, files=[file], branches=[BranchRecord("px", baskets=1)], events=10))
    return results


def content_of(folded: FoldedResult) -> str:
    """Every bit of what a job makes of the result."""
    outputs = {name: (share.total, share.events, share.chunks, share.error) for name, share in folded.wagons.items()}
    return digest_of([outputs, folded.files, folded.branches, folded.events, folded.subjobs_done])


def merged(shares: list[Share], results: dict[int, ShareResult], order: list[int], **stopped: WagonFault) -> str:
    merger = Merger(WAGONS, shares, stopped)
    for index in order:
        merger.take(index, results[index])
    return content_of(merger.finish())


@pytest.mark.parametrize("seed", SEEDS)
def test_any_order_gaps_and_failures_give_the_same_bits(seed: int) -> None:
    print("seed", seed)
    draw = random.Random(seed)
    count = draw.choice([1, 7, FOLD_FAN_IN, FOLD_FAN_IN + 1, 3 * FOLD_FAN_IN, FOLD_FAN_IN**2 + 5, 900])
    failing = {draw.randrange(count): {draw.choice(WAGONS).name} for _ in range(draw.randrange(4))}
    shares, results = shares_of(count), results_of(count, draw, failing)
    there = [index for index in range(count) if draw.random() > draw.choice([0, 0, 0.2])]
    by_index = {index: results[index] for index in there}
    expected = merged(shares, by_index, there)
    for _ in range(3):
        order = draw.sample(there, len(there))
        assert merged(shares, by_index, order) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_nodes_folded_elsewhere_give_the_same_bits(seed: int) -> None:
    print("seed", seed)
    draw = random.Random(seed)
    count = draw.randrange(1, FOLD_FAN_IN**2 + 50)
    failing = {draw.randrange(count): {draw.choice(WAGONS).name} for _ in range(draw.randrange(4))}
    shares, results = shares_of(count), results_of(count, draw, failing)
    expected = merged(shares, dict(enumerate(results)), list(range(count)))
    merger, tree = Merger(WAGONS, shares, {}), FoldTree(count)
    for node in draw.sample(list(tree.nodes(1)), len(list(tree.nodes(1)))):
        leaves = [FoldedResult.of(index, shares[index], results[index], {}) for index in tree.shares_of(node)]
        if draw.random() < 0.5:
            folded: FoldedResult = pickle.loads(pickle.dumps(fold(pickle.loads(pickle.dumps(leaves)))))
            assert (folded.first, folded.last) == (tree.shares_of(node).start, tree.shares_of(node).stop)
            merger.take_folded(node, folded)
        else:
            for leaf in draw.sample(leaves, len(leaves)):
                merger.take_folded(FoldNode(0, leaf.first), leaf)
    assert content_of(merger.finish()) == expected


def test_the_cost_of_each_stage_counts_every_result_once() -> None:
    count = FOLD_FAN_IN**2 + 50
    shares, results, tree = shares_of(count), results_of(count, random.Random(4), {}), FoldTree(count)
    expected = {
        stage: (sum(len(tree.parts_of(one)) for one in tree.nodes(stage)), len(list(tree.nodes(stage))))
        for stage in (1, 2, 3)
    }
    merger = Merger(WAGONS, shares, {})
    for index in reversed(range(count)):
        merger.take(index, results[index])
    assert {one.stage: (one.results, one.nodes) for one in merger.costs.stages()} == expected
    assert all(one.seconds > 0 for one in merger.costs.stages())
    assert sum(one.seconds for one in merger.costs.stages()) < 60
    # What a gap keeps waiting is folded at the end.
    merger = Merger(WAGONS, shares, {})
    for index in range(1, count):
        merger.take(index, results[index])
    merger.finish()
    assert merger.costs.stages()[0].results == count - 1


def test_folding_leaves_the_parts_as_they_are() -> None:
    shares, results = shares_of(5), results_of(5, random.Random(1), {2: {"summing"}})
    leaves = [FoldedResult.of(index, shares[index], result, {}) for index, result in enumerate(results)]
    before = [content_of(one) for one in leaves]
    assert content_of(fold(leaves)) == content_of(fold(leaves))
    assert [content_of(one) for one in leaves] == before


def test_a_failed_wagon_keeps_what_is_before_its_failure_in_the_dataset() -> None:
    count, failing = 50, {33: {"summing"}, 12: {"summing"}}
    results = results_of(count, random.Random(2), failing)
    merger = Merger(WAGONS, shares_of(count), {})
    for index in reversed(range(count)):
        merger.take(index, results[index])
    folded = merger.finish()
    assert folded.wagons["summing"].error == WagonFault("ValueError", "in 12", path="f00012.root")
    assert folded.wagons["summing"].total["names"] == [f"f{index:05}" for index in range(13)]
    # What it gave in the sub-job of the failure counts, but not for a wagon that requires it.
    assert folded.wagons["needing"].total["names"] == [f"f{index:05}" for index in range(12)]
    assert folded.wagons["needing"].error is not None
    assert folded.wagons["needing"].error.path == "f00012.root"


def test_a_wagon_that_did_not_begin_has_its_fault_and_no_sum() -> None:
    results = results_of(3, random.Random(3), {})
    fault = WagonFault("NoSuchKeyError", "names a branch", path="f00000.root")
    assert Merger(WAGONS, shares_of(3), {"summing": fault}).finish().wagons["summing"].error == fault
    merger = Merger(WAGONS, shares_of(3), {"summing": fault})
    for index, result in enumerate(results):
        merger.take(index, result)
    folded = merger.finish()
    assert folded.wagons["summing"].error == fault
    assert folded.wagons["summing"].total is None


@pytest.mark.parametrize("seed", SEEDS)
def test_few_results_wait_when_workers_run_side_by_side(seed: int) -> None:
    print("seed", seed)
    draw, count, workers = random.Random(seed), 3000, 16
    result = results_of(1, draw, {})[0]
    merger = Merger(WAGONS, shares_of(count), {})
    coming, at_most = list(range(workers)), 0
    for following in range(workers, count + workers):
        merger.take(coming.pop(draw.randrange(len(coming))), result)
        if following < count:
            coming.append(following)
        at_most = max(at_most, merger.waiting_count)
    assert at_most < 8 * workers
