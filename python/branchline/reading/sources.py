"""Where a stream reads: ranges of entries of trees in files, and what became of files that were left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from branchline import _core


class OpenTree(Protocol):
    """A tree that is open already."""

    @property
    def core(self) -> _core.Tree:
        """The engine's handle."""
        ...


@dataclass(frozen=True)
class Source:
    """A range of entries of a tree in a file; ``tree`` None is the only tree, ``entry_stop`` None its end.

    ``open_tree`` is a Tree that is open already and need not be opened again. Its file counts what all streams over it
    read, and each says all of that; those that ``counts_apart`` say what they read alone, the first also the opening.
    """

    path: str
    tree: str | None = None
    entry_start: int = 0
    entry_stop: int | None = None
    open_tree: OpenTree | None = None
    counts_apart: bool = False


@dataclass(frozen=True)
class SkippedFile:
    """A file that was left out, or out from some entry on. ``entries_lost`` is None if it cannot be known."""

    path: str
    entries_lost: int | None
    error: str
    #: Which of the sources of its stream it was.
    source_index: int = 0


@dataclass(frozen=True)
class Failure:
    """A source that a stream over Parquet files could not read, or not from ``chunk`` on."""

    source_index: int
    error: Exception
    chunk: Any = None
