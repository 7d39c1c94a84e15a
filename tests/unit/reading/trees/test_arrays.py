"""Values in all four libraries, for every kind of column and any range of entries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pandas
import pyarrow
import pytest
import uproot
from tests.unit.reading.trees.conftest import Sample, write_sample

import branchline
from branchline._core import Buffer, Column
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream

RANGES = [
    (None, None),
    (0, 0),
    (0, 40),
    (10, 20),
    (39, 66),
    (-10, None),
    (-1000, 5),
    (None, -99),
    (95, 1000),
    (200, 300),
    (7, 3),
]


@pytest.fixture(scope="module")
def tree(sample: Sample) -> Any:
    return branchline.open(sample.location)


@pytest.mark.parametrize("limits", RANGES)
def test_a_range_of_entries_is_that_of_a_slice(sample: Sample, tree: Any, limits: tuple[Any, Any]) -> None:
    start, stop, _ = slice(*limits).indices(100)
    wanted = sample.values[start : max(start, stop)]
    read = tree.arrays(entry_start=limits[0], entry_stop=limits[1])
    assert ak.array_equal(read, wanted[read.fields])
    assert read.type.content == wanted[read.fields].type.content
    for name in read.fields:
        assert ak.array_equal(tree[name].array(None, *limits), wanted[name]), name
        assert len(tree[name].array(None, *limits, library="np")) == len(wanted)
        assert len(tree[name].array(None, *limits, library="arrow")) == len(wanted)
        assert len(tree[name].array(None, *limits, library="pd")) == len(wanted)


def test_numpy_has_arrays_of_numbers_and_objects_for_the_rest(sample: Sample, tree: Any) -> None:
    read = tree.arrays(library="np")
    wanted = sample.values
    for name in ("number", "energy", "is_good", "matrix"):
        assert read[name].dtype == ak.to_numpy(wanted[name]).dtype
        assert np.array_equal(read[name], ak.to_numpy(wanted[name])), name
    assert read["matrix"].shape == (100, 2, 3)
    assert all(entry.dtype == "f4" for entry in read["hits"])
    assert [entry.tolist() for entry in read["hits"]] == wanted.hits.tolist()
    assert read["label"].tolist() == wanted.label.tolist()
    assert np.array_equal(tree["energy"].array(library="np"), read["energy"])


def test_arrow_has_a_table_of_the_same_values(sample: Sample, tree: Any) -> None:
    table = tree.arrays(library="arrow")
    assert isinstance(table, pyarrow.Table)
    assert table.num_rows == 100
    for name in table.column_names:
        assert table[name].to_pylist() == sample.values[name].tolist(), name
    assert isinstance(tree["hits"].array(library="arrow"), pyarrow.Array)
    assert tree["hits"].array(library="arrow").to_pylist() == sample.values.hits.tolist()


def test_pandas_has_a_frame_of_the_same_values(sample: Sample, tree: Any) -> None:
    frame = tree.arrays(library="pd")
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.index) == list(range(100))
    for name in ("number", "energy", "is_good"):
        assert frame[name].to_numpy().tolist() == sample.values[name].tolist()
    assert frame["label"].tolist() == sample.values.label.tolist()
    assert [list(entry) for entry in frame["hits"]] == sample.values.hits.tolist()
    series = tree["energy"].array(library="pd")
    assert isinstance(series, pandas.Series)
    assert series.tolist() == sample.values.energy.tolist()


def test_arrays_are_the_same_whatever_the_number_of_workers_and_the_memory(sample: Sample, tree: Any) -> None:
    for workers in (1, 2, 3, 4):
        read = tree.arrays(workers=workers, memory_limit=200_000 * workers)
        assert ak.array_equal(read, sample.values[read.fields])


@pytest.mark.parametrize("library", ["ak", "np", "arrow", "pd"])
def test_an_empty_tree_has_columns_of_no_entries(tmp_path: Path, library: Any) -> None:
    empty = write_sample(tmp_path / "empty.root", None, (0,))
    tree = branchline.open(empty.location)
    assert tree.entries_count == 0
    read = tree.arrays(library=library)
    for name in tree.keys():
        assert len(read[name]) == 0, name
        assert len(tree[name].array(library=library)) == 0
    assert list(tree.iterate(step_size=10)) == []


def test_no_branches_are_a_group_without_fields(tree: Any) -> None:
    assert len(tree.arrays([])) == 100
    assert tree.arrays([], library="np") == {}


def test_an_unknown_library_is_refused(tree: Any) -> None:
    for read in (tree.arrays, tree["number"].array, tree.iterate):
        with pytest.raises(branchline.BranchlineError, match="cupy"):
            read(library="cupy")


def test_values_stay_when_file_and_tree_are_gone(sample: Sample) -> None:
    array = branchline.open(sample.location)["energy"].array(library="np")
    more = [branchline.open(sample.location).arrays() for _ in range(3)]
    assert array.tolist() == sample.values.energy.tolist()
    assert all(ak.array_equal(one, sample.values[one.fields]) for one in more)


def test_arrays_share_their_memory_and_cannot_be_written(tree: Any) -> None:
    array = tree["energy"].array(library="np")
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1.0
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.flags.writeable = True


def buffers_of(column: Column) -> list[np.ndarray[Any, Any]]:
    """The arrays that hold the values of a column and of those in it."""
    inner = [*getattr(column, "contents", []), *([column.content] if hasattr(column, "content") else [])]
    own = [getattr(column, name) for name in ("offsets", "values", "letters", "valid", "tags") if hasattr(column, name)]
    return own + [one for content in inner for one in buffers_of(content)]


def test_buffers_of_columns_are_arrays_right_over_the_memory_of_the_engine(sample: Sample) -> None:
    (chunk,) = ChunkStream([Source(str(sample.path), sample.tree, 0, None)], None)
    arrays = [one for name in chunk.branches for one in buffers_of(chunk.column(name))]
    assert len(arrays) > len(chunk.branches)
    for one in arrays:
        assert (type(one), type(one.base)) == (np.ndarray, Buffer)
        assert one.nbytes == len(one.base)
        assert one.flags.c_contiguous
        assert one.flags.aligned


def test_texts_of_any_length_and_bytes_are_kept(tmp_path: Path) -> None:
    texts = ["", "a", "x" * 254, "y" * 255, "z" * 256, "e\u00e9\u4e2d" * 1000, ""]
    with uproot.recreate(tmp_path / "texts.root") as file:
        file.mktree("t", {"s": "string"}).extend({"s": ak.Array(texts)})
    branch = branchline.open(tmp_path / "texts.root")["t"]["s"]
    assert branch.array().tolist() == texts
    assert branch.array(library="np").tolist() == texts


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "?"])
def test_numbers_keep_their_type_up_to_their_ends(tmp_path: Path, dtype: str) -> None:
    if dtype == "?":
        values = np.array([True, False, True])
    elif dtype[0] == "f":
        limits = np.finfo(dtype)
        values = np.array([limits.min, -0.0, limits.tiny, limits.max, np.inf, -np.inf, np.nan], dtype)
    else:
        whole = np.iinfo(dtype)
        values = np.array([whole.min, 0, 1, whole.max], dtype)
    with uproot.recreate(tmp_path / "numbers.root") as file:
        file.mktree("t", {"x": values.dtype}).extend({"x": values})
    for array in (
        branchline.open(tmp_path / "numbers.root")["t"]["x"].array(library=library) for library in ("ak", "np")
    ):
        read = np.asarray(array)
        assert read.dtype == values.dtype
        assert read.tobytes() == values.tobytes()
