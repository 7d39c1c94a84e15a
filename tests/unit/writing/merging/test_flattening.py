"""Records become flat columns with the names and values of their members; what has no column is named."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.command_line import run_command

import branchline
from branchline.errors import OptionError, StorageError, UnsupportedBranchError
from branchline.writing.merging.convert import convert

COUNTS = [0, 3, 1, 0, 2]


def tracks_of(event: int) -> list[dict[str, object]]:
    return [
        {
            "pt": event + 0.5 * k,
            "pos": {"x": float(event), "y": -float(k)},
            "name": "t" * k,
            "hits": [10 * event + k] * k,
            "cells": [{"adc": [[k]]}] * k,
        }
        for k in range(COUNTS[event % len(COUNTS)])
    ]


EVENTS = ak.Array(
    [
        {
            "run": event,
            "vertex": {"x": 0.5 * event, "label": f"v{event}"},
            "track": tracks_of(event),
            "words": ["w"] * (event % 3),
            "maybe": None if event == 1 else event,
        }
        for event in range(200)
    ]
)
COLUMNS = {
    "run": EVENTS.run,
    "vertex_x": EVENTS.vertex.x,
    "vertex_label": EVENTS.vertex.label,
    "track_pt": EVENTS.track.pt,
    "track_pos_x": EVENTS.track.pos.x,
    "track_pos_y": EVENTS.track.pos.y,
    "track_name": EVENTS.track["name"],
    "track_hits": EVENTS.track.hits,
    "words": EVENTS.words,
    "ntrack": ak.num(EVENTS.track),
}
DEEP = "track_cells_adc"


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("objects") / "objects.root"
    with branchline.recreate(path) as file:
        file["events"] = EVENTS
    return path


def check(path: Path, *, names: dict[str, ak.Array] = COLUMNS, times: int = 1) -> None:
    for tree in (branchline.open(path)["events"], uproot.open(path)["events"]):
        for name, values in names.items():
            assert ak.to_list(tree[name].array()) == times * ak.to_list(values), name


def test_a_ttree_has_flat_branches_with_counters(objects: Path, tmp_path: Path) -> None:
    output = tmp_path / "flat.root"
    made = convert(objects, output, flatten=True, verify=True, drop=[DEEP])
    assert (made.kind, made.entries, made.fields) == ("ttree", 200, 9)
    assert made.left_out == ("1 member without a flat form (pointers to single objects, or optional values): maybe",)
    assert made.without_columns == ("maybe",)
    check(output)
    # Baskets end within clusters, too.
    made = convert(objects, output, flatten=True, drop=[DEEP], force=True, page_bytes=500, cluster_entries=150)
    assert made.clusters == 2
    check(output)
    branches = {branch.name: branch.typename for branch in uproot.open(output)["events"].branches}
    assert branches.keys() == COLUMNS.keys()
    assert (branches["track_pos_x"], branches["vertex_x"], branches["track_hits"]) == (
        "double[]",
        "double",
        "std::vector<std::vector<int64_t>>",
    )


def test_an_rntuple_and_a_parquet_file_hold_deeper_lists(objects: Path, tmp_path: Path) -> None:
    deep = COLUMNS | {DEEP: EVENTS.track.cells.adc}
    convert(objects, tmp_path / "flat.root", to="rntuple", flatten=True, verify=True, cluster_entries=30)
    check(tmp_path / "flat.root", names=deep)
    convert(objects, tmp_path / "flat.parquet", flatten=True, verify=True)
    columns = branchline.open(tmp_path / "flat.parquet")["events"]
    assert set(columns.keys(recursive=False)) == deep.keys() - {"ntrack"}
    for name in columns.keys(recursive=False):
        assert ak.to_list(columns[name].array()) == ak.to_list(deep[name]), name


def test_lists_too_deep_for_a_ttree_are_refused_before_anything_is_written(objects: Path, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedBranchError, match=f"nested so deeply: {DEEP}.*--to rntuple.*--drop '{DEEP}'"):
        convert(objects, tmp_path / "flat.root", flatten=True)
    assert list(tmp_path.iterdir()) == []


def test_files_are_replaced_only_with_force_and_inputs_never(objects: Path, tmp_path: Path) -> None:
    output = tmp_path / "flat.root"
    convert(objects, output, flatten=True, branches=["run"])
    before = output.read_bytes()
    with pytest.raises(StorageError, match="the file already exists"):
        convert(objects, output, flatten=True, branches=["vertex"])
    with pytest.raises(StorageError, match="one of the inputs"):
        convert(output, output, flatten=True, to="ttree", force=True)
    assert output.read_bytes() == before
    convert(objects, output, flatten=True, branches=["vertex"], force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["flat.root"]
    assert set(uproot.open(output)["events"].keys()) == {"vertex_x", "vertex_label"}


def test_branches_and_columns_are_chosen_by_name(objects: Path, tmp_path: Path) -> None:
    output = tmp_path / "flat.root"
    convert(objects, output, flatten=True, branches=["vertex", "track_p*"], drop=["track_pos_y"])
    names = {branch.name for branch in uproot.open(output)["events"].branches}
    assert names == {"vertex_x", "vertex_label", "ntrack", "track_pt", "track_pos_x"}
    convert(objects, output, flatten=True, branches=["track.pos", "run"], drop=["track.pos.x"], force=True)
    assert {branch.name for branch in uproot.open(output)["events"].branches} == {"run", "ntrack", "track_pos_y"}
    with pytest.raises(branchline.NoSuchKeyError, match=r"no branch 'track_pz'.*did you mean.*track_pt"):
        convert(objects, output, flatten=True, branches=["track_pz"], force=True)


def test_columns_of_the_same_name_are_an_error_with_both(tmp_path: Path) -> None:
    path, output = tmp_path / "objects.root", tmp_path / "flat.root"
    with branchline.recreate(path) as file:
        file["events"] = {"a": ak.Array([{"b": 1}]), "a_b": [2], "c": [3]}
    with pytest.raises(OptionError, match=r"would be named a_b: a\.b, and a_b .*--drop 'a_b'"):
        convert(path, output, flatten=True)
    convert(path, output, flatten=True, drop=["a"])
    assert set(uproot.open(output)["events"].keys()) == {"a_b", "c"}


def test_a_column_with_the_name_of_a_counter_must_have_its_values(tmp_path: Path) -> None:
    lists = ak.Array([[1.5], [], [2.5, 3.5]])
    for name, counts in (("same", [1, 0, 2]), ("other", [1, 0, 3])):
        with branchline.recreate(tmp_path / f"{name}.root") as file:
            file["events"] = {"x": lists, "nx": np.array(counts, dtype="i4")}
    output = tmp_path / "flat.root"
    convert(tmp_path / "same.root", output, flatten=True, verify=True)
    check(output, names={"x": lists, "nx": ak.Array([1, 0, 2])})
    with pytest.raises(UnsupportedBranchError, match=r"nx does not have the numbers of elements of x .*--drop 'nx'"):
        convert(tmp_path / "other.root", output, flatten=True, force=True)
    convert(tmp_path / "other.root", output, flatten=True, force=True, drop=["nx"])
    check(output, names={"nx": ak.Array([1, 0, 2])})


def test_verify_compares_every_column(objects: Path, tmp_path: Path) -> None:
    flat, other = tmp_path / "flat.root", tmp_path / "other.root"
    shutil.copy(objects, other)
    convert([objects, other], flat, flatten=True, to="rntuple")
    check(flat, times=2)
    found = branchline.verify(str(flat), [str(objects), str(other)])
    assert (found.is_same, len(found.trees[0].equal)) == (True, len(COLUMNS) + 1)
    changed = ak.with_field(EVENTS, ak.with_field(EVENTS.vertex, EVENTS.vertex.x + (EVENTS.run == 150), "x"), "vertex")
    with branchline.recreate(other) as file:
        file["events"] = changed
    found = branchline.verify(str(flat), [str(objects), str(other)])
    assert [tree.differences for tree in found.trees] == [("column vertex_x has different values",)]
    found = branchline.verify(str(flat), str(objects))
    assert "column run has 400 entries, but 200 in the inputs" in found.trees[0].differences
    convert(objects, other, flatten=True, drop=["vertex_x", DEEP], force=True)
    found = branchline.verify(str(other), str(objects))
    assert set(found.trees[0].differences) == {f"column {name} is not in the output" for name in ("vertex_x", DEEP)}


def test_an_empty_tree_has_the_same_columns(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "objects.root") as file:
        file.mkrntuple("events", {"track": "var * {pt: float32, hits: var * int32}", "text": "string"})
    for kind in ("ttree", "rntuple"):
        made = convert(tmp_path / "objects.root", tmp_path / f"{kind}.root", to=kind, flatten=True, verify=True)
        assert (made.entries, made.clusters) == (0, 0)
        names = set(branchline.open(tmp_path / f"{kind}.root")["events"].keys())
        assert {"track_pt", "ntrack", "track_hits", "text"} <= names


def test_strings_that_root_would_truncate_are_refused(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "objects.root") as file:
        file["events"] = {"text": ["a", "b\0c"]}
    with pytest.raises(UnsupportedBranchError, match="text: a string has a NUL character"):
        convert(tmp_path / "objects.root", tmp_path / "flat.root", flatten=True)
    convert(tmp_path / "objects.root", tmp_path / "flat.root", flatten=True, to="rntuple", verify=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flat.root", "objects.root"]


def test_the_command_names_what_is_left_out(objects: Path, tmp_path: Path) -> None:
    output = tmp_path / "flat.root"
    words = ["convert", f"{objects}:events", "-o", str(output), "--flatten", "--codec", "lz4:4"]
    refused = run_command(words)
    assert refused.exit_code == 1
    assert f"--drop '{DEEP}'" in refused.stderr
    done = run_command([*words, "--drop", DEEP, "--verify"])
    assert done.exit_code == 0, done.output
    assert (
        "left out: 1 member without a flat form (pointers to single objects, or optional values): maybe" in done.stderr
    )
    assert "TTree of 200 entries of 1 file, 9 fields" in done.stdout
    assert "verified: the output was read again" in done.stdout
    assert uproot.open(output)["events/track_pt"].compression == uproot.LZ4(4)
    assert run_command(["verify", str(output), str(objects), "--tree", "events"]).exit_code == 1
    only_flat = run_command(["convert", str(objects), "-o", str(output), "--force", "--verify"])
    assert only_flat.exit_code != 0
    assert "branchline verify" in only_flat.stderr


def test_parquet_files_are_not_flattened(tmp_path: Path) -> None:
    ak.to_parquet(EVENTS, tmp_path / "events.parquet")
    with pytest.raises(OptionError, match="a Parquet file cannot be flattened"):
        convert(tmp_path / "events.parquet", tmp_path / "flat.root", flatten=True)


def test_the_drop_that_a_collision_suggests_leaves_out_one_of_both(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "objects.root") as file:
        file["events"] = {"track": ak.Array([[{"pt": 1.5}], []]), "track_pt": np.array([10.0, 20.0])}
    words = ["convert", str(tmp_path / "objects.root"), "-o", str(tmp_path / "flat.root"), "--flatten", "--verify"]
    refused = run_command(words)
    assert refused.exit_code == 2
    [suggested] = re.findall(r"--drop '([^']*)'", refused.stderr)
    assert run_command([*words, "--drop", suggested]).exit_code == 0
    assert branchline.open(tmp_path / "flat.root")["events"]["track_pt"].array().to_list() == [[1.5], []]
    assert run_command([*words, "--drop", "track.pt", "--force"]).exit_code == 0
    assert branchline.open(tmp_path / "flat.root")["events"]["track_pt"].array().to_list() == [10.0, 20.0]
