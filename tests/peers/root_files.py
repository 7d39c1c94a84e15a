"""Files that ROOT writes from a seed, with random columns, numbers of entries, baskets, clusters and codecs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
from tests.peers.columns import (
    LEAF_TYPES,
    VECTOR_TYPES,
    Column,
    CountedColumn,
    LeafColumn,
    LeafListColumn,
    LorentzColumn,
    NamedColumn,
    ParticlesColumn,
    StringColumn,
    TextColumn,
    VectorColumn,
    random_counts,
)

TREE = "tree"
# ROOT's compression settings: 100 * algorithm + level. 301 is the format of old files, whose records begin with "CS".
CODECS = {"none": 0, "zlib": 101, "best zlib": 109, "LZMA": 207, "old": 301, "LZ4": 404, "zstd": 505}
ENTRIES_MAX = 400


@dataclass
class Layout:
    """The layout with which ROOT writes a tree."""

    compression: int
    basket_bytes: int
    auto_flush: int
    mixed_codecs: bool
    folder: str


def random_columns(rng: np.random.Generator, entries: int) -> list[Column]:
    """Return at least one column of each kind, in random order. A column with array lengths comes before the columns
    with the arrays.
    """
    codes = list(LEAF_TYPES)
    columns: list[Column] = [LeafColumn(rng, f"scalar_{code}", code, (), entries) for code in codes]
    shapes = [(int(rng.integers(1, 5)),), (2, 3), (2, 1, 2)]
    columns += [LeafColumn(rng, f"fixed_{code}", code, shapes[int(rng.integers(3))], entries) for code in codes]
    columns += [TextColumn(rng, "text", entries, 10), TextColumn(rng, "long_text", entries, 400)]
    columns += [StringColumn(rng, "string", entries, 10), StringColumn(rng, "long_string", entries, 400)]
    columns += [VectorColumn(rng, f"vector_{e.replace(' ', '_')}", e, entries) for e in VECTOR_TYPES]
    columns += [ParticlesColumn(rng, "particles", entries), LorentzColumn(rng, "momentum", entries)]
    columns += [NamedColumn(rng, "named", entries)]
    codes_of_lists = ["".join(rng.choice(codes, size=int(rng.integers(2, 6)))) for _ in range(3)]
    columns += [LeafListColumn(rng, f"list{i}", one, entries) for i, one in enumerate(codes_of_lists)]
    chosen = [columns[i] for i in rng.permutation(len(columns))[: int(rng.integers(10, 20))]]
    count = LeafColumn(rng, "n", str(rng.choice(list("ISB"))), (), entries)
    count.values = random_counts(rng, entries, 60).astype(LEAF_TYPES[count.code])
    counted = rng.choice(codes, size=5, replace=False)
    shapes = [(), (), (3,), (2, 2)]
    more = [CountedColumn(rng, f"counted_{c}", str(c), shapes[int(rng.integers(4))], count) for c in counted]
    return [*chosen, count, *more]


def random_layout(rng: np.random.Generator, compression: int) -> Layout:
    return Layout(
        compression=compression,
        basket_bytes=int(rng.choice([256, 1000, 32_000, 1_000_000])),
        auto_flush=int(rng.choice([0, 7, 100, -20_000, -30_000_000])),
        mixed_codecs=bool(rng.random() < 0.3),
        folder=str(rng.choice(["", "inner/most"])),
    )


def random_tree(seed: int, compression: int) -> tuple[list[Column], Layout, int]:
    """Return the columns, layout and number of entries for a seed."""
    rng = np.random.default_rng([seed, compression])
    entries = int(rng.integers(1, ENTRIES_MAX))
    return random_columns(rng, entries), random_layout(rng, compression), entries


def tree_path(layout: Layout) -> str:
    """Return the path of the tree in its file."""
    return f"{layout.folder}/{TREE}" if layout.folder else TREE


def write(root: Any, path: Path, columns: list[Column], layout: Layout, entries: int) -> None:
    """Write a tree with these columns, using ROOT."""
    file = root.TFile.Open(str(path), "RECREATE", "", layout.compression)
    if layout.folder:
        file.mkdir(layout.folder)
    (file.GetDirectory(layout.folder) if layout.folder else file).cd()
    tree = root.TTree(TREE, "random columns")
    tree.SetAutoFlush(layout.auto_flush)
    fill(root, tree, columns, layout, entries)
    tree.Write()
    file.Close()


def fill(root: Any, tree: Any, columns: list[Column], layout: Layout, entries: int) -> None:
    """Create the branches, set their basket sizes and codecs, and fill the entries."""
    for column in columns:
        column.attach(root, tree, writing=True)
    tree.SetBasketSize("*", layout.basket_bytes)
    if layout.mixed_codecs:
        for i, branch in enumerate(tree.GetListOfBranches()):
            branch.SetCompressionSettings(list(CODECS.values())[i % len(CODECS)])
    for entry in range(entries):
        for column in columns:
            column.put(entry)
        tree.Fill()
    tree.ResetBranchAddresses()


def differences_by_root(root: Any, path: Path, columns: list[Column], layout: Layout, entries: int) -> list[str]:
    """Return the columns for which ROOT reads other values than were written. The expected values are wrong in this
    case.
    """
    file = root.TFile.Open(str(path))
    tree = file.Get(tree_path(layout))
    for column in columns:
        column.attach(root, tree, writing=False)
    found = []
    for entry in range(entries):
        tree.GetEntry(entry)
        found += [
            f"ROOT reads {column.name}, entry {entry}: {column.got()}, not {column.wanted(entry)}"
            for column in columns
            if column.got().tobytes() != column.wanted(entry).tobytes()
        ]
    tree.ResetBranchAddresses()
    file.Close()
    return found


def truths(columns: list[Column]) -> dict[str, ak.Array]:
    """Return the values of all branches of these columns, by branch."""
    return {name: array for column in columns for name, array in column.truths().items()}
