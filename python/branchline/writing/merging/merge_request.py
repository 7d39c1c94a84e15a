"""The request for a merge: one value, made once and passed to the engine.

These are NamedTuples, which Python makes in a quarter of the time of a dataclass: every start of a merge pays for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from branchline.reading.access import Access

#: In which order the baskets of an input are written: as they lie in it, branch by branch, or by their first entry.
Order = Literal["offset", "branch", "entry"]


class EntrySelection(NamedTuple):
    """Entries of a tree that are kept: one bit for each of ``entries_count`` entries, the first the highest of its
    byte.
    """

    bits: bytes
    entries_count: int


class TreeSelection(NamedTuple):
    """The branches and entries of trees that are merged.

    ``branches`` has by the path of a tree the branches that are kept, with those that they need; ``entries`` by the
    path of a file the entries of its tree ``selected``, or of every tree. What is not named is kept whole.
    """

    branches: Mapping[str, Collection[str]] = MappingProxyType({})
    entries: Mapping[str, EntrySelection] = MappingProxyType({})
    selected: str | None = None


class BasketLayout(NamedTuple):
    """How entries are put into new baskets: bytes of a basket before compression at most, and entries or about how many
    compressed bytes of a cluster. What is None is as in the first input.
    """

    basket_bytes: int | None = None
    cluster_entries: int | None = None
    cluster_bytes: int | None = None


class MergeLimits(NamedTuple):
    """Limits of a merge: ``memory_bytes`` for inputs and baskets, in addition to the tables of the output, and at most
    ``journal_bytes`` that are written between two checkpoints.
    """

    memory_bytes: int
    journal_bytes: int


class MergeRequest(NamedTuple):
    """The request for a merge, with checked values. The engine reads its fields by their names.

    ``inputs`` are paths or URLs, ``branches``, ``selections`` and ``selected`` are those of `TreeSelection`. A
    ``layout`` gives all trees new baskets. Without it only trees of which entries are selected get new ones; all other
    baskets are copied, or compressed in another way with a ``codec``.
    """

    inputs: list[str]
    output: Path
    limits: MergeLimits
    branches: dict[str, frozenset[str]]
    selections: dict[str, EntrySelection]
    access: Access | None = None
    tree: str | None = None
    order: Order = "entry"
    codec: str | None = None
    layout: BasketLayout | None = None
    selected: str | None = None
    replace: bool = False
    size_bytes_max: int | None = None
    fill_missing_branches: bool = False
    skip_bad_files: bool = False
    verify: bool = False
    sync: bool = True
    resume: bool = False
