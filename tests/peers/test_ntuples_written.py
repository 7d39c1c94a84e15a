"""Branchline reads the same values as ROOT from random RNTuples with all types and encodings that ROOT supports."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import uproot
from tests.peers.ntuple_files import Written, by_root, plain, wanted_order, write

import branchline
from branchline.writing.merging.convert import convert
from branchline.writing.merging.skim import skim, slim

# Compiling the dictionary of all fields takes half a minute.
pytestmark = pytest.mark.long
SEED = 20240
FILES = 6


def differing(tree: Any, peers: Any, written: Written) -> Iterator[str]:
    """Yield the fields that differ from ROOT, each with its first different entries."""
    for field in written.names:
        ours = wanted_order(field, plain(tree[field].array().to_list()))
        roots = wanted_order(field, by_root(peers, written.path, field))
        if ours != roots:
            where = next((i for i, (a, b) in enumerate(zip(ours, roots, strict=False)) if a != b), None)
            at = where if where is not None else min(len(ours), len(roots))
            yield f"{field} at entry {at}: {str(ours[at : at + 1])[:300]}, ROOT has {str(roots[at : at + 1])[:300]}"


@pytest.fixture(scope="module")
def files(peers: Any, tmp_path_factory: pytest.TempPathFactory) -> list[Written]:
    folder = tmp_path_factory.mktemp("ntuples")
    return [write(peers, folder / f"{number}.root", SEED + number) for number in range(FILES)]


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_random_fields_read_as_root_reads_them(
    peers: Any, files: list[Written], record_property: pytest.RecordProperty
) -> None:
    wrong, fields = [], 0
    for written in files:
        tree = branchline.open(written.path)["ntuple"]
        assert tree.entries_count == written.entries
        fields += len(written.names)
        wrong += [f"{written.label}: {one}" for one in differing(tree, peers, written)]
    record_property("summary", f"{fields} fields of {len(files)} RNTuples, from seed {SEED} on, equal ROOT's")
    assert not wrong, "\n".join(wrong)


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_projected_fields_show_what_others_hold(files: list[Written]) -> None:
    for written in files:
        tree = branchline.open(written.path)["ntuple"]
        for name in ("vector_float", "vector_track"):
            counts = [len(entry) for entry in tree[name].array()]
            assert tree[f"n_{name}"].array().to_list() == counts, written.label
        names = [[track["name"] for track in entry] for entry in tree["vector_track"].array().to_list()]
        assert tree["track_name"].array().to_list() == names, written.label
        assert tree["vector_track.name"].array().to_list() == names, written.label


@pytest.mark.peer
@pytest.mark.long
@pytest.mark.timeout(900)
def test_any_range_of_entries_is_that_part_of_the_whole(files: list[Written]) -> None:
    rng = random.Random(SEED)
    for written in files:
        tree = branchline.open(written.path)["ntuple"]
        whole = tree.arrays(library="ak")
        for _ in range(3):
            start, stop = sorted(rng.choices(range(written.entries + 1), k=2))
            part = tree.arrays(entry_start=start, entry_stop=stop)
            assert plain(part.to_list()) == plain(whole[start:stop].to_list()), f"{written.label}: {start}:{stop}"
        for step, fields in ((1, ["vector_track", "string", "vector_variant"]), (29, None)):
            parts = [entry for chunk in tree.iterate(fields, step_size=step) for entry in plain(chunk.to_list())]
            assert parts == plain((whole[fields] if fields else whole).to_list()), f"{written.label}: steps of {step}"


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_merged_files_read_as_their_parts(root: Any, peers: Any, tmp_path: Path) -> None:
    names = ("float", "string", "vector_track", "variant", "map", "unique_ptr")
    parts = [write(peers, tmp_path / f"part{number}.root", SEED - 1 - number, names) for number in range(2)]
    merger = root.TFileMerger(False, False)
    merger.OutputFile(str(tmp_path / "merged.root"), True, 505)
    for part in parts:
        merger.AddFile(str(part.path), False)
    assert merger.Merge()
    merged = branchline.open(tmp_path / "merged.root")["ntuple"]
    for name in names:
        expected = [entry for part in parts for entry in by_root(peers, part.path, name)]
        assert plain(merged[name].array().to_list()) == expected, name


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_is_kept_of_entries_and_fields_root_reads_as_before(
    peers: Any, files: list[Written], tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    for written in files:
        kept = [rng.random() < 0.4 for _ in range(written.entries)]
        some = sorted(rng.sample(written.names, 12))
        skimmed, slimmed = tmp_path / "skimmed.root", tmp_path / "slimmed.root"
        entries = iter(kept)
        skim([str(written.path)], skimmed, where=lambda events: [next(entries) for _ in events], force=True)  # noqa: B023
        slim([str(skimmed)], slimmed, branches=some, force=True)
        assert branchline.open(slimmed)["ntuple"].keys(recursive=False) == [
            name for name in branchline.open(written.path)["ntuple"].keys(recursive=False) if name in some
        ], written.label
        for path, fields in ((skimmed, written.names), (slimmed, some)):
            for field in fields:
                whole = wanted_order(field, by_root(peers, written.path, field))
                expected = [value for value, is_kept in zip(whole, kept, strict=True) if is_kept]
                assert wanted_order(field, by_root(peers, path, field)) == expected, f"{written.label}: {field}"


def as_converted(value: Any, converted: Any) -> bool:
    """Return whether ``converted`` is the expected conversion of ``value``. A missing record becomes a record whose
    members are all missing. Any other optional value becomes a list with one or no element.
    """
    if value is None and isinstance(converted, dict):
        return all(as_converted(None, one) for one in converted.values())
    if isinstance(value, dict) and isinstance(converted, dict):
        return len(value) == len(converted) and all(map(as_converted, value.values(), converted.values()))
    if isinstance(value, list) and isinstance(converted, list):
        return len(value) == len(converted) and all(map(as_converted, value, converted))
    if isinstance(converted, list):
        return converted == [] if value is None else len(converted) == 1 and as_converted(value, converted[0])
    return bool(value == converted)


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_converted_fields_have_the_same_values(files: list[Written], tmp_path: Path) -> None:
    for written in files[:3]:
        tree = branchline.open(written.path)["ntuple"]
        # Objects of several classes have no common class.
        drop = [name for name in written.names if "streamed" in name]
        convert(written.path, tmp_path / "ntuple.root", to="rntuple", cluster_entries=37, drop=drop, force=True)
        convert(written.path, tmp_path / "ntuple.parquet", force=True)
        ours, uproots = branchline.open(tmp_path / "ntuple.root")["ntuple"], uproot.open(tmp_path / "ntuple.root")
        table = pq.read_table(tmp_path / "ntuple.parquet")
        for field in written.names:
            assert len(table[field]) == written.entries
            if field in drop:
                continue
            expected = plain(tree[field].array().to_list())
            assert as_converted(expected, plain(ours[field].array().to_list())), f"{written.label}: {field}"
            if "variant" not in field:  # uproot represents missing variants differently
                by_uproot = plain(uproots["ntuple"][field].array().to_list())
                assert as_converted(expected, by_uproot), f"{written.label}: {field}"


@pytest.mark.peer
def test_an_ntuple_in_a_directory_is_opened_by_its_path(root: Any, tmp_path: Path) -> None:
    path, merged = tmp_path / "a.root", tmp_path / "merged.root"
    with branchline.recreate(path) as file:
        file.mkrntuple("d/e/n", {"i": [0, 1, 2]})
    branchline.merge([path], merged)
    for one in (path, merged):
        assert branchline.open(one).classnames(cycle=False)["d/e"] == "TDirectory"
        assert root.RNTupleReader.Open("d/e/n", str(one)).GetNEntries() == 3
