"""Every byte of a file has a name, once, and requests are described by the pieces that they hit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.peers.peers import missing, shared_data

from branchline.reading.layout.file_layout import inspect_file
from branchline.tracing.file_map import (
    BASKET,
    DIRECTORY,
    GAP,
    HEADER,
    METADATA,
    PAGE,
    STREAMER_INFOS,
    TREE,
    FileMap,
    is_root_file,
    map_file,
    overlaps,
    with_parts,
)
from branchline.tracing.trace import PART, REQUEST, RowGroup, Trace, TracedJob
from branchline.tracing.trace_summary import summarise


def shared(name: str) -> str:
    folder = shared_data()
    if folder is None:
        missing("the shared test data (BRANCHLINE_SHARED, or ../shared next to the repository)")
    return str(folder / "root" / name)


def check_whole(found: FileMap) -> None:
    """The pieces lie one behind the other and fill the file."""
    assert found.offset[0] == 0
    assert np.array_equal(found.offset[1:], (found.offset + found.size)[:-1])
    assert found.offset[-1] + found.size[-1] == found.size_bytes == Path(found.path).stat().st_size


def test_a_file_is_named_from_its_first_byte_to_its_last(collisions: Path) -> None:
    path = str(collisions / "collisions-000.root")
    found = map_file(path)
    check_whole(found)
    baskets = found.rows_of(BASKET)
    layout = inspect_file(path)
    assert len(baskets) == len(layout.extents)
    assert found.size[baskets].sum() == layout.extents.stored_bytes
    assert {found.names[branch] for branch in found.branch[baskets]} == set(layout.wanted)
    for word in (HEADER, TREE, STREAMER_INFOS, DIRECTORY):
        assert len(found.rows_of(word)), word


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("AliESDs-0.root", {HEADER, DIRECTORY, BASKET, TREE, STREAMER_INFOS}),
        ("esdlikeA-Kinematics.root", {HEADER, DIRECTORY, BASKET, TREE, STREAMER_INFOS}),
        ("nano_dimuon_rntuple.root", {HEADER, PAGE, METADATA, TREE}),
    ],
)
def test_files_of_experiments_leave_hardly_a_gap(name: str, kinds: set[str]) -> None:
    found = map_file(shared(name))
    check_whole(found)
    assert kinds <= set(found.whats)
    assert found.size[found.rows_of(GAP)].sum() <= 0.001 * found.size_bytes


def test_baskets_of_branches_that_are_kept_in_another_file_are_not_here() -> None:
    found = map_file(shared("AliESDs-0.root"))
    assert not [name for name in found.names if name.startswith("ESDfriend.")]
    layout = inspect_file(shared("AliESDs-0.root") + ":esdTree")
    assert layout.extents.end.max() <= layout.size_bytes


def test_a_tree_for_each_event_is_told_by_its_directory() -> None:
    found = map_file(shared("esdlikeA-Kinematics.root"))
    trees = {found.names[tree] for tree in found.tree[found.rows_of(BASKET)]}
    assert "Event0/TreeK" in trees
    assert len(trees) > 1


def test_a_file_that_is_damaged_still_has_a_map(collisions: Path, tmp_path: Path) -> None:
    whole = (collisions / "collisions-000.root").read_bytes()
    random = np.random.default_rng(5)
    for number in range(60):
        damaged = bytearray(whole[: random.integers(1, len(whole))] if number % 2 else whole)
        for at in random.integers(0, len(damaged), 40):
            damaged[at] = random.integers(0, 256)
        path = tmp_path / f"{number}.root"
        path.write_bytes(damaged)
        check_whole(map_file(str(path)))


def test_what_begins_like_a_root_file_is_none(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("root:x:0:0:root:/:/bin/sh\n")
    assert not is_root_file(str(users))
    assert not is_root_file(str(tmp_path))


def test_each_byte_of_a_request_is_a_part_once(collisions: Path) -> None:
    path = str(collisions / "collisions-000.root")
    found = map_file(path)
    random = np.random.default_rng(11)
    offset = random.integers(0, found.size_bytes, 500)
    size = np.minimum(random.integers(1, 5000, 500), found.size_bytes - offset)
    request = RowGroup(
        kind=REQUEST,
        request=np.arange(500),
        file=[path] * 500,
        what=["pread64"] * 500,
        offset=offset,
        size_bytes=size,
        got_bytes=size,
        sent_ns=np.arange(500),
        last_byte_ns=np.arange(500),
    )
    trace = with_parts(Trace.of([request], TracedJob()), [found])
    parts = trace.rows_of(PART).to_pandas()
    assert np.array_equal(parts.groupby("request").size_bytes.sum().to_numpy(), size)
    totals = summarise(trace).as_json()["totals"]
    read = np.zeros(found.size_bytes, bool)
    for begin, length in zip(offset, size, strict=True):
        read[begin : begin + length] = True
    assert totals["distinct_bytes"] == read.sum()
    assert totals["again_bytes"] == size.sum() - read.sum()
    which, piece = overlaps(found, offset, size)
    assert np.all((found.offset + found.size)[piece] > offset[which])
