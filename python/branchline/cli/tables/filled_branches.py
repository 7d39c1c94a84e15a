"""Prints which missing branches a merge filled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from branchline.base.quantities import count, counted
from branchline.cli.printing import log

if TYPE_CHECKING:
    from branchline.writing.merging.merge import FilledBranch

#: Maximum number of branches that are listed: hundreds of trigger branches may be missing.
FILLED_SHOWN = 20


def log_filled(filled: Sequence[FilledBranch]) -> None:
    """Print a line for each filled branch, up to the maximum number, and the number of remaining branches."""
    for branch in filled[:FILLED_SHOWN]:
        entries = f"{count(branch.entries)} entries of {counted(branch.files, 'file')}"
        log(
            f"filled with 0 or an empty value: branch {branch.name} of the tree {branch.tree}, for {entries} without it"
        )
    if len(filled) > FILLED_SHOWN:
        log(f"and {counted(len(filled) - FILLED_SHOWN, 'branch', 'branches')} more")
