"""The request for a merge: one value, made once and passed to the engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from branchline.access import Access

#: In which order the baskets of an input are written: as they lie in it, branch by branch, or by their first entry.
Order = Literal["offset", "branch", "entry"]


@dataclass(frozen=True)
class EntrySelection:
    """Entries of a tree that are kept: one bit for each of ``entries_count`` entries, the first the highest of its
    byte.
    """

    bits: bytes
    entries_count: int


@dataclass(frozen=True)
class Kept:
    """What is kept of trees.

    ``branches`` has by the path of a tree the branches that are kept, with those that they need; ``entries`` by the
    path of a file the entries of its tree ``selected``, or of every tree. What is not named is kept whole.
    """

    branches: Mapping[str, Collection[str]] = field(default_factory=dict)
    entries: Mapping[str, EntrySelection] = field(default_factory=dict)
    selected: str | None = None


@dataclass(frozen=True)
class BasketLayout:
    """How entries are put into new baskets: bytes of a basket before compression at most, and entries or about how many
    compressed bytes of a cluster. What is None is as in the first input.
    """

    basket_bytes: int | None = None
    cluster_entries: int | None = None
    cluster_bytes: int | None = None


@dataclass(frozen=True)
class MergeLimits:
    """Limits of a merge: ``memory_bytes`` for inputs and baskets, besides the tables of the output, and at most
    ``journal_bytes`` that are written between two checkpoints.
    """

    memory_bytes: int
    journal_bytes: int


@dataclass(frozen=True, kw_only=True)
class MergeRequest:
    """The request for a merge, with checked values. The engine reads its fields by their names.

    ``inputs`` are paths or URLs, ``branches``, ``selections`` and ``selected`` are those of `Kept`. A ``layout`` gives
    all trees new baskets. Without it only trees of which entries are selected get new ones; all other baskets are
    copied, or compressed in another way with a ``codec``.
    """

    inputs: list[str]
    output: Path
    limits: MergeLimits
    access: Access | None = None
    tree: str | None = None
    order: Order = "entry"
    codec: str | None = None
    layout: BasketLayout | None = None
    branches: dict[str, frozenset[str]] = field(default_factory=dict)
    selections: dict[str, EntrySelection] = field(default_factory=dict)
    selected: str | None = None
    replace: bool = False
    size_bytes_max: int | None = None
    fill_missing_branches: bool = False
    skip_bad_files: bool = False
    verify: bool = False
    sync: bool = True
    resume: bool = False
