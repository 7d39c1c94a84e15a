"""The tree of neighbours: every sub-job in one node of each stage, in order, the same in a longer job."""

from __future__ import annotations

import pytest

from branchline.base.limits import FOLD_FAN_IN
from branchline.jobs.fold_tree import FoldNode, FoldTree


@pytest.mark.parametrize("count", [1, 2, 19, 20, 21, 399, 400, 401, 8000, 8001])
def test_each_stage_covers_every_subjob_once_in_order(count: int) -> None:
    tree = FoldTree(count)
    for stage in range(tree.stages + 1):
        covered = [index for node in tree.nodes(stage) for index in tree.shares_of(node)]
        assert covered == list(range(count))
    assert list(tree.nodes(tree.stages)) == [tree.root]


@pytest.mark.parametrize("count", [1, 20, 21, 401, 8001])
def test_parts_and_parents_agree(count: int) -> None:
    tree = FoldTree(count)
    for stage in range(1, tree.stages + 1):
        for node in tree.nodes(stage):
            parts = tree.parts_of(node)
            assert 1 <= len(parts) <= FOLD_FAN_IN
            assert all(tree.parent_of(part) == node for part in parts)
            assert [index for part in parts for index in tree.shares_of(part)] == list(tree.shares_of(node))
    assert tree.parent_of(tree.root) is None
    assert tree.parts_of(FoldNode(0, 0)) == []


def test_full_nodes_stay_when_subjobs_are_appended() -> None:
    short, long = FoldTree(45), FoldTree(1000)
    for node in [FoldNode(1, 0), FoldNode(1, 1)]:
        assert short.shares_of(node) == long.shares_of(node)
        assert short.parts_of(node) == long.parts_of(node)


def test_a_hundred_thousand_subjobs_need_four_stages() -> None:
    assert FoldTree(100_000).stages == 4


def test_a_node_is_found_by_its_subjobs() -> None:
    tree = FoldTree(410)
    for stage in range(tree.stages + 1):
        for node in tree.nodes(stage):
            assert tree.shares_of(tree.node_of(tree.shares_of(node))) == tree.shares_of(node)
    with pytest.raises(ValueError, match="no node"):
        tree.node_of(range(1, 21))
