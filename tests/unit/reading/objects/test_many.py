"""Many objects of one class: the values of each one, with the program of the class compiled once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import boost_histogram
import numpy as np
import pytest

import branchline
from branchline._core import Column
from branchline.reading.objects import stored_values

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


def test_only_members_that_are_used_become_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "one.root"
    with branchline.recreate(path) as file:
        file["h"] = np.histogram([1.0, 2.0], bins=4)
    read: list[Column] = []

    def counted(column: Column, make_record: stored_values.MakeRecord) -> stored_values.Values:
        read.append(column)
        return values_of(column, make_record)

    values_of = stored_values.values_of
    monkeypatch.setattr(stored_values, "values_of", counted)
    record = branchline.open(path).record("h")
    assert record["fEntries"] == record.singles()["fEntries"] == 2
    assert record["fXaxis"]["fNbins"] == 4
    assert not read
    assert record["fArray"].tolist() == [0, 1, 0, 0, 1, 0]
    assert len(read) == 2, "a list, and the numbers in it"


def test_texts_in_another_encoding_are_read(tmp_path: Path) -> None:
    path = tmp_path / "text.root"
    with branchline.recreate(path, compression=None) as file:
        file["text"] = "time in \u00b5s"
    path.write_bytes(path.read_bytes().replace("\u00b5".encode(), b"\xff\xfe"))
    assert branchline.open(path)["text"] == "time in \ufffd\ufffds"


def test_histograms_are_read_without_awkward(tmp_path: Path) -> None:
    path = tmp_path / "one.root"
    with branchline.recreate(path) as file:
        file["h"] = np.histogram([1.0, 2.0], bins=4)
    program = "import branchline, sys; print(branchline.open(sys.argv[1])['h'].sum(), 'awkward' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2.0", "False"]
