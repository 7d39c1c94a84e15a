"""Many objects of one class: the values of each one, with the program of the class compiled once."""

from __future__ import annotations

from pathlib import Path

import boost_histogram
import numpy as np

import branchline

COUNT = 40


def test_objects_of_one_class_have_their_own_values(tmp_path: Path) -> None:
    path = tmp_path / "many.root"
    with branchline.recreate(path) as file:
        for number in range(COUNT):
            histogram = boost_histogram.Histogram(boost_histogram.axis.Regular(1 + number % 3, 0, 1 + number))
            histogram.view(flow=True)[...] = number + np.arange(3 + number % 3)
            file[f"h{number}"] = histogram
    opened = branchline.open(path)
    # The order in which objects are read does not matter.
    for number in [*range(COUNT), *reversed(range(COUNT))]:
        found = opened[f"h{number}"]
        assert found.values(flow=True).tolist() == (number + np.arange(3 + number % 3)).tolist()
        assert found.axes[0].edges.tolist() == np.linspace(0, 1 + number, 2 + number % 3).tolist()


def test_only_members_that_are_used_become_values(tmp_path: Path) -> None:
    path = tmp_path / "one.root"
    with branchline.recreate(path) as file:
        file["h"] = np.histogram([1.0, 2.0], bins=4)
    record = branchline.open(path).record("h")
    made = record._value_of.func.__self__._members
    assert not made
    assert record["fEntries"] == 2
    assert list(made) == ["fEntries"]
