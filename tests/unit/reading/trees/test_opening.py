"""Opening files and trees, and what is in them."""

from __future__ import annotations

import gc
import os
import re
import shutil
import weakref
from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.unit.reading.trees.conftest import Sample

import branchline
from branchline.base.limits import TREES_KEPT
from branchline.errors import BranchlineError, DatasetError
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.sources import Source
from branchline.reading.trees.file import File
from branchline.reading.trees.stream import ChunkStream
from branchline.reading.trees.tree import Tree


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with trees in directories, two cycles of one of them, and a histogram."""
    path = tmp_path_factory.mktemp("folders") / "folders.root"
    with uproot.recreate(path) as file:
        for value in (1, 2):
            file.mktree("run/events", {"x": "int32"}).extend({"x": np.full(3 * value, value, "i4")})
        file.mktree("run/inner/hits", {"y": "int32"}).extend({"y": np.arange(4, dtype="i4")})
        file.mktree("top", {"z": "int32"}).extend({"z": np.arange(2, dtype="i4")})
        file["run/histogram"] = np.histogram([1.0, 2.0])
    return path


@pytest.mark.parametrize("location", [str, Path, lambda path: f"file://{path}", lambda path: f"file://localhost{path}"])
def test_a_file_is_opened_by_path_and_by_url(sample: Sample, location) -> None:
    file = branchline.open(location(sample.path))
    assert isinstance(file, File)
    assert file.size_bytes == sample.path.stat().st_size
    assert file["events"].entries_count == 100


@pytest.mark.parametrize("prefix", ["file:", "FILE:", "file://", "file://localhost"])
@pytest.mark.parametrize("name", ["plain.root", "b%2Eroot", "50%.root", "a b.root"])
def test_a_file_url_names_the_path_that_is_written(
    sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str, name: str
) -> None:
    path = shutil.copy(sample.path, tmp_path / name)
    assert branchline.open(f"{prefix}{path}")["events"].entries_count == 100
    assert branchline.open(f"{prefix}{path}:events").entries_count == 100
    assert [len(step) for step in branchline.iterate(f"{prefix}{path}:events")] == [100]
    assert len(Dataset.of(f"{prefix}{path}").files) == 1
    assert [one.tree for one in Dataset.of([f"{prefix}{path}:events"]).files] == ["events"]
    assert not Dataset.of({"all": [f"{prefix}{path}"]}).missing
    assert not Dataset.of(f"{prefix}{path}").missing
    monkeypatch.chdir(tmp_path)
    assert branchline.open(f"file:{name}")["events"].entries_count == 100
    # RFC 8089: where nothing is called as it is written, %XX stands for a letter.
    assert branchline.open(Path(path).as_uri())["events"].entries_count == 100


def test_a_file_whose_name_begins_like_a_url_is_a_file(
    sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(sample.path, tmp_path / "file:x.root")
    monkeypatch.chdir(tmp_path)
    assert branchline.open("file:x.root")["events"].entries_count == 100


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_tree_is_opened_by_path_and_name(sample: Sample, folders: Path, prefix: str) -> None:
    tree = branchline.open(f"{prefix}{sample.location}")
    assert isinstance(tree, Tree)
    assert (tree.name, tree.entries_count, tree.num_entries) == ("events", 100, 100)
    assert branchline.open(f"{prefix}{folders}:run/inner/hits").entries_count == 4
    assert branchline.open(Path(f"{folders}:run/events;1")).entries_count == 3


def test_a_colon_in_a_file_name_is_no_tree(sample: Sample, tmp_path: Path) -> None:
    path = shutil.copy(sample.path, tmp_path / "a:b.root")
    assert isinstance(branchline.open(path), File)
    assert branchline.open(f"{path}:events").entries_count == 100


def test_blanks_and_other_letters_in_a_path_are_kept(sample: Sample, tmp_path: Path) -> None:
    path = Path(shutil.copy(sample.path, tmp_path / "a file \u00e9.root"))
    assert branchline.open(path)["events"].entries_count == 100
    assert branchline.open(path.as_uri())["events"].entries_count == 100


def test_a_name_that_is_no_utf8_is_refused_by_name_wherever_files_are_given(sample: Sample, tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/caf\xe9.root"
    shutil.copy(sample.path, raw)
    name = os.fsdecode(raw)
    for give in (
        lambda: File(name), lambda: File(Path(name)), lambda: File(raw), lambda: branchline.open(name),
        lambda: branchline.open({name: "events"}), lambda: next(branchline.iterate(name)),
        lambda: next(branchline.iterate(raw)), lambda: next(branchline.iterate({name: "events"})),
        lambda: next(branchline.iterate(tmp_path / "*.root")), lambda: Dataset.of(name), lambda: Dataset.of([raw]),
        lambda: Dataset.of(tmp_path / "*.root"), lambda: Dataset.of(tmp_path), lambda: Dataset.of({"all": [name]}),
    ):  # fmt: skip
        with pytest.raises(DatasetError, match=r"caf\\xe9\.root is not UTF-8"):
            give()
    assert File(os.fsencode(sample.path)).trees() == File(sample.path).trees()


def test_keys_have_cycles_and_reach_into_directories(folders: Path) -> None:
    file = branchline.open(folders)
    with uproot.open(folders) as by_uproot:
        assert sorted(file.keys()) == sorted(by_uproot.keys())
        assert file.classnames() == by_uproot.classnames()
    assert set(file) == set(file.keys())
    assert set(file.keys(cycle=False)) == {
        "top",
        "run",
        "run/events",
        "run/inner",
        "run/inner/hits",
        "run/histogram",
    }
    assert sorted(file.trees()) == ["run/events", "run/inner/hits", "top"]
    assert "run/events" in file
    assert "run/events;1" in file
    assert "run/events;3" not in file


def test_a_directory_is_a_mapping_of_what_is_in_it(folders: Path) -> None:
    file = branchline.open(folders)
    run = file["run"]
    assert isinstance(run, branchline.Directory)
    assert run.keys(recursive=False, cycle=False) == ["events", "inner", "histogram"]
    assert run.trees() == ["events", "inner/hits"]
    assert run["inner"]["hits"].entries_count == run["inner/hits"].entries_count == 4
    assert run["inner"]["hits"].parent.object_path == run["inner"].object_path
    assert run["inner"].parent.object_path == "/run/"
    assert run.parent.object_path == "/"
    assert file.parent is None
    assert "inner/hits" in run
    assert "top" not in run
    with pytest.raises(branchline.NoSuchKeyError, match=r"'event' in /run/.*did you mean events"):
        run["event"]
    with pytest.raises(branchline.NoSuchKeyError, match="histogram is a TH1D and contains no other objects"):
        file["run/histogram/x"]


def test_the_newest_cycle_is_read_unless_another_is_named(folders: Path) -> None:
    file = branchline.open(folders)
    assert file["run/events"].arrays().x.tolist() == [2] * 6
    assert file["run/events;2"].arrays().x.tolist() == [2] * 6
    assert file["run/events;1"].arrays().x.tolist() == [1] * 3


def test_a_branch_is_reached_through_the_file(folders: Path) -> None:
    assert branchline.open(folders)["run/inner/hits/y"].array().tolist() == [0, 1, 2, 3]


def test_a_missing_tree_is_told_with_the_nearest_names(folders: Path) -> None:
    file = branchline.open(folders)
    with pytest.raises(branchline.NoSuchKeyError, match=r"did you mean run/events") as caught:
        file["run/event"]
    assert str(folders) in str(caught.value)
    with pytest.raises(KeyError):
        file["run/events;7"]
    assert file.get("nothing") is None
    assert file.get("nothing", 1) == 1
    with pytest.raises(branchline.NoSuchKeyError, match="did you mean"):
        branchline.open(f"{folders}:tops")


def test_a_histogram_is_what_a_key_leads_to_too(folders: Path) -> None:
    file = branchline.open(folders)
    assert file["run/histogram"].ndim == 1
    assert file.record("run/histogram").classname == "TH1D"
    with pytest.raises(branchline.UnsupportedBranchError, match="tree"):
        file.record("run/events")


def test_without_a_name_the_only_tree_is_meant(sample: Sample, folders: Path) -> None:
    with ChunkStream([Source(str(sample.path))], ["number"]) as stream:
        assert sum(len(chunk) for chunk in stream) == 100
    with pytest.raises(branchline.NoSuchKeyError, match="several trees") as caught:
        list(branchline.iterate(folders))
    assert "run/inner/hits" in str(caught.value)


def test_a_file_without_trees_says_so(tmp_path: Path) -> None:
    path = tmp_path / "none.root"
    with uproot.recreate(path) as file:
        file["histogram"] = np.histogram([1.0, 2.0])
    assert branchline.open(path).trees() == []
    with pytest.raises(branchline.NoSuchKeyError, match="no tree"):
        list(branchline.iterate(path))


def test_a_tree_reads_after_its_file_was_closed(sample: Sample) -> None:
    with branchline.open(sample.path) as file:
        tree = file["events"]
    assert tree["number"].array().tolist() == sample.values.number.tolist()


@pytest.mark.parametrize("scheme", ["gsiftp", "s3"])
def test_a_place_that_is_not_readable_yet_is_told(scheme: str) -> None:
    with pytest.raises(branchline.BranchlineError, match=f"{scheme}://"):
        branchline.open(f"{scheme}://host//data/f.root")


def test_a_tree_that_is_asked_for_again_is_not_parsed_again(folders: Path) -> None:
    file = branchline.open(folders)
    first = file["run/events"]
    assert first.shape is file["run/events;2"].shape is file.tree("run/events").shape
    assert file["run/events;1"].shape is not first.shape
    assert file["run/events"].keys() == first.keys()
    assert file["run/events;1"].entries_count == 3
    shape = weakref.ref(first.shape)
    del first
    assert shape() is not None
    file.close()
    assert shape() is None, "a closed file keeps no trees"
    assert file["run/events"].entries_count == 6


def test_a_file_is_released_with_its_last_reference(folders: Path) -> None:
    file = branchline.open(folders)
    file["run/events"].arrays()
    gone, shape = weakref.ref(file), weakref.ref(file["run/events"].shape)
    gc.disable()
    try:
        del file
        assert gone() is None
        assert shape() is None
    finally:
        gc.enable()


def test_what_a_refused_folder_or_pattern_is_told_can_be_run(samples: list[Sample]) -> None:
    folder = Path(samples[0].path).parent
    opened = {}
    for location, calls in ((folder, 3), (f"{folder}:events", 3), (folder / "*.root", 2)):
        with pytest.raises(BranchlineError) as refused:
            branchline.open(location)
        lines = re.findall(r"branchline\.\w+\('.*?'\)", refused.value.hint or "")
        assert len(lines) == calls
        for line in lines:
            opened[line] = eval(line, {"branchline": branchline})
    assert {type(one).__name__ for one in opened.values()} == {"generator", "Array", "File"}
    with pytest.raises(FileNotFoundError) as missing:
        branchline.open(folder / "absent.root")
    assert missing.value.hint is None


def test_only_so_many_trees_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "many.root"
    with uproot.recreate(path) as written:
        for number in range(TREES_KEPT + 3):
            written.mktree(f"tree{number}", {"x": "int32"}).extend({"x": np.arange(number + 1, dtype="i4")})
    file = branchline.open(path)
    shapes = [weakref.ref(file[f"tree{number}"].shape) for number in range(TREES_KEPT + 3)]
    assert sum(shape() is not None for shape in shapes) == TREES_KEPT
    assert [file[f"tree{number}"].entries_count for number in range(TREES_KEPT + 3)] == list(range(1, TREES_KEPT + 4))
