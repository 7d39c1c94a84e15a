"""`branchline verify`: whether a file holds exactly what it was made of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from branchline.cli.failure import say, tell, told
from branchline.cli.options import Argument, Option
from branchline.cli.reading_options import Reading, with_reading_options
from branchline.report.quantities import count, counted
from branchline.train.exit_codes import EXIT_ERROR

if TYPE_CHECKING:
    from branchline.layout.verifying import VerifiedTree

DIFFERENCES_SHOWN = 20


@with_reading_options
def verify(
    output: Annotated[Path, Argument(metavar="OUT", help="The file that was made.")],
    inputs: Annotated[
        list[str], Argument(metavar="IN...", help="What it was made of: files, patterns, lists of files (.txt).")
    ],
    access: Reading,
    more: Annotated[
        list[Path] | None, Option("--and", help="Another output, behind OUT: name_1.root of --max-size.")
    ] = None,
    tree: Annotated[str | None, Option("--tree", help="The only tree to compare; everything by default.")] = None,
    everything: Annotated[
        bool, Option("--all", help=f"Tell every difference of a tree, not {DIFFERENCES_SHOWN}.")
    ] = False,
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Proves that a file holds exactly what it was made of; exit code 1 if anything differs."""
    # Only who compares files waits for what does it.
    from branchline.layout.verifying import verify as verify_files

    with told(debug=debug):
        outputs = [str(path) for path in (output, *(more or []))]
        found = verify_files(outputs, inputs, tree=tree, access=access())
        for one in found.trees:
            tell(_sentence(one))
            for difference in one.differences[: None if everything else DIFFERENCES_SHOWN]:
                say(f"tree {one.path}: {difference}")
            if len(one.differences) > DIFFERENCES_SHOWN and not everything:
                say(f"and {counted(len(one.differences) - DIFFERENCES_SHOWN, 'difference')} more; --all tells each")
        for difference in found.differences:
            say(difference)
        if not found.is_same:
            say("differs from what it was made of")
            raise SystemExit(EXIT_ERROR)
        objects = f" and {counted(found.objects, 'other object')}" if found.objects else ""
        tell(f"the same: {counted(len(found.trees), 'tree')}{objects}")


def _sentence(tree: VerifiedTree) -> str:
    """How a tree was compared."""
    said = [f"{counted(tree.copied, 'branch', 'branches')} with the same baskets"]
    if tree.equal:
        said.append(f"{counted(len(tree.equal), 'branch', 'branches')} with the same values")
    if tree.differences:
        said.append(counted(len(tree.differences), "difference"))
    return f"{tree.path}: {count(tree.entries)} entries, {counted(tree.baskets, 'basket')}; {', '.join(said)}"
