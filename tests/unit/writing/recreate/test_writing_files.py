"""Files that are written from Python are whole or not there, and hold what was given."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import boost_histogram
import hist
import numpy as np
import pytest
import uproot

import branchline
from branchline.errors import (
    NoSuchKeyError,
    OptionError,
    StorageError,
    UnsupportedBranchError,
)

JAGGED = ak.Array([[1.5], [], [2.5, 3.5]])
COLUMNS = {
    "i": np.array([1, 2, 3], dtype="i4"),
    "f": np.array([0.5, 1.5, 2.5], dtype="f4"),
    "flag": np.array([True, False, True]),
    "grid": np.arange(12, dtype="f8").reshape(3, 2, 2),
    "x": JAGGED,
    "pairs": ak.Array(
        ak.contents.ListOffsetArray(
            ak.index.Index64(np.array([0, 1, 1, 3])),
            ak.from_numpy(np.arange(6.0).reshape(3, 2), regulararray=True).layout,
        )
    ),
    "nested": ak.Array([[[1, 2], []], [], [[3]]]),
    "text": ak.Array(["a", "", "three"]),
    "texts": ak.Array([["a", "b"], [], ["c"]]),
    "jet": ak.zip({"pt": JAGGED, "eta": JAGGED * 2}),
    "met": ak.zip({"pt": [1.0, 2.0, 3.0], "phi": [4.0, 5.0, 6.0]}),
}


@pytest.mark.parametrize("compression", ["zstd:5", "lz4", "zlib:9", "lzma:1", None, 505, "ZLIB(1)"])
def test_a_tree_is_read_as_it_was_given(tmp_path: Path, compression: object) -> None:
    path = tmp_path / "a.root"
    with branchline.recreate(path, compression=compression) as file:
        file.mktree("events", COLUMNS)
        assert file["events"].num_entries == 3
        file["events"].extend(COLUMNS)
        assert path.exists()
    tree = branchline.open(path)["events"]
    read = tree.arrays()
    for name in ("i", "f", "flag", "grid", "x", "pairs", "nested", "text", "texts"):
        wanted = ak.concatenate([ak.Array(COLUMNS[name])] * 2)
        assert read[name].to_list() == wanted.to_list(), name
    assert read["nx"].to_list() == [1, 0, 2] * 2
    assert read["jet_eta"].to_list() == (JAGGED * 2).to_list() * 2
    assert read["njet"].to_list() == [1, 0, 2] * 2
    assert read["met_phi"].to_list() == [4.0, 5.0, 6.0] * 2
    assert tree["i"].typename == "int32_t"


def test_an_ntuple_keeps_records(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with branchline.create(path) as file:
        ntuple = file.mkrntuple("dir/ntuple", COLUMNS, "a description")
        ntuple.extend(ak.Array(COLUMNS))
    read = branchline.open(path)["dir/ntuple"].arrays()
    for name, given in COLUMNS.items():
        assert read[name].to_list() == ak.Array(given).to_list() * 2, name


def test_trees_are_filled_by_turns(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with branchline.recreate(path) as file:
        a = file.mktree(
            "a",
            {"x": "float32", "v": ("i2", (2,)), "t": "string", "l": "var * int64", "r": "var * {a: int8, b: float32}"},
            title="of a test",
        )
        b = file.mkrntuple("b", {"x": np.dtype("u8")})
        for number in range(50):
            values = np.full(1000, number)
            a.extend(
                {
                    "x": values.astype("f4"),
                    "v": np.stack([values, -values], 1),
                    "t": [str(number)] * 1000,
                    "l": [[number]] * 1000,
                    "r": [[{"a": number, "b": 1.5}]] * 1000,
                }
            )
            b.extend({"x": values.astype("u8")})
    with branchline.open(path) as read:
        assert read["a"].title == "of a test"
        assert ak.array_equal(read["a"]["x"].array(), np.repeat(np.arange(50, dtype="f4"), 1000))
        assert read["a"]["v"].array()[-1].to_list() == [49, -49]
        assert read["a"]["t"].array()[1000] == "1"
        assert ak.array_equal(read["b"]["x"].array(), np.repeat(np.arange(50, dtype="u8"), 1000))


def test_an_error_before_the_first_object_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    path.write_bytes(b"before")
    with pytest.raises(OptionError), branchline.recreate(path) as file:
        file.update({"": "nothing has this name", "t": {"x": np.arange(3)}})
    assert path.read_bytes() == b"before"
    assert [one.name for one in tmp_path.iterdir()] == ["a.root"]
    with pytest.raises(StorageError, match="already"):
        branchline.create(path)


def test_names_have_cycles_and_directories(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with branchline.recreate(path) as file:
        file["t"] = "one"
        file["t"] = "two"
        file.mkdir("d/e")["t"] = "three"
        file["gone"] = "four"
        del file["gone"]
        assert file.keys() == ["t;1", "t;2", "d;1", "d/e;1", "d/e/t;1"]
        assert file["d"].keys(cycle=False) == ["e", "e/t"]
        assert file.classnames(recursive=False, cycle=False) == {"t": "TObjString", "d": "TDirectory"}
        assert "t;2" in file
        assert "t;3" not in file
        assert file["t"] == "two"
    read = branchline.open(path)
    assert (read["t;1"], read["t"], read["d/e/t"]) == ("one", "two", "three")
    assert "gone" not in read


def test_an_update_adds_to_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with branchline.recreate(path) as file:
        file["d/t"] = "one"
        file.mktree("tree", {"x": np.arange(10)})
    with branchline.update(path) as file:
        assert file["d/t"] == "one"
        assert file["tree"]["x"].array().to_list() == list(range(10))
        file["d/t"] = "two"
        file["d/e/t"] = "three"
        file.mktree("more", {"x": [1.5]})
        del file["tree"]
    read = branchline.open(path)
    assert (read["d/t;1"], read["d/t;2"], read["d/e/t"]) == ("one", "two", "three")
    assert read["more"]["x"].array().to_list() == [1.5]
    assert "tree" not in read
    after = path.read_bytes()
    with pytest.raises(OptionError), branchline.update(path) as file:
        file.update({"": "z", "x": "y"})
    assert path.read_bytes() == after


def test_histograms_of_python_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    one = hist.Hist.new.Reg(10, 0, 1, name="x", label="x [m]").Weight().fill([0.1, 0.2, 5], weight=[1, 2, 3])
    two = boost_histogram.Histogram(boost_histogram.axis.Regular(3, 0, 1), boost_histogram.axis.Variable([0, 1, 5]))
    two.fill([0.5], [2.0])
    with branchline.recreate(path) as file:
        file["one"] = one
        file["two"] = two
        file["np1"] = np.histogram([1, 2, 2], bins=4)
        file["np2"] = np.histogram2d([1, 2], [3, 4], bins=(2, 3))
        file["np3"] = np.histogramdd(np.ones((4, 3)), bins=2)
    read = branchline.open(path)
    assert np.array_equal(read["one"].variances(flow=True), one.variances(flow=True))
    assert np.array_equal(read["two"].values(), two.values())
    assert np.array_equal(read["np1"].values(), [1, 0, 0, 2])
    assert read["np2"].values().shape == (2, 3)
    assert read["np3"].classname == "TH3D"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"x": [1.0]}, "missing y"),
        ({"x": [1.0], "y": [1], "z": [1]}, "z is not in this tree"),
        ({"x": [1.0], "y": [1, 2]}, "different lengths: x has 1, y has 2"),
        ({"x": [1.0], "y": [1.5]}, "branch y has the type int32, but is given float64"),
        ("text", "a str is not a table"),
    ],
)
def test_entries_that_do_not_fit_are_refused(tmp_path: Path, values: object, text: str) -> None:
    with branchline.recreate(tmp_path / "a.root") as file:
        tree = file.mktree("t", {"x": "f8", "y": "i4"})
        with pytest.raises(OptionError, match=text):
            tree.extend(values)
        tree.extend({"y": [2], "x": [1]})
    assert branchline.open(tmp_path / "a.root")["t"]["x"].array().to_list() == [1.0]


NARROW = {"x": "int32", "jagged": "var * int8", "deep": "var * {f: var * float32}", "fixed": ("u2", (2,)), "f": "f4"}
ROWS = {
    "x": [1, 2, 3],
    "jagged": [[1], [], [2, -128]],
    "deep": [[{"f": [1.0]}], [], [{"f": []}, {"f": [np.inf, 2.0]}]],
    "fixed": np.array([[0, 1], [2, 3], [4, 65535]], "u2"),
    "f": [1.0, np.nan, -np.inf],
}


@pytest.mark.parametrize("maker", ["mktree", "mkrntuple"])
@pytest.mark.parametrize(
    ("name", "values", "text"),
    [
        ("x", [1, 2**40, -(2**40)], r"branch x has the type int32, which cannot store 1099511627776 in row 1"),
        ("x", np.array([1, 2, 2**63], "u8"), r"int32, which cannot store 9223372036854775808 in row 2"),
        ("jagged", [[1, 2], [], [3, -129]], r"branch jagged has the type int8, which cannot store -129 in row 2"),
        (
            "deep",
            [[], [{"f": [1.0]}, {"f": [2.0, 1e39]}], []],
            r"deep.f has the type float32, which cannot store 1e\+39 in row 1",
        ),
        ("fixed", np.array([[0, 1], [70000, 3], [4, 5]], "u4"), r"uint16, which cannot store 70000 in row 1"),
        ("f", [np.inf, np.nan, -1e300], r"branch f has the type float32, which cannot store -1e\+300 in row 2"),
    ],
)
def test_numbers_that_a_branch_cannot_hold_are_refused(
    tmp_path: Path, maker: str, name: str, values: object, text: str
) -> None:
    with branchline.recreate(tmp_path / "a.root") as file:
        tree = getattr(file, maker)("t", NARROW)
        with pytest.raises(OptionError, match=text):
            tree.extend(ROWS | {name: values})
        tree.extend(ROWS)
    read = branchline.open(tmp_path / "a.root")["t"].arrays(list(NARROW) if maker == "mkrntuple" else ["x", "jagged"])
    assert read["x"].to_list() == ROWS["x"]
    assert read["jagged"].to_list() == ROWS["jagged"]


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        ("?int32", [1, None, 2**40], r"branch x has the type int32, which cannot store 1099511627776 in row 2"),
        ("?int32", [1, 2**40], r"branch x has the type int32, which cannot store 1099511627776 in row 1"),
        ("?int32", [None, 1.5], r"branch x has the type int32, but is given float64"),
        ("?float32", [None, None, 1e300], r"branch x has the type float32, which cannot store 1e\+300 in row 2"),
        ("var * ?int8", [[1, None], [], [None, 300]], r"branch x has the type int8, which cannot store 300 in row 2"),
    ],
)
def test_numbers_that_a_field_whose_values_may_miss_cannot_hold_are_refused(
    tmp_path: Path, kind: str, values: list[object], text: str
) -> None:
    with branchline.recreate(tmp_path / "a.root") as file:
        tree = file.mkrntuple("t", {"x": kind})
        with pytest.raises(OptionError, match=text):
            tree.extend({"x": ak.Array(values)})


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("?int32", [[1, None, 7], [None, 2], [3, 4]]),
        ("?float32", [[None, 0.5], [1, None]]),
        ("var * ?int8", [[[1, None], [], [None, -128]], [[5]]]),
    ],
)
def test_numbers_that_may_miss_become_those_of_the_field(tmp_path: Path, kind: str, parts: list[object]) -> None:
    with branchline.recreate(tmp_path / "a.root") as file:
        tree = file.mkrntuple("t", {"x": kind})
        for part in parts:
            tree.extend({"x": ak.Array(part)})
    read = branchline.open(tmp_path / "a.root")["t"]["x"].array()
    assert read.to_list() == [one for part in parts for one in part]
    assert str(read.type.content) == kind


@pytest.mark.parametrize("kind", ["floatt", "var *", "3 * var * nothing", float | None])
def test_what_is_no_type_of_a_branch_is_said(tmp_path: Path, kind: object) -> None:
    with branchline.recreate(tmp_path / "a.root") as file, pytest.raises(OptionError, match=r"branch x: invalid type"):
        file.mktree("t", {"x": kind})


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "a.root") as file:
        for value, text in (
            (object(), "an object of the type object cannot be written"),
            ({"x": ak.Array([[], []])}, "type of x is unknown"),
            ((np.arange(3), np.arange(3)), "do not form a histogram"),
        ):
            with pytest.raises(UnsupportedBranchError, match=text):
                file["a"] = value
        for name, value in (("", "text"), ("a;1", "text"), ("t", {})):
            with pytest.raises(OptionError):
                file[name] = value
        with pytest.raises(OptionError, match="collides"):
            file.mktree("t", {"nx": ["a"], "x": [[1]]})
        with pytest.raises(UnsupportedBranchError, match="may be missing"):
            file.mktree("a", {"x": ak.Array([1, None])})
        with pytest.raises(NoSuchKeyError):
            file["nothing"]
        with pytest.raises(OptionError, match="invalid compression"):
            file.mktree("t", {"x": "i4"}, compression=1.5)
        tree = file.mktree("t", {"x": "i4"})
    with pytest.raises(StorageError, match="closed"):
        file["b"] = "text"
    with pytest.raises(ValueError, match="closed"):
        tree.extend({"x": [1]})
    with pytest.raises(OptionError):
        branchline.recreate(tmp_path / "b.root", compression="gzip")


def test_the_compression_of_a_file_is_that_of_the_next_trees(tmp_path: Path) -> None:
    path, values = tmp_path / "a.root", {"x": np.zeros(20_000, "i4")}
    with branchline.recreate(path, compression="zlib:5") as file:
        file.mktree("first", values)
        file.compression = None
        assert file.compression == "none"
        file.mktree("second", values)
        file.compression = uproot.LZ4(4)
        file.mktree("third", values)
        with pytest.raises(OptionError, match="invalid compression"):
            file.compression = 1.5
    trees = uproot.open(path)
    assert [trees[name]["x"].compression for name in ("first", "second", "third")] == [
        uproot.ZLIB(5),
        None,
        uproot.LZ4(4),
    ]


def test_attributes_that_would_have_no_effect_raise(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "a.root") as file:
        tree = file.mktree("t", {"x": "i4"})
        for thing in (file, file.mkdir("d"), tree):
            for name in ("title", "compresion", "initial_directory_bytes"):
                if not hasattr(thing, name):
                    with pytest.raises(AttributeError):
                        setattr(thing, name, "anything")
