"""Branchline reads the values that ROOT wrote into random files. ROOT and uproot confirm these values."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from _pytest.mark.structures import ParameterSet
from tests.peers import root_files
from tests.peers.buffers import differences
from tests.peers.columns import Column, CountedColumn, LeafColumn, LeafListColumn, TextColumn, VectorColumn
from tests.sampled import long_but

import branchline

SEEDS = range(6)
# Maximum uncompressed size of a compression record. Larger baskets have several records.
BLOCK_BYTES_MAX = 2**24 - 1
TWO_GB = 2**31


def drawn() -> list[ParameterSet]:
    """Return all pairs of a seed and a codec. A third of the pairs is tested on every change, including every codec."""
    pairs = list(itertools.product(SEEDS, root_files.CODECS))
    return long_but(pairs, [pair for number, pair in enumerate(pairs) if number % 3 == 0])


def uproot_reads_it_rightly(name: str, columns: list[Column]) -> bool:
    """Return whether uproot reads this branch correctly. uproot 5.7 fails for Float16_t leaves without a range, and for
    leaf lists with Float16_t or Double32_t. It misreads strings (`/C`) if some of them are empty.
    """
    column = next(c for c in columns if name in c.truths())
    if isinstance(column, LeafListColumn):
        return not set(column.codes) & {"f", "d"}
    return not isinstance(column, TextColumn) and getattr(column, "code", "") != "f"


def read_by_uproot(path: Path, tree: str, name: str) -> ak.Array | None:
    """Return the values that uproot reads. None for the old format of compression records, which uproot does not
    support.
    """
    try:
        return uproot.open(path)[tree][name].array()
    except ValueError as error:
        if "unsupported compression algorithm: b'CS'" in str(error):
            return None
        raise


def check_branches(path: Path, tree_name: str, columns: list[Column]) -> None:
    """Compare every branch of these columns with the values written, and with the values that uproot reads."""
    tree = branchline.open(path)[tree_name]
    wrong = {}
    for name, truth in root_files.truths(columns).items():
        found = differences(tree[name].array(), truth)
        by_uproot = read_by_uproot(path, tree_name, name) if uproot_reads_it_rightly(name, columns) else None
        if by_uproot is not None:
            found += [f"against uproot: {text}" for text in differences(tree[name].array(), by_uproot)]
        if found:
            wrong[name] = found
    assert wrong == {}


@pytest.mark.peer
@pytest.mark.parametrize(("seed", "codec"), drawn())
def test_random_trees_read_as_root_wrote_them(root: Any, tmp_path: Path, seed: int, codec: str) -> None:
    columns, layout, entries = root_files.random_tree(seed, root_files.CODECS[codec])
    print(f"seed {seed}, {codec}: {entries} entries, {layout}")
    path = tmp_path / "random.root"
    root_files.write(root, path, columns, layout, entries)
    assert root_files.differences_by_root(root, path, columns, layout, entries) == []
    check_branches(path, root_files.tree_path(layout), columns)


@pytest.mark.peer
@pytest.mark.parametrize("seed", SEEDS)
def test_entry_ranges_and_chunks_agree_with_the_whole(root: Any, tmp_path: Path, seed: int) -> None:
    columns, layout, entries = root_files.random_tree(seed, root_files.CODECS["zlib"])
    path = tmp_path / "ranges.root"
    root_files.write(root, path, columns, layout, entries)
    tree = branchline.open(path)[root_files.tree_path(layout)]
    rng = np.random.default_rng(seed)
    start, stop = sorted(rng.integers(0, entries + 1, 2).tolist())
    step = int(rng.integers(1, entries + 1))
    print(f"seed {seed}: entries {start} to {stop} of {entries}, steps of {step}")
    for name, truth in root_files.truths(columns).items():
        assert differences(tree[name].array(entry_start=start, entry_stop=stop), truth[start:stop]) == []
    names = [column.name for column in columns if column.name in root_files.truths(columns)]
    chunks = list(tree.iterate(names, step_size=step))
    assert [len(chunk) for chunk in chunks[:-1]] == [step] * (len(chunks) - 1)
    for name in names:
        whole = ak.concatenate([chunk[name] for chunk in chunks])
        assert differences(whole, root_files.truths(columns)[name]) == []


@pytest.mark.peer
def test_files_merged_by_root_read_as_their_parts(root: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    parts = []
    merger = root.TFileMerger(False)
    merger.OutputFile(str(tmp_path / "merged.root"), "RECREATE", root_files.CODECS["zstd"])
    for i, entries in enumerate([30, 1, 200]):
        count = LeafColumn(rng, "n", "I", (), entries)
        count.values = rng.integers(0, 9, entries).astype("i4")
        columns: list[Column] = [
            count,
            CountedColumn(rng, "counted", "F", (), count),
            VectorColumn(rng, "vector", "double", entries),
        ]
        path = tmp_path / f"part{i}.root"
        layout = root_files.Layout(root_files.CODECS["zstd"], 1000, -20_000, mixed_codecs=False, folder="")
        root_files.write(root, path, columns, layout, entries)
        merger.AddFile(str(path))
        parts.append(root_files.truths(columns))
    assert merger.Merge()
    tree = branchline.open(tmp_path / "merged.root")[root_files.TREE]
    for name in parts[0]:
        assert differences(tree[name].array(), ak.concatenate([part[name] for part in parts])) == []


@pytest.mark.peer
@pytest.mark.parametrize(
    "codec",
    long_but([name for name in root_files.CODECS if name != "best zlib"], ["none", "zlib", "old", "LZ4", "zstd"]),
)
def test_baskets_of_several_blocks(root: Any, tmp_path: Path, codec: str) -> None:
    rng = np.random.default_rng(16)
    steps = LeafColumn(rng, "steps", "i", (1_100_000,), 1)
    steps.values = np.stack([np.arange(1_100_000, dtype="u4") // 1000 + entry for entry in range(4)])
    noise = LeafColumn(rng, "noise", "l", (530_000,), 4)
    columns: list[Column] = [steps, noise]
    layout = root_files.Layout(root_files.CODECS[codec], 60_000_000, 0, mixed_codecs=False, folder="")
    path = tmp_path / "blocks.root"
    root_files.write(root, path, columns, layout, 4)
    file = root.TFile.Open(str(path))
    for branch in file.Get(root_files.TREE).GetListOfBranches():
        assert branch.GetWriteBasket() == 1
        assert branch.GetTotBytes() > BLOCK_BYTES_MAX
    file.Close()
    check_branches(path, root_files.TREE, columns)


@pytest.mark.peer
def test_file_beyond_two_gigabytes(root: Any, tmp_path: Path) -> None:
    """The file has baskets on both sides of the 2 GB limit, and the tree's record beyond it. The hole in between takes
    no disk space.
    """
    rng = np.random.default_rng(2)
    entries = 500
    count = LeafColumn(rng, "n", "I", (), entries)
    count.values = rng.integers(0, 9, entries).astype("i4")
    columns: list[Column] = [count, CountedColumn(rng, "counted", "D", (), count)]
    path = tmp_path / "large.root"
    file = root.TFile.Open(str(path), "RECREATE", "", root_files.CODECS["zlib"])
    tree = root.TTree(root_files.TREE, "on both sides of 2 GB")
    for column in columns:
        column.attach(root, tree, writing=True)
    tree.SetBasketSize("*", 1000)
    for entry in range(entries):
        if entry == entries // 2:
            file.GetListOfFree().Last().SetFirst(TWO_GB + 12_345)
            file.SetEND(TWO_GB + 12_345)
        for column in columns:
            column.put(entry)
        tree.Fill()
    tree.Write()
    file.Close()
    assert path.stat().st_size > TWO_GB
    with uproot.open(path) as opened:
        branch = opened[root_files.TREE]["counted"]
        seeks = branch.member("fBasketSeek")[: branch.num_baskets]
        assert min(seeks) < TWO_GB < max(seeks)
    check_branches(path, root_files.TREE, columns)
