"""What wagons return, read back from results/ without Branchline and without ROOT."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from pathlib import Path
from typing import Any

import awkward
import hist
import numpy
import pandas
import pyarrow
import pyarrow.parquet
import pytest
import uhi.io.json
import uhi.io.zip

from branchline.records.result_files import formats
from branchline.records.result_files.formats import write_part, write_plain
from branchline.records.result_files.outputs import Part, take_apart


def _stored(tmp_path: Path, output: Any) -> Any:
    """Store an output as a wagon's, and return its JSON as read back."""

    def store(part: Part) -> dict[str, str]:
        return {"file": write_part(tmp_path, part).files[0]}

    plain = take_apart("wagon", output, store, ("wagon",))
    return json.loads((tmp_path / write_plain(tmp_path, "wagon", plain)).read_text())


def test_plain_data_come_back_as_they_were(tmp_path: Path) -> None:
    output = {"events": 12, "mean": 0.1, "name": "pp \N{GREEK SMALL LETTER ETA}", "ok": True, "none": None}
    output["nested"] = {"list": [1, 2.5, "x"], "empty": {}}
    assert _stored(tmp_path, output) == output


@dataclasses.dataclass
class _Summary:
    events: int
    ratio: float


class _Custom:
    def __init__(self) -> None:
        self.total = 3

    def __repr__(self) -> str:
        return "custom(3)"


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (numpy.int64(2**60), 2**60),
        (numpy.float32(0.5), 0.5),
        (numpy.array(7), 7),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (1 + 2j, {"real": 1.0, "imag": 2.0}),
        (b"\x00\xff", {"base64": "AP8="}),
        ({3, 1, 2}, [1, 2, 3]),
        ((1, (2, 3)), [1, [2, 3]]),
        ({1: "a", (2, "x"): "b"}, {"1": "a", "2,x": "b"}),
        ({1: "a", "1": "b"}, {"pairs": [[1, "a"], ["1", "b"]]}),
        (_Summary(3, 0.5), {"events": 3, "ratio": 0.5}),
        (numpy.array([{"a": 1}, None], dtype=object), [{"a": 1}, None]),
    ],
)
def test_values_that_json_does_not_know_are_kept_as_what_comes_nearest(tmp_path: Path, value: Any, stored: Any) -> None:
    assert _stored(tmp_path, {"value": value}) == {"value": stored}


def test_an_unknown_object_is_told_by_class_text_and_fields(tmp_path: Path) -> None:
    stored = _stored(tmp_path, {"it": _Custom()})["it"]
    assert stored["class"].endswith("._Custom")
    assert stored["text"] == "custom(3)"
    assert stored["fields"] == {"total": 3}


def test_an_accumulator_of_hist_keeps_its_numbers(tmp_path: Path) -> None:
    total = hist.accumulators.WeightedSum(3.0, 1.5)
    assert _stored(tmp_path, [total])[0]["fields"] == {"value": 3.0, "variance": 1.5}


@pytest.mark.parametrize(
    "histogram",
    [
        hist.Hist.new.Reg(5, 0, 5, name="x", label="x [cm]").Weight().fill([1, 2, 9], weight=[0.1, 0.2, 0.3]),
        hist.Hist.new.StrCat([], growth=True).Bool().Reg(2, 0, 1).Double().fill("a", True, 0.5),
        hist.Hist.new.Reg(2, 0, 1).Reg(2, 0, 1).Reg(2, 0, 1).Reg(2, 0, 1).Int64().fill(0.1, 0.6, 0.1, 0.1),
        hist.Hist.new.Var([0, 1, 4]).Mean().fill([0.5, 2, 3], sample=[3, 4, 7]),
    ],
)
def test_every_histogram_comes_back_equal(tmp_path: Path, histogram: Any) -> None:
    name = _stored(tmp_path, {"spectra": {"pt": histogram}})["spectra"]["pt"]["file"]
    assert name == "results/wagon/spectra/pt.json"
    with (tmp_path / name).open() as file:
        assert hist.Hist(json.load(file, object_hook=uhi.io.json.object_hook)) == histogram


