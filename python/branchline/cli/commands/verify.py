"""`branchline verify`: whether an output has exactly the content of its inputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from branchline.base.exit_codes import EXIT_ERROR, EXIT_OK
from branchline.base.quantities import count, counted
from branchline.cli.options import ReadingSettings, requests_recorded
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_out
from branchline.cli.tables.filled_branches import log_filled

if TYPE_CHECKING:
    from branchline.writing.merging.verify import Verification, VerifiedTree

DIFFERENCES_SHOWN = 20


def verify(
    output: Annotated[Path, Argument(metavar="OUT", help="The output of a merge.")],
    inputs: Annotated[list[str], Argument(metavar="IN...", help="Its inputs: files, patterns, lists of files (.txt).")],
    reading: ReadingSettings,
    more: Annotated[
        list[Path] | None,
        Option("--and", metavar="OUT_1", help="A further output of the same merge (--max-size); may be repeated."),
    ] = None,
    tree: Annotated[
        str | None, Option("--tree", metavar="NAME", help="Compare only this tree (default: everything).")
    ] = None,
    everything: Annotated[
        bool, Option("--all", help=f"Print every difference of a tree, not only {DIFFERENCES_SHOWN}.")
    ] = False,
) -> int:
    """Checks that an output has exactly the content of its inputs; the exit code is 1 if anything differs.

    Examples:
        Check a merge, of Branchline or of hadd:
            branchline verify all.root part1.root part2.root

    """
    # Imported here since it is not needed for the help.
    from branchline.writing.merging.verify import verify as verify_files

    with requests_recorded(reading.trace_to):
        outputs = [str(path) for path in (output, *(more or []))]
        found = verify_files(outputs, inputs, tree=tree, access=reading.access)
    _print_result(found, None if everything else DIFFERENCES_SHOWN)
    return EXIT_OK if found.is_same else EXIT_ERROR


def _print_result(found: Verification, shown: int | None) -> None:
    for one in found.trees:
        print_out(_sentence(one))
        for difference in one.differences[:shown]:
            log(f"tree {one.path}: {difference}")
        if shown is not None and len(one.differences) > shown:
            log(f"and {counted(len(one.differences) - shown, 'difference')} more; --all prints every one")
    for difference in found.differences:
        log(difference)
    log_filled(found.filled)
    if found.is_same:
        objects = f" and {counted(found.objects, 'other object')}" if found.objects else ""
        filled = f", with {counted(len(found.filled), 'branch', 'branches')} filled" if found.filled else ""
        print_out(f"the same: {counted(len(found.trees), 'tree')}{objects}{filled}")
    else:
        log("the output differs from its inputs")


def _sentence(tree: VerifiedTree) -> str:
    """How a tree was compared."""
    compared = [f"{counted(tree.copied, 'branch', 'branches')} with the same baskets"]
    if tree.equal:
        compared.append(f"{counted(len(tree.equal), 'branch', 'branches')} with the same values")
    if tree.differences:
        compared.append(counted(len(tree.differences), "difference"))
    return f"{tree.path}: {count(tree.entries)} entries, {counted(tree.baskets, 'basket')}; {', '.join(compared)}"
