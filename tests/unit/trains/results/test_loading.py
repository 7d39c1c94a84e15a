"""Results of a directory are loaded as what the wagons returned; what is missing or partial is said."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import math
from pathlib import Path
from typing import Any

import awkward as ak
import boost_histogram
import hist
import numpy as np
import pandas
import pyarrow
import pytest
import uproot

import branchline
from branchline.records.result_files.formats import JSON_CELLS_MAX

EVENTS = 30


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two files of events."""
    folder = tmp_path_factory.mktemp("data")
    for name in ("a", "b"):
        with uproot.recreate(folder / f"{name}.root") as file:
            file.mktree("events", {"x": "float64"}).extend({"x": np.linspace(0, 1, EVENTS // 2)})
    return str(folder / "*.root")


class Returns:
    """Returns one value, whatever the events are."""

    branches = ("x",)

    def __init__(self, value: Any, name: str = "it") -> None:
        self.value, self.name = value, name

    def process(self, events: Any) -> None:
        """Adds nothing."""

    def postprocess(self, _total: Any) -> Any:
        """The value."""
        return self.value


def loaded(value: Any, data: str, out: Path) -> Any:
    """A value after it was written and loaded."""
    result = branchline.run(Returns(value), data, out, workers=0, pictures="none")
    assert result.errors == []
    return branchline.load(out)["it"]


def same(one: Any, other: Any) -> bool:
    """Whether two values are of one type and equal, not-a-numbers too."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other or (isinstance(one, float) and math.isnan(one) and math.isnan(other)))


VALUES: list[Any] = [
    12,
    2**70,
    -0.5,
    math.nan,
    -math.inf,
    "eta \N{GREEK SMALL LETTER ETA}",
    None,
    True,
    3 - 2j,
    complex(math.inf, 1),
    b"\x00\xff",
    decimal.Decimal("0.10"),
    datetime.datetime(2026, 11, 25, 12, 30),
    datetime.date(2026, 11, 25),
    [],
    {},
    (),
    set(),
    (1, (2.5, "x"), [None]),
    {3, 1, 2},
    frozenset({"a"}),
    [(1, 2), (3, 4)],
    [1.0, math.nan, 2.0],
    {"file": "results/other.json"},
    {"events": 3, "groups": {"signal": {"mean": math.inf}, "background": {"mean": 1.5}}},
    {1: "a", "1": "b"},
    {1: "a", 2: math.nan},
    {("signal", 1): 2.0, ("signal", 2): 3.0},
    {None: 1, True: 2, 0.5: 3},
    {math.inf: {(1, (2,)): {3}}},
]


def test_plain_values_come_back_with_their_types(data: str, tmp_path: Path) -> None:
    """All in one train: a train takes longer than loading a value."""
    values = [one for value in VALUES for one in (value, {"inside": [value, {"deeper": value}]})]
    wagons = [Returns(value, f"wagon {number}") for number, value in enumerate(values)]
    result = branchline.run(wagons, data, tmp_path, workers=0, pictures="none")
    assert result.errors == []
    found = branchline.load(tmp_path)
    for wagon in wagons:
        assert same(found[wagon.name], wagon.value), wagon.value


def filled(kind: Any) -> Any:
    histogram = hist.Hist(
        hist.axis.Regular(4, 0, 1, name="x", label="x [GeV]"), hist.axis.StrCategory(["a", "b"], name="c"), storage=kind
    )
    samples = {"sample": [3.0, 4.0, 4.5]} if "Mean" in type(kind).__name__ else {}
    weights = {"weight": [0.1, 0.2, 0.7]} if "Weight" in type(kind).__name__ else {}
    return histogram.fill([-1, 0.3, 0.4], ["a", "a", "b"], **samples, **weights)


STORAGES = ("Double", "Int64", "Weight", "Mean", "WeightedMean", "Unlimited", "AtomicInt64")


@pytest.mark.parametrize("storage", STORAGES)
def test_histograms_come_back_with_axes_and_errors(storage: str, data: str, tmp_path: Path) -> None:
    one = filled(getattr(hist.storage, storage)())
    again = loaded({"h": one}, data, tmp_path)["h"]
    assert type(again) is hist.Hist
    assert [(axis.name, axis.label) for axis in again.axes] == [(axis.name, axis.label) for axis in one.axes]
    np.testing.assert_array_equal(again.values(flow=True), one.values(flow=True))
    np.testing.assert_array_equal(again.variances(flow=True), one.variances(flow=True))
    assert type(again.storage_type()) is type(one.storage_type())
    both = again + one
    np.testing.assert_allclose(both.counts(flow=True), 2 * one.counts(flow=True))


def test_a_histogram_of_boost_histogram_stays_one(data: str, tmp_path: Path) -> None:
    one = boost_histogram.Histogram(boost_histogram.axis.Regular(3, 0, 1)).fill([0.5])
    again = loaded(one, data, tmp_path)
    assert type(again) is boost_histogram.Histogram
    assert again == one


@pytest.mark.long
def test_a_large_histogram_comes_back(data: str, tmp_path: Path) -> None:
    one = hist.Hist.new.Reg(JSON_CELLS_MAX, 0, 1).Double().fill([0.5, 0.25])
    again = loaded({"large": one}, data, tmp_path)["large"]
    assert again == one


def test_bins_and_named_tuples_come_back(data: str, tmp_path: Path) -> None:
    one = filled(hist.storage.Weight())
    value = {"bin": one[0.3j, "a"], "sum": boost_histogram.accumulators.Sum(2.5)}
    again = loaded(value, data, tmp_path)
    assert again == value
    assert type(again["bin"]) is type(value["bin"])


def test_arrays_and_tables_come_back(data: str, tmp_path: Path) -> None:
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", None]}, index=["first", "second"])
    value = {
        "numbers": np.arange(6, dtype=np.int16).reshape(2, 3),
        "masked": np.ma.MaskedArray([1.0, 2.0], [False, True]),
        "jagged": ak.Array([[1.5], [], [2, 3]]),
        "records": ak.Array([{"pt": 1.0, "hits": [1]}]),
        "frame": frame,
        "labels": pandas.DataFrame([[1, 2]], columns=[1, ("a", 2)]),
        "series": pandas.Series([1.5, 2.5], name=7),
        "mixed": pandas.DataFrame({"a": [1, "x"]}),
        "arrow": pyarrow.table({"a": [1, 2]}),
    }
    again = loaded(value, data, tmp_path)
    np.testing.assert_array_equal(again["numbers"], value["numbers"])
    assert again["numbers"].dtype == np.int16
    assert again["masked"].mask.tolist() == [False, True]
    for name in ("jagged", "records"):
        assert again[name].to_list() == value[name].to_list()
        assert str(again[name].type) == str(value[name].type)
    pandas.testing.assert_frame_equal(again["frame"], frame)
    assert list(again["labels"].columns) == [1, ("a", 2)]
    pandas.testing.assert_series_equal(again["series"], value["series"])
    assert again["mixed"].to_dict() == value["mixed"].to_dict()
    assert again["arrow"] == value["arrow"]


@dataclasses.dataclass
class Summary:
    """A class of the user's."""

    events: int
    range: tuple[float, float]


def test_an_object_of_a_class_of_the_user_is_the_dict_of_its_fields(data: str, tmp_path: Path) -> None:
    assert loaded(Summary(3, (0.0, math.inf)), data, tmp_path) == {"events": 3, "range": (0.0, math.inf)}


class Skims:
    """Returns a table and a number."""

    name = "skims"

    def process(self, events: Any) -> Any:
        """The values above a half."""
        good = events[events.x > 0.5]
        return {"skim": branchline.Table({"x": good.x}), "events": len(good)}


@pytest.mark.parametrize("name", ["skims", "tables"])
def test_a_table_comes_back_as_the_place_of_its_rows_also_where_the_directory_was_moved(
    data: str, tmp_path: Path, name: str
) -> None:
    wagon = Skims()
    wagon.name = name
    out = tmp_path / "tables" / "out"
    out.parent.mkdir()
    result = branchline.run(wagon, data, out, workers=0)
    skim = branchline.load(out)[name]["skim"]
    assert skim == result.outputs[name]["skim"]
    out.rename(tmp_path / "moved")
    moved = branchline.load(tmp_path / "moved")[name]["skim"]
    assert moved.rows == len(branchline.open(moved.path)[moved.tree].arrays())


class Fails:
    """Raises in the second file."""

    name = "fails"

    def process(self, events: Any) -> int:
        """The number of events of the first file."""
        if events.metadata["filename"].endswith("b.root"):
            raise ValueError("no such thing")
        return len(events)


def test_a_partial_result_is_refused_unless_it_is_asked_for(data: str, tmp_path: Path) -> None:
    with pytest.warns(
        branchline.PartialResultWarning, match=r"not complete: 1 wagon failed \(fails\); .*no such thing"
    ):
        result = branchline.run([Fails(), Skims()], data, tmp_path, workers=0, pictures="none")
    assert result.outputs["fails"] == EVENTS // 2
    with pytest.raises(branchline.PartialResultError, match=r"1 wagon failed \(fails\)"):
        result.raise_error()
    results = branchline.load(tmp_path)
    assert results["skims"]["events"] == 14
    with pytest.raises(branchline.PartialResultError, match="no such thing"):
        results["fails"]
    assert branchline.load(tmp_path, partial=True)["fails"] == EVENTS // 2


def test_what_cannot_be_loaded_is_said(data: str, tmp_path: Path) -> None:
    with pytest.raises(branchline.MissingFileError, match="no results of a train"):
        branchline.load(tmp_path)
    branchline.run(Returns({"h": filled(hist.storage.Double()), "n": 1}), data, tmp_path, workers=0, pictures="none")
    results = branchline.load(tmp_path)
    assert list(results) == ["it"]
    assert "30 events" in repr(results)
    with pytest.raises(branchline.NoSuchKeyError, match="did you mean 'it'"):
        results["its"]
    stored = tmp_path / "results/it/h.json"
    stored.write_text(stored.read_text()[:-40])
    with pytest.raises(branchline.BadFileError, match=r"h\.json"):
        results["it"]
    stored.unlink()
    with pytest.raises(branchline.MissingFileError, match=r"h\.json"):
        results["it"]


def test_a_notebook_shows_the_wagons_of_results(data: str, tmp_path: Path) -> None:
    histograms = {f"h{number}": hist.Hist.new.Reg(2, 0, 1).Double() for number in range(8)}
    branchline.run(Returns({"sum": 1} | histograms), data, tmp_path, workers=0, pictures="none")
    shown = branchline.load(tmp_path)._repr_html_()
    assert f"Results of {EVENTS} events in {tmp_path}" in shown
    assert f"<td>it</td><td>{EVENTS}</td><td>h0, h1, h2, h3, h4, h5, 2 more</td><td></td>" in shown


def test_a_train_at_work_has_no_results_yet(data: str, tmp_path: Path) -> None:
    seen: list[Exception] = []

    class Looks:
        """Loads the results while they are made."""

        branches = ("x",)

        def process(self, _events: Any) -> None:
            """Looks once."""
            try:
                branchline.load(tmp_path)
            except branchline.BranchlineError as error:
                seen.append(error)

    branchline.run(Looks(), data, tmp_path, workers=0, pictures="none")
    assert isinstance(seen[0], branchline.PartialResultError)
