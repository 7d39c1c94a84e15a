"""What may happen to a file after its tree was filled: closed, copied, merged, kept in memory or continued."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.peers.generator.layouts import Layout

# How many times the entries are in the file afterwards.
Aftermath = Callable[[Any, Path, Layout], int]


def closed(root: Any, path: Path, layout: Layout) -> int:
    """Nothing more."""
    return 1


def merged(root: Any, path: Path, layout: Layout) -> int:
    """Merged with itself, baskets as they are."""
    before = path.rename(path.with_suffix(".before.root"))
    merger = root.TFileMerger(False)
    merger.OutputFile(str(path), "RECREATE", layout.compression)
    merger.AddFile(str(before))
    merger.AddFile(str(before))
    if not merger.Merge():
        raise RuntimeError("ROOT cannot merge the file with itself")
    return 2


def cloned(root: Any, path: Path, layout: Layout, option: str = "") -> int:
    """Copied entry by entry with another codec, or basket by basket in another order."""
    before = path.rename(path.with_suffix(".before.root"))
    source = root.TFile.Open(str(before))
    target = root.TFile.Open(str(path), "RECREATE", "", 404 if layout.compression != 404 else 505)
    if layout.folder:
        target.mkdir(layout.folder).cd()
    tree = source.Get(layout.path).CloneTree(-1, option)
    tree.Write()
    target.Close()
    source.Close()
    return 1


def fast_cloned(root: Any, path: Path, layout: Layout) -> int:
    return cloned(root, path, layout, "fast SortBasketsByEntry")


def indexed(root: Any, path: Path, layout: Layout) -> int:
    """Opened again and given an index, which is stored within the tree; the tree before stays as an older cycle."""
    file = root.TFile.Open(str(path), "UPDATE")
    file.GetDirectory(layout.folder).cd()
    tree = file.Get(layout.path)
    if tree.GetBranch("n") and layout.entries > 0:
        tree.BuildIndex("n")
    tree.Write()
    file.Close()
    return 1


AFTERMATHS: dict[str, Aftermath] = {
    "closed": closed,
    # These two are the same to what comes after, but the tree was written otherwise: see `cases.write`.
    "in memory": closed,
    "saved on the way": closed,
    "merged": merged,
    "cloned": cloned,
    "cloned fast": fast_cloned,
    "indexed": indexed,
}
