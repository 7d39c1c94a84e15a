"""`branchline show`: the branches of a tree."""

from __future__ import annotations

from typing import Annotated

from branchline.cli.parameters import Argument
from branchline.cli.reading import Reading, requests_recorded


def show(
    location: Annotated[str, Argument(metavar="FILE[:TREE]", help="A ROOT file, with the name of a tree.")],
    reading: Reading,
) -> None:
    """Prints the branches of a tree: type, entries, baskets, sizes.

    Examples:
        Print the branches of a tree:
            branchline show file.root:Events

    """
    # Imported here since it imports awkward.
    from branchline.dataset import DataFile
    from branchline.locations import split_location
    from branchline.train.plan import open_tree

    with requests_recorded(reading.trace_to):
        path, tree = split_location(location)
        open_tree(DataFile(path, tree), reading.access).show()
