"""Prints which branches are filled where files lack them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from branchline.base.quantities import count, counted
from branchline.cli.printing import log

if TYPE_CHECKING:
    from branchline.writing.merging.merge import FilledBranch

#: Branches that are printed one by one: there may be hundreds of trigger branches.
FILLED_SHOWN = 20


def log_filled(filled: Sequence[FilledBranch]) -> None:
    """Prints a line for each branch, and how many more there are."""
    for branch in filled[:FILLED_SHOWN]:
        entries = f"{count(branch.entries)} entries of {counted(branch.files, 'file')}"
        log(f"filled with 0 or nothing: branch {branch.name} of the tree {branch.tree}, for {entries} without it")
    if len(filled) > FILLED_SHOWN:
        log(f"and {counted(len(filled) - FILLED_SHOWN, 'branch', 'branches')} more")
