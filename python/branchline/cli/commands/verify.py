"""`branchline verify`: check that an output has exactly the content of its inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from branchline.base.exit_codes import EXIT_ERROR, EXIT_OK
from branchline.base.quantities import count, counted
from branchline.cli.options import ReadingSettings, requests_recorded
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_out
from branchline.cli.tables.lines import log_filled

DIFFERENCES_SHOWN = 20


def verify(
    output: Annotated[Path, Argument(metavar="OUT", help="The output of a merge.")],
    inputs: Annotated[list[str], Argument(metavar="IN...", help="Its inputs: files, patterns, lists of files (.txt).")],
    reading: ReadingSettings,
    more: Annotated[
        list[Path] | None,
        Option("--and", metavar="OUT_1", help="Another output of the same merge (--max-size); may be repeated."),
    ] = None,
    tree: Annotated[
        str | None, Option("--tree", metavar="NAME", help="Compare only this tree (default: everything).")
    ] = None,
    everything: Annotated[
        bool, Option("--all", help=f"Print all differences of a tree instead of {DIFFERENCES_SHOWN}.")
    ] = False,
) -> int:
    """Check that an output has exactly the content of its inputs; the exit code is 1 if anything differs.

    Examples:
        Check a merge by Branchline or hadd:
            branchline verify all.root part1.root part2.root

    """
    # Imported here since the help does not need it.
    from branchline.writing.merging.verify import verify as verify_files

    with requests_recorded(reading.trace_to):
        outputs = [str(path) for path in (output, *(more or []))]
        found = verify_files(outputs, inputs, tree=tree, access=reading.access)
    shown = None if everything else DIFFERENCES_SHOWN
    for one in found.trees:
        # Describes how the tree was compared.
        compared = [f"{counted(one.copied, 'branch', 'branches')} with the same baskets"]
        if one.equal:
            compared.append(f"{counted(len(one.equal), 'branch', 'branches')} with the same values")
        if one.differences:
            compared.append(counted(len(one.differences), "difference"))
        print_out(f"{one.path}: {count(one.entries)} entries, {counted(one.baskets, 'basket')}; {', '.join(compared)}")
        for difference in one.differences[:shown]:
            log(f"tree {one.path}: {difference}")
        if shown is not None and len(one.differences) > shown:
            log(f"and {counted(len(one.differences) - shown, 'difference')} more; show all with --all")
    for difference in found.differences:
        log(difference)
    log_filled(found.filled)
    if found.is_same:
        objects = f" and {counted(found.objects, 'other object')}" if found.objects else ""
        filled = f", with {counted(len(found.filled), 'branch', 'branches')} filled" if found.filled else ""
        print_out(f"identical: {counted(len(found.trees), 'tree')}{objects}{filled}")
    else:
        log("the output differs from its inputs")
    return EXIT_OK if found.is_same else EXIT_ERROR
