"""Types, codecs and categories that are given for what is written."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import hist
import numpy as np
import pandas as pd
import pytest

import branchline


@pytest.mark.parametrize("kind", ["mktree", "mkrntuple"])
def test_a_form_of_awkward_is_a_type(tmp_path: Path, kind: str) -> None:
    data = ak.Array({"x": np.array([1.5, 2.5]), "v": [[1], [2, 3]]})
    for given in (data.layout.form, {name: data[name].layout.form for name in data.fields}):
        with branchline.recreate(tmp_path / "a.root") as file:
            tree = getattr(file, kind)("t", given)
            assert tree.num_entries == 0
            tree.extend(data)
        read = branchline.open(tmp_path / "a.root")["t"]
        assert read["x"].array().tolist() == [1.5, 2.5]
        assert read["v"].array().tolist() == [[1], [2, 3]]


def test_a_mapping_is_the_type_of_a_record(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "a.root") as file:
        file.mktree("t", {"a": "i4", "b": {"x": "f8", "y": "i8"}}).extend(
            {"a": [1], "b": ak.Array([{"x": 1.5, "y": 2}])}
        )
    assert branchline.open(tmp_path / "a.root")["t"].arrays().tolist() == [{"a": 1, "b_x": 1.5, "b_y": 2}]


@pytest.mark.parametrize("kind", ["mktree", "mkrntuple"])
def test_the_compression_of_an_empty_tree_can_be_set(tmp_path: Path, kind: str) -> None:
    numbers = np.arange(20_000)
    sizes = {}
    for codec in ("none", "zlib:5"):
        path = tmp_path / f"{codec[:4]}.root"
        with branchline.recreate(path, compression="zlib:1") as file:
            getattr(file, kind)("d/t", {"a": "i8"})
            file["d/t"].compression = {"a": codec}
            assert file["d/t"].compression == codec
            file["d/t"].extend({"a": numbers})
            assert file.keys(cycle=False) == ["d", "d/t"]
            with pytest.raises(branchline.OptionError, match="before the first entry"):
                file["d/t"].compression = "lz4"
        sizes[codec] = path.stat().st_size
        assert branchline.open(path)["d/t"]["a"].array().tolist() == numbers.tolist()
    assert sizes["none"] > numbers.nbytes > sizes["zlib:5"] * 2


def test_fields_with_different_codecs_are_refused(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "a.root") as file:
        tree = file.mkrntuple("t", {"a": "i4", "b": "i4"})
        with pytest.raises(branchline.OptionError, match="have the same codec"):
            tree.compression = {"a": "zlib", "b": None}
        tree.extend({"a": [1], "b": [2]})
    assert branchline.open(tmp_path / "a.root")["t"].num_entries == 1


@pytest.mark.parametrize("category", [hist.axis.StrCategory, hist.axis.IntCategory])
@pytest.mark.parametrize("storage", ["Double", "Weight", "WeightedMean"])
def test_a_growing_category_axis_may_be_empty(tmp_path: Path, category: type, storage: str) -> None:
    axis = category([], growth=True, name="s")
    beside = hist.Hist(axis, hist.axis.Regular(3, 0, 3, label="x"), storage=storage, label="beside")
    alone = hist.Hist(axis, storage=storage)
    with branchline.recreate(tmp_path / "a.root") as file:
        file["beside"] = beside
        file["alone"] = alone
        file["n"] = "kept"
    read = branchline.open(tmp_path / "a.root")
    assert read.keys(cycle=False) == ["beside", "beside/other", "alone", "n"]
    assert read["beside/other"].values(flow=True).tolist() == [0] * 5
    assert read["alone"].values().tolist() == [0]
    assert beside.axes[0].extent == 0


@pytest.mark.parametrize("make", [pd.Series, pd.Index])
@pytest.mark.parametrize("dtype", ["str", "object", "category"])
def test_columns_of_pandas_hold_texts(tmp_path: Path, make: type, dtype: str) -> None:
    with branchline.recreate(tmp_path / "a.root") as file:
        file.mktree("t", {"s": make(["x", "y"], dtype=dtype)})
    assert branchline.open(tmp_path / "a.root")["t"]["s"].array().tolist() == ["x", "y"]


@pytest.mark.parametrize("name", ["Jet_pt[nJet]", "a[3]", "x]"])
def test_branches_that_root_cannot_name_are_told(tmp_path: Path, name: str) -> None:
    with (
        pytest.warns(branchline.BranchlineWarning, match="for dimensions"),
        branchline.recreate(tmp_path / "a.root") as file,
    ):
        file.mktree("t", {name: [1.5]})
