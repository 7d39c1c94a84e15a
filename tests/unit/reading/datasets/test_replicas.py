"""A dataset may list several replicas of a file: one file, counted once, opened where it answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import uproot

import branchline
from branchline import Dataset
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.locations import split_location, without_secrets

FIRST, SECOND = "root://a.site//data/f.root", "https://b.site/data/f.root?authz=very-secret"
TOGETHER = f"{FIRST} | {SECOND}"


@pytest.mark.parametrize(
    "given",
    [
        f"{FIRST}:events | {SECOND}",
        {"files": [[FIRST, SECOND]], "tree": "events"},
        {"files": {TOGETHER: "events"}},
        {"files": {FIRST: {"object_path": "events", "replicas": [SECOND]}}},
        [DataFile(FIRST, "events", dataset="data", replicas=(SECOND,))],
    ],
)
def test_replicas_are_one_file(given: object) -> None:
    dataset = Dataset.of({"data": given} if isinstance(given, dict) else given)
    (file,) = dataset.files
    assert (file.path, file.tree, file.replicas, file.opens) == (FIRST, "events", (SECOND,), TOGETHER)
    assert "very-secret" not in repr(dataset.files)


@pytest.mark.parametrize("line", [TOGETHER, f"{FIRST} {SECOND}", f"{FIRST}:events\t{SECOND}"])
def test_a_line_of_a_list_has_the_replicas_of_a_file(line: str, tmp_path: Path) -> None:
    path = tmp_path / "files.txt"
    path.write_text(f"# two places\n{line}\nroot://a.site//data/g.root\n")
    first, second = Dataset.of(path, tree="events").files
    assert (first.opens, first.tree, second.replicas) == (TOGETHER, "events", ())


def test_a_local_file_with_such_a_name_is_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a | b.root"
    path.write_bytes(b"")
    assert split_location(str(path)) == (str(path), None)
    assert Dataset.of(str(path)).files[0].replicas == ()


def test_a_file_is_read_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "here.root"
    with uproot.recreate(path) as file:
        file["events"] = {"x": np.arange(10)}
    lists = tmp_path / "fileset.json"
    lists.write_text(json.dumps({"data": {"files": [[str(tmp_path / "gone.root"), str(path)]]}}))
    Dataset.of(lists).require_present()
    assert branchline.open(f"{tmp_path / 'gone.root'} | {path}:events")["x"].array().tolist() == list(range(10))
    with pytest.raises(branchline.MissingFileError, match=r"none of its 2 replicas.*gone\.root.*away\.root"):
        branchline.open(f"{tmp_path / 'gone.root'} | {tmp_path / 'away.root'}")


def test_secrets_are_hidden_in_every_replica() -> None:
    assert without_secrets(f"https://u:p@a/f?sig=1 | {SECOND}") == (
        "https://u:***@a/f?sig=*** | https://b.site/data/f.root?authz=***"
    )
    assert without_secrets("/data/f?token=x") == "/data/f?token=x"


@pytest.mark.parametrize(
    ("location", "path", "tree"),
    [
        ("zip://f.root::file:///a/b.zip", "zip://f.root::file:///a/b.zip", None),
        ("zip://f.root:dir/events::file:///a/b.zip", "zip://f.root::file:///a/b.zip", "dir/events"),
        ("zip://f.root::/a/b.zip:events", "zip://f.root::/a/b.zip", "events"),
        ("simplecache::https://h:80/f.root", "simplecache::https://h:80/f.root", None),
        ("simplecache::https://[::1]:80/f.root:events", "simplecache::https://[::1]:80/f.root", "events"),
        ("zip://f.root::root://[fe80::1]//a.zip", "zip://f.root::root://[fe80::1]//a.zip", None),
        ("root://[::1]:1094//f.root:Run::Events", "root://[::1]:1094//f.root", "Run::Events"),
        ("f.root:Run::Events", "f.root", "Run::Events"),
    ],
)
def test_a_tree_stands_behind_a_file_in_a_chain_or_behind_the_chain(location: str, path: str, tree: str | None) -> None:
    assert split_location(location) == (path, tree)
