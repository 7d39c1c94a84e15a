"""Random layouts of ROOT's trees."""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random
from typing import Any

TREE = "tree"
# ROOT's compression settings are 100 * algorithm + level. Algorithm 3 is the format of old files, whose records begin
# with "CS".
ALGORITHMS = {"zlib": 1, "LZMA": 2, "old": 3, "LZ4": 4, "zstd": 5}


@dataclass
class Layout:
    """The settings of a tree and its file."""

    entries: int
    compression: int
    basket_bytes: int
    auto_flush: int
    mixed_codecs: bool
    folder: str
    memberwise: bool
    # Whether baskets omit entry offsets that ROOT can generate from counts (kGenerateOffsetMap).
    offset_map: bool
    # Initial capacity of a basket's table of entry offsets.
    entry_offsets: int
    # Whether the tree has a table of the targets of its references (TBranchRef).
    references: bool
    # What happens to the file after the tree was filled; a key of `AFTERMATHS` in `aftermath.py`.
    aftermath: str

    @property
    def path(self) -> str:
        """The path of the tree in its file."""
        return f"{self.folder}/{TREE}" if self.folder else TREE

    def __str__(self) -> str:
        return ", ".join(f"{one.name} {getattr(self, one.name)!r}" for one in fields(self))


def codec(rng: Random) -> int:
    """Return a random codec and level. One in six cases is not compressed."""
    return 0 if rng.random() < 1 / 6 else 100 * rng.choice(list(ALGORITHMS.values())) + rng.randint(1, 9)


def random_layout(rng: Random, aftermaths: list[str]) -> Layout:
    aftermath = rng.choice(aftermaths)
    return Layout(
        entries=rng.choice((0, 1, 2, rng.randint(3, 30), rng.randint(10, 60), rng.randint(30, 150))),
        compression=codec(rng),
        basket_bytes=rng.choice((256, 1000, 5000, 32_000, 1_000_000)),
        # ROOT cannot read baskets that it flushes while the tree has no file.
        auto_flush=0 if aftermath == "in memory" else rng.choice((0, 1, 7, 50, -2_000, -20_000, -30_000_000)),
        mixed_codecs=rng.random() < 0.3,
        folder=rng.choice(("", "", "inner/most")),
        memberwise=rng.random() < 0.5,
        # ROOT 6.40 crashes when it reads such baskets from the tree's own record.
        offset_map=aftermath == "closed" and rng.random() < 0.5,
        entry_offsets=rng.choice((1000, 1000, 0, 1, 10)),
        references=rng.random() < 0.15,
        aftermath=aftermath,
    )


def apply(root: Any, layout: Layout, tree: Any) -> None:
    """Apply the settings that ROOT requires before branches are created."""
    tree.SetAutoFlush(layout.auto_flush)
    tree.SetDefaultEntryOffsetLen(layout.entry_offsets)
    if layout.offset_map:
        features = root.TIOFeatures()
        features.Set("kGenerateOffsetMap")
        tree.SetIOFeatures(features)
    if layout.references:
        tree.BranchRef()
    root.TVirtualStreamerInfo.SetStreamMemberWise(layout.memberwise)


def mix_codecs(rng: Random, branches: Any) -> None:
    """Set a random codec for each branch."""
    for branch in branches:
        branch.SetCompressionSettings(codec(rng))
        mix_codecs(rng, branch.GetListOfBranches())
