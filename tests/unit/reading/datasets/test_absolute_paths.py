"""Absolute paths of the files of a dataset: one text for all ways to write a path of the file that was meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from branchline.errors import DatasetError
from branchline.reading.datasets.data_file import DataFile, absolute
from branchline.reading.datasets.dataset import Dataset


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files, from a folder in which the test is."""
    (tmp_path / "here").mkdir()
    (tmp_path / "data").mkdir()
    for name in ("a.root", "b c.root", "d%20e.root"):
        (tmp_path / "data" / name).write_bytes(b"root" + bytes(10))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


@pytest.mark.parametrize(
    "given",
    [
        "../data/a.root",
        "./../data/a.root",
        "../here/../data//a.root",
        "{}/data/a.root",
        "{}/./data/a.root",
        "file://{}/data/a.root",
        "FILE://localhost{}/data/a.root",
        "file:{}/data/a.root",
        "file:../data/a.root",
        "../data/*.root",
        "../data",
    ],
)
def test_all_ways_to_name_a_file_give_one_path(folder: Path, given: str) -> None:
    dataset = Dataset.of(given.format(folder), tree="events").with_absolute_paths()
    first = dataset.files[0]
    assert (first.path, first.opens, first.size_bytes) == (f"{folder}/data/a.root",) * 2 + (14,)
    assert first.on_disk is not None
    assert not first.is_missing
    assert dataset.with_absolute_paths() is dataset


def test_file_urls_are_decoded_only_where_no_file_has_the_name_as_it_is_written(folder: Path) -> None:
    assert absolute(f"file://{folder}/data/b%20c.root") == f"{folder}/data/b c.root"
    assert absolute(f"file://{folder}/data/d%20e.root") == f"{folder}/data/d%20e.root"


def test_a_parent_behind_a_symbolic_link_is_the_one_that_the_kernel_finds(folder: Path) -> None:
    (folder / "elsewhere" / "deep").mkdir(parents=True)
    (folder / "elsewhere" / "a.root").write_bytes(b"another")
    (folder / "a.root").write_bytes(b"wrong")
    (folder / "link").symlink_to(folder / "elsewhere" / "deep")
    found = absolute("../link/../a.root")
    assert os.path.isabs(found)
    assert Path(found).read_bytes() == b"another"
    assert absolute(found) == found


@pytest.mark.parametrize("url", ["root://host//data/../a.root", "https://host/a%20b.root", "file://other/a.root"])
def test_urls_stay_as_they_are(url: str) -> None:
    assert absolute(url) == url


def test_replicas_and_the_last_link_of_a_chain_are_absolute_too(folder: Path) -> None:
    [file] = Dataset.of("../data/a.root | root://host//a.root | ./b.root", tree="events").with_absolute_paths()
    assert file.locations == (f"{folder}/data/a.root", "root://host//a.root", f"{folder}/here/b.root")
    assert absolute("zip://a.root::../data/a.zip") == f"zip://a.root::{folder}/data/a.zip"
    assert absolute("zip://a.root::https://host/a.zip") == "zip://a.root::https://host/a.zip"


def test_companions_are_beside_the_absolute_path(folder: Path) -> None:
    [file] = Dataset.of("../data/a.root", companions="{stem}_friend.root").with_absolute_paths()
    assert file.companions[0].path_for(file.path)[0] == f"{folder}/data/a_friend.root"


def test_a_missing_file_is_named_by_where_it_was_expected(folder: Path) -> None:
    [file] = Dataset.of("none.root").with_absolute_paths()
    assert file.path == f"{folder}/here/none.root"
    assert file.is_missing


def test_one_file_by_its_path_and_its_url_counts_double(folder: Path) -> None:
    with pytest.raises(DatasetError, match="in the dataset twice"):
        Dataset([DataFile("../data/a.root"), DataFile(f"file://{folder}/data/a.root")])
