"""Datasets are made from whatever a user has in hand, in an order that is always the same."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from branchline.errors import DatasetError, MissingFileError, OptionError
from branchline.reading.datasets.data_file import DataFile, absolute, storage_element
from branchline.reading.datasets.dataset import Dataset


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with b.root, a.root, deep/c.root and a text file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    for name, size in (("b.root", 3), ("a.root", 2), ("deep/c.root", 5)):
        (tmp_path / name).write_bytes(b"x" * size)
    (tmp_path / "notes.md").write_text("not data")
    return tmp_path


def paths(dataset: Dataset) -> list[str]:
    return [one.path for one in dataset]


def test_a_path_is_a_dataset_of_one_file_with_its_size(folder: Path) -> None:
    (one,) = Dataset.of("a.root")
    assert one == DataFile("a.root", size_bytes=2)


def test_a_tree_may_follow_the_path(folder: Path) -> None:
    assert Dataset.of("a.root:some/events").files[0].tree == "some/events"
    assert Dataset.of("a.root:events", tree="other").files[0].tree == "events"
    assert Dataset.of("a.root", tree="other").files[0].tree == "other"
    assert Dataset.of("*.root:events").files[1].tree == "events"
    for location in ("https://host:1094/x", "http://host:8000", "https://host/x.root?v=a:b", "root://[::1]:1//x"):
        url = Dataset.of(location).files[0]
        assert (url.path, url.tree) == (location, None)
    url = Dataset.of("https://host:1094/x.data:events").files[0]
    assert (url.path, url.tree) == ("https://host:1094/x.data", "events")
    url = Dataset.of("root://host:1094//store/x.root:events").files[0]
    assert (url.path, url.tree) == ("root://host:1094//store/x.root", "events")


def test_a_glob_is_sorted(folder: Path) -> None:
    assert paths(Dataset.of("*.root")) == ["a.root", "b.root"]
    assert paths(Dataset.of("**/*.root")) == ["a.root", "b.root", "deep/c.root"]


def test_braces_stand_for_alternatives_in_their_order(folder: Path) -> None:
    assert paths(Dataset.of("{b,a}.root")) == ["b.root", "a.root"]
    assert {one.tree for one in Dataset.of("{b,a}.root:events")} == {"events"}
    assert paths(Dataset.of("{deep/,}{c,a}.root")) == ["deep/c.root", "deep/a.root", "c.root", "a.root"]
    assert paths(Dataset.of("{b,d*/{c,c*}}.root")) == ["b.root", "deep/c.root"]
    assert paths(Dataset.of({"zh": {"files": {"{a,b}.root": "events"}}})) == ["a.root", "b.root"]
    assert paths(Dataset.of("root://host//{a,b}.root?x={1,2}")) == [
        f"root://host//{one}.root?x={{1,2}}" for one in "ab"
    ]


def test_braces_name_what_is_missing(folder: Path) -> None:
    assert [one.path for one in Dataset.of("{a,gone}.root").missing] == ["gone.root"]
    with pytest.raises(DatasetError, match=r"no file matches gone\*\.root"):
        Dataset.of("{a,gone*}.root")
    with pytest.raises(DatasetError, match="braces expand to more than 100000 names"):
        Dataset.of("{0,1}" * 20 + ".root")


def test_braces_in_the_name_of_a_file_are_its_letters(folder: Path) -> None:
    for name in ("x{1,2}.root", "y{entry}.root"):
        (folder / name).write_bytes(b"x")
        assert paths(Dataset.of(name)) == [name]


def test_a_directory_gives_all_the_root_files_below_it_sorted(folder: Path) -> None:
    assert paths(Dataset.of(folder)) == [str(folder / name) for name in ("a.root", "b.root", "deep/c.root")]


def test_a_list_of_things_keeps_the_order_given(folder: Path) -> None:
    assert paths(Dataset.of(["deep", "b.root", "a.root"])) == ["deep/c.root", "b.root", "a.root"]
    assert Dataset.of(["deep", "b.root"]).size_bytes == 8


def test_a_text_list_has_comments_and_paths_beside_it(folder: Path) -> None:
    (folder / "deep" / "list.txt").write_text("# all of it\n\nc.root:events  # the good one\nb.root\n")
    dataset = Dataset.of("deep/list.txt")
    assert [(one.path, one.tree) for one in dataset] == [("deep/c.root", "events"), ("b.root", None)]


def test_a_hash_within_a_path_of_a_text_list_is_a_part_of_it(folder: Path) -> None:
    (folder / "run#2.root").write_bytes(b"four")
    (folder / "list.txt").write_text("run#2.root\t# the second\n#run#3.root\n   # indented\n")
    assert paths(Dataset.of("list.txt")) == ["run#2.root"]


FILESETS = [
    {"zh": {"files": {"a.root": "events", "b.root": "events"}, "metadata": {"year": 2024}}},
    {"zh": {"files": ["a.root:events", "b.root:events"], "metadata": {"year": 2024}}},
    {"zh": {"treename": "events", "files": ["a.root", "b.root"], "metadata": {"year": 2024}}},
    {"zh": {"files": {"*.root": {"object_path": "events"}}, "metadata": {"year": 2024}}},
]


@pytest.mark.parametrize("fileset", FILESETS)
def test_the_forms_of_a_coffea_fileset_mean_the_same(folder: Path, fileset: dict) -> None:
    (folder / "fileset.json").write_text(json.dumps(fileset))
    with gzip.open(folder / "fileset.json.gz", "wt") as text:
        json.dump(fileset, text)
    for given in (fileset, "fileset.json", "fileset.json.gz"):
        dataset = Dataset.of(given)
        assert paths(dataset) == ["a.root", "b.root"]
        assert {(one.tree, one.dataset, one.metadata["year"]) for one in dataset} == {("events", "zh", 2024)}


def test_list_forms_of_a_fileset_are_understood(folder: Path) -> None:
    assert [one.dataset for one in Dataset.of({"zh": ["a.root"], "ww": {"b.root": "events"}})] == ["zh", "ww"]
    (folder / "plain.json").write_text('["b.root:events", "a.root"]')
    assert paths(Dataset.of("plain.json")) == ["b.root", "a.root"]


def test_steps_of_a_fileset_are_joined_where_they_touch(folder: Path) -> None:
    description = {"object_path": "events", "steps": [[0, 10], [10, 20], [30, 40]]}
    dataset = Dataset.of({"zh": {"files": {"a.root": description}}})
    assert [(one.entry_start, one.entry_stop) for one in dataset] == [(0, 20), (30, 40)]
    assert dataset.size_bytes == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("no*.root", r"no file matches no\*\.root .*relative to"),
        ("empty", "directory empty contains neither"),
        ("nothing.txt", "contains no files"),
        ("broken.json", "not valid JSON"),
        ({}, "mapping of dataset names"),
        ({"zh": {"files": {}}}, "'zh' of this fileset contains no files"),
        ({"zh": 3}, "neither a list of paths nor a mapping"),
        ({"zh": {"files": {"a.root": {"steps": [[5, 2]]}}}}, "steps of a.root"),
        ({"zh": {"files": {"a.root": 5}}}, "not a name"),
        ([], "empty"),
        ("", "name of a dataset is empty"),
        (7, "cannot be made from a int"),
        (["a.root", "./a.root"], "in the dataset twice"),
        (["a.root", "wagons.py:MET"], "give wagons before the dataset"),
    ],
)
def test_what_is_no_dataset_is_refused_by_name(folder: Path, given: object, message: str) -> None:
    (folder / "empty").mkdir()
    (folder / "nothing.txt").write_text("# nothing\n")
    (folder / "broken.json").write_text("{")
    with pytest.raises(DatasetError, match=message):
        Dataset.of(given)


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_file_that_is_named_twice_by_a_link_is_refused(folder: Path, link: Callable[[str, str], None]) -> None:
    link(str(folder / "a.root"), str(folder / "linked.root"))
    with pytest.raises(DatasetError, match=r"is also in the dataset as .*a\.root, its events would count twice"):
        Dataset.of(["a.root", "linked.root"])
    with pytest.raises(DatasetError, match=r"its events would count twice"):
        Dataset.of("*.root")
    assert len(Dataset.of(["a.root:one", "linked.root:two"])) == 2
    assert len(Dataset.of({"one": {"files": ["a.root"]}, "two": {"files": ["linked.root"]}})) == 2
    os.makedirs(folder / "elsewhere")
    os.symlink(str(folder), str(folder / "elsewhere" / "again"))
    with pytest.raises(DatasetError, match="would count twice"):
        Dataset.of(["a.root", "elsewhere/again/a.root"])


def test_a_list_that_is_not_there_is_a_missing_file(folder: Path) -> None:
    with pytest.raises(MissingFileError, match=r"list\.txt: this list of files does not exist"):
        Dataset.of("list.txt")


def test_a_list_at_a_server_is_refused_with_what_to_do() -> None:
    with pytest.raises(
        MissingFileError, match=r"files\.txt: this list of files does not exist .*copy it to this machine"
    ):
        Dataset.of("root://server.example//store/files.txt")


def test_all_missing_files_are_named_at_once(folder: Path) -> None:
    dataset = Dataset.of(["a.root", *[f"gone{index}.root" for index in range(7)]])
    assert len(dataset.missing) == 7
    with pytest.raises(
        MissingFileError, match=r"7 of 8 files.*gone0\.root, .*gone4\.root and 2 more.*--skip-bad-files"
    ):
        dataset.require_present()


def test_the_storage_element_is_a_mount_point_or_a_server(folder: Path) -> None:
    assert storage_element("root://host:1094//store/x.root") == "root://host:1094"
    assert storage_element("https://me:secret@host/x.root") == "https://host"
    mount, _, kind = storage_element(str(folder / "a.root")).partition(" (")
    assert os.path.ismount(mount)
    assert any(
        line.split()[1:3] == [mount, kind.split()[0].rstrip(")")]
        for line in Path("/proc/mounts").read_text().splitlines()
    )


def test_secrets_of_a_url_are_for_opening_alone() -> None:
    for location, shown in (
        ("https://me:secret@host/f.root?a=1&authz=Bearer%20secret", "https://me:***@host/f.root?a=1&authz=***"),
        ("https://host/f.root?X-Amz-Signature=secret&b=2", "https://host/f.root?X-Amz-Signature=***&b=2"),
        ("root://me@host//f.root?token=", "root://me@host//f.root?token="),
    ):
        (one,) = Dataset.of(location)
        assert (one.path, one.opens) == (shown, location)
        assert "secret" not in repr(one)


@pytest.mark.parametrize("path", ["/a/b.root", "/a//b", "/a/./b", "/a/../b", "/a/.b/c", "/a/", "a", "./a", "//a", "/"])
def test_a_full_path_is_that_of_the_system(path: str) -> None:
    assert absolute(path) == os.path.abspath(path)


def test_a_changed_file_is_that_of_the_standard_library() -> None:
    file = DataFile("a.root", tree="events", size_bytes=3)
    other = file.changed(path="b.root", size_bytes=None)
    assert (other, hash(other)) == (replace(file, path="b.root", size_bytes=None), hash(replace(other)))
    assert file.path == "a.root"


def test_the_repr_is_one_short_line_without_secrets(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number:03}.root").write_bytes(b"x" * 1000)
    assert repr(Dataset.of(tmp_path, tree="events")) == (
        f"<Dataset: 300 files, 300 kB, from {tmp_path / '000.root'}, tree events>"
    )
    secret = Dataset([DataFile("https://host/file.root?X-Amz-Signature=secret", tree=None)])
    assert "secret" not in repr(secret)


def test_the_access_of_a_dataset_is_checked_before_anything_is_listed() -> None:
    for given in ("root://nowhere.invalid//f*.root", "nowhere.root"):
        with pytest.raises(OptionError, match="fast"):
            Dataset.of(given, access=cast("Any", "fast"))
