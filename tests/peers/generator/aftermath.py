"""What happens to a file after its tree was filled: it is closed, copied, merged, kept in memory or continued."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.peers.generator.layouts import Layout

# A function that changes the file, and returns how many times the file then contains the entries.
Aftermath = Callable[[Any, Path, Layout], int]


def closed(root: Any, path: Path, layout: Layout) -> int:
    """Leave the closed file unchanged."""
    return 1


def merged(root: Any, path: Path, layout: Layout) -> int:
    """Merge the file with itself, copying the baskets."""
    before = path.rename(path.with_suffix(".before.root"))
    merger = root.TFileMerger(False)
    merger.OutputFile(str(path), "RECREATE", layout.compression)
    merger.AddFile(str(before))
    merger.AddFile(str(before))
    if not merger.Merge():
        raise RuntimeError("ROOT cannot merge the file with itself")
    return 2


def cloned(root: Any, path: Path, layout: Layout, option: str = "") -> int:
    """Copy the tree entry by entry with another codec, or basket by basket in another order."""
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
    """Open the file again and add an index to the tree. The tree without the index remains as an older cycle."""
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
    # For the next two, `cases.write` writes the tree differently. Nothing happens to the file afterwards.
    "in memory": closed,
    "saved on the way": closed,
    "merged": merged,
    "cloned": cloned,
    "cloned fast": fast_cloned,
    "indexed": indexed,
}
