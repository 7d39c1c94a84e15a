"""Branches that some inputs of a merge lack, and that were filled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from branchline import _core


class FilledBranch(NamedTuple):
    """A branch of a ``tree`` that some ``files`` lack, by their number. Their ``entries`` have 0 or nothing in it."""

    tree: str
    name: str
    files: int
    entries: int


def filled_branches(found: Iterable[_core.FilledBranch]) -> tuple[FilledBranch, ...]:
    """As the engine lists them."""
    return tuple(FilledBranch(one.tree, one.name, one.files, one.entries) for one in found)