def test_weighted_means_come_back_equal_where_anything_was_filled(tmp_path: Path) -> None:
    histogram = hist.Hist.new.Reg(3, 0, 3).WeightedMean().fill([0.5, 1, 1.5], sample=[3, 4, 6], weight=[1, 2, 3])
    with (tmp_path / _stored(tmp_path, {"h": histogram})["h"]["file"]).open() as file:
        read = hist.Hist(json.load(file, object_hook=uhi.io.json.object_hook))
    for field in ("sum_of_weights", "sum_of_weights_squared", "value", "_sum_of_weighted_deltas_squared"):
        numpy.testing.assert_allclose(read.view()[field][:2], histogram.view()[field][:2], rtol=1e-15)


def test_a_large_histogram_is_stored_as_zipped_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "JSON_CELLS_MAX", 10)
    histogram = hist.Hist.new.Reg(20, 0, 1).Weight().fill([0.1, 0.2], weight=0.3)
    name = _stored(tmp_path, {"h": histogram})["h"]["file"]
    with zipfile.ZipFile(tmp_path / name) as archive:
        assert hist.Hist(uhi.io.zip.read(archive, "h")) == histogram


def test_arrays_come_back_without_pickle(tmp_path: Path) -> None:
    array = numpy.array([(1, 2.5), (3, 4.5)], dtype=[("n", "i4"), ("x", "f8")])
    name = _stored(tmp_path, {"selected": array})["selected"]["file"]
    with numpy.load(tmp_path / name, allow_pickle=False) as stored:
        numpy.testing.assert_array_equal(stored["values"], array)


def test_a_masked_array_keeps_its_mask(tmp_path: Path) -> None:
    array = numpy.ma.masked_greater(numpy.arange(5), 2)
    name = _stored(tmp_path, [array])[0]["file"]
    with numpy.load(tmp_path / name, allow_pickle=False) as stored:
        assert stored["mask"].tolist() == [False, False, False, True, True]


def test_awkward_arrays_become_parquet(tmp_path: Path) -> None:
    array = awkward.Array([{"pt": [1.5, 2.5], "n": 2}, {"pt": [], "n": 0}])
    name = _stored(tmp_path, {"jets": array})["jets"]["file"]
    assert name.endswith(".parquet")
    assert awkward.from_parquet(tmp_path / name).to_list() == array.to_list()
    assert pyarrow.parquet.read_table(tmp_path / name).num_rows == 2


def test_what_parquet_cannot_hold_becomes_buffers_and_their_form(tmp_path: Path) -> None:
    array = awkward.Array([1, "two", [3.0, None]])
    described = json.loads((tmp_path / _stored(tmp_path, {"u": array})["u"]["file"]).read_text())
    with numpy.load(tmp_path / described["buffers"], allow_pickle=False) as buffers:
        form = awkward.forms.from_dict(described["form"])
        assert awkward.from_buffers(form, described["length"], buffers).to_list() == array.to_list()


def test_frames_and_tables_become_parquet(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"pt": [1.5, 2.5], "run": ["a", "b"]}, index=[7, 8])
    stored = _stored(tmp_path, {"frame": frame, "series": frame["pt"], "table": pyarrow.table({"x": [1, 2]})})
    pandas.testing.assert_frame_equal(pandas.read_parquet(tmp_path / stored["frame"]["file"]), frame)
    assert pandas.read_parquet(tmp_path / stored["series"]["file"])["pt"].tolist() == [1.5, 2.5]
    assert pyarrow.parquet.read_table(tmp_path / stored["table"]["file"])["x"].to_pylist() == [1, 2]


def test_a_frame_of_mixed_objects_becomes_json(tmp_path: Path) -> None:
    name = _stored(tmp_path, {"odd": pandas.DataFrame({"x": [1, "a", {"b": 2}]})})["odd"]["file"]
    assert json.loads((tmp_path / name).read_text())["data"] == [[1], ["a"], [{"b": 2}]]


def test_names_from_outside_stay_inside_the_directory_and_apart(tmp_path: Path) -> None:
    names = [
        "../../evil",
        "/etc/passwd",
        "..",
        "",
        "pT [GeV]",
        "pT (GeV)",
        "PT_GEV",
        "a/b",
        "x" * 300,
        "\N{GREEK SMALL LETTER ETA}",
    ]
    stored = _stored(tmp_path, {name: numpy.arange(index) for index, name in enumerate(names)})
    files = [entry["file"] for entry in stored.values()]
    assert len({name.lower() for name in files}) == len(names)
    for index, name in enumerate(files):
        path = (tmp_path / name).resolve()
        assert path.is_relative_to(tmp_path / "results" / "wagon")
        with numpy.load(path) as content:
            assert len(content["values"]) == index
