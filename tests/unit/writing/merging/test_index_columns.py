"""Merges and skims leave no wrong index columns: they keep whole folders, or refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.ao2d import folder, write_ao2d

import branchline
from branchline.errors import DatasetError


def test_a_merge_keeps_all_folders_side_by_side(tmp_path: Path) -> None:
    folders = [folder(number, 10) for number in range(4)]
    inputs = [str(write_ao2d(tmp_path / f"{half}.root", folders[2 * half : 2 * half + 2])) for half in (0, 1)]
    made = branchline.merge(inputs, tmp_path / "all.root")
    assert (made.files, made.trees) == (2, 4 * len(folders[0].tables))
    with uproot.open(tmp_path / "all.root") as file:
        for one in folders:
            for table, columns in one.tables.items():
                for name, values in columns.items():
                    np.testing.assert_array_equal(file[f"{one.name}/{table}/{name}"].array(library="np"), values)
    slimmed = branchline.slim(
        inputs, tmp_path / "slim.root", drop=["fChi2"], tree=f"{folders[0].name}/O2trackextra_002"
    )
    assert slimmed.trees == made.trees


@pytest.mark.parametrize("tree", [None, "DF_2261906000000001/O2track_iu"])
def test_the_same_folder_in_two_files_is_refused(tmp_path: Path, tree: str | None) -> None:
    inputs = [str(write_ao2d(tmp_path / f"{n}.root", [folder(1, 10), folder(n, 5)])) for n in (2, 3)]
    what = rf"DF_2261906000000001 is also in {tmp_path}/2.root, and index columns such as fIndexBCs of .* wrong"
    with pytest.raises(DatasetError, match=what):
        branchline.merge(inputs, tmp_path / "all.root", tree=tree)
    assert not (tmp_path / "all.root").exists()


def test_folders_without_index_columns_are_joined(tmp_path: Path) -> None:
    for name in "ab":
        with uproot.recreate(tmp_path / f"{name}.root") as file:
            file.mktree("tuple/DecayTree", {"m": "f8"}).extend({"m": np.arange(3.0)})
    assert branchline.merge([f"{tmp_path}/a.root", f"{tmp_path}/b.root"], tmp_path / "all.root").entries == 6


def test_a_skim_that_would_break_index_columns_is_refused(tmp_path: Path) -> None:
    one = folder(1, 30)
    path = str(write_ao2d(tmp_path / "AO2D.root", [one]))
    collisions = f"{one.name}/O2collision_001"
    with pytest.raises(DatasetError, match=r"rows of .*O2collision_001 cannot be dropped.*O2track_iu \(fIndexColl"):
        branchline.skim(path, tmp_path / "skim.root", where="fPosZ > 0", tree=collisions)
    with pytest.raises(DatasetError, match="cannot be dropped"):
        branchline.skim(
            path, tmp_path / "skim.root", where=lambda events: events.fTgl > 0, tree=f"{one.name}/O2track_iu"
        )
    alone = branchline.skim(path, tmp_path / "skim.root", where="fPosZ > 0", tree=collisions, only_tree=True)
    assert alone.entries == int(np.sum(one.tables["O2collision_001"]["fPosZ"] > 0))


@pytest.mark.parametrize("call", [branchline.merge, branchline.skim, branchline.slim])
def test_patterns_of_trees_are_refused(tmp_path: Path, call: Callable[..., object]) -> None:
    path = write_ao2d(tmp_path / "AO2D.root", [folder(1, 5), folder(2, 5)])
    chosen = {"skim": {"where": "fTgl > 0"}, "slim": {"drop": ["fTgl"]}}.get(call.__name__, {})
    with pytest.raises(DatasetError, match="a pattern of trees cannot be merged"):
        call(f"{path}:DF_*/O2track_iu", tmp_path / "out.root", **chosen)


def test_the_trees_of_a_pattern_are_converted_one_after_the_other(tmp_path: Path) -> None:
    folders = [folder(number, 10) for number in (2, 1)]
    path = write_ao2d(tmp_path / "AO2D.root", folders)
    made = branchline.convert(f"{path}:DF_*/O2track_iu", tmp_path / "tracks.parquet")
    values = np.concatenate([one.tables["O2track_iu"]["fTgl"] for one in folders])
    assert (made.files, made.entries) == (1, len(values))
    np.testing.assert_array_equal(
        branchline.open(str(tmp_path / "tracks.parquet")).tree()["fTgl"].array(library="np"), values
    )
    assert not any("O2track_iu" in one for one in made.left_out)
    assert any("fIndexCollisions" in one for one in made.left_out)
