"""Layouts for ROOT's trees, drawn at random."""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random
from typing import Any

TREE = "tree"
# ROOT's settings are 100 * algorithm + level; algorithm 3 is that of old files, with records that begin with "CS".
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
    # Whether baskets hold a map from offsets to entries instead of offsets where they can.
    offset_map: bool
    # Entries for which a new basket has room in its table of offsets.
    entry_offsets: int
    # Whether the tree keeps a table of what its references refer to.
    references: bool
    # What happened to the file later: see `aftermath.py`.
    aftermath: str

    @property
    def path(self) -> str:
        """Where in its file the tree lies."""
        return f"{self.folder}/{TREE}" if self.folder else TREE

    def __str__(self) -> str:
        return ", ".join(f"{one.name} {getattr(self, one.name)!r}" for one in fields(self))


def codec(rng: Random) -> int:
    """Any codec and level; one case in six without."""
    return 0 if rng.random() < 1 / 6 else 100 * rng.choice(list(ALGORITHMS.values())) + rng.randint(1, 9)


def random_layout(rng: Random, aftermaths: list[str]) -> Layout:
    aftermath = rng.choice(aftermaths)
    return Layout(
        entries=rng.choice((0, 1, 2, rng.randint(3, 30), rng.randint(10, 60), rng.randint(30, 150))),
        compression=codec(rng),
        basket_bytes=rng.choice((256, 1000, 5000, 32_000, 1_000_000)),
        # ROOT cannot read back what it flushes while there is no file.
        auto_flush=0 if aftermath == "in memory" else rng.choice((0, 1, 7, 50, -2_000, -20_000, -30_000_000)),
        mixed_codecs=rng.random() < 0.3,
        folder=rng.choice(("", "", "inner/most")),
        memberwise=rng.random() < 0.5,
        # ROOT 6.40 crashes when it reads such baskets that were kept in the tree's own record.
        offset_map=aftermath == "closed" and rng.random() < 0.5,
        entry_offsets=rng.choice((1000, 1000, 0, 1, 10)),
        references=rng.random() < 0.15,
        aftermath=aftermath,
    )


def apply(root: Any, layout: Layout, tree: Any) -> None:
    """What is set before branches are made."""
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
    """A codec for every branch of its own."""
    for branch in branches:
        branch.SetCompressionSettings(codec(rng))
        mix_codecs(rng, branch.GetListOfBranches())
