"""Cutflows of odd weights and masks: no events are counted that nobody knows about, and errors are those of wagons."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np
import pytest

from branchline import Cutflow
from branchline.errors import WagonError


def test_numbers_of_events_are_of_python_or_of_numpy() -> None:
    assert list(Cutflow.of(np.int64(3))) == list(Cutflow.of(3)) == [("all", 3, 3.0)]


@pytest.mark.parametrize(
    "weights",
    [
        np.ones((5, 2)),
        np.ma.array([1.0, 5.0], mask=[False, True]),
        ak.Array([1.0, None]),
        ak.Array([[1.0], [2.0, 3.0]]),
        ["a", "b"],
        2.5,
        -1,
    ],
    ids=str,
)
def test_weights_that_are_not_one_number_for_each_event_are_refused(weights: Any) -> None:
    with pytest.raises(WagonError, match="weights of a cutflow"):
        Cutflow.of(weights)


@pytest.mark.parametrize(
    "mask",
    [
        np.ma.array([True, True, True], mask=[False, False, True]),
        ak.Array([True, None, True]),
        ak.Array([[True], [], [True, False]]),
        [1, 0, 1],
        [True],
    ],
    ids=str,
)
def test_masks_that_do_not_say_of_each_event_whether_it_passes_are_refused(mask: Any) -> None:
    flow = Cutflow.of(3)
    with pytest.raises(WagonError, match="the mask of cut 'two muons'"):
        flow.cut("two muons", mask)
    assert flow.cut("one muon", ak.Array([True, False, True])).tolist() == [True, False, True]
    assert list(flow) == [("all", 3, 3.0), ("one muon", 2, 2.0)]


def test_names_are_texts() -> None:
    name: Any = 3
    with pytest.raises(WagonError, match="must be a string"):
        Cutflow.of(1).cut(name, [True])


def test_a_cutflow_prints_weights_whose_points_are_below_each_other() -> None:
    flow = Cutflow.of(np.full(1000, 12.5))
    flow.cut("two muons", np.arange(1000) < 41)
    flow.cut("missing momentum", np.arange(1000) < 1)
    assert str(flow).splitlines() == [
        "all               1 000  12 500.00",
        "two muons            41     512.50",
        "missing momentum      1      12.50",
    ]
