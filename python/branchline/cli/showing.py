"""`branchline show`: the branches of a tree."""

from __future__ import annotations

from typing import Annotated

from branchline.cli.failure import told
from branchline.cli.options import Argument, Option
from branchline.cli.reading_options import Reading, with_reading_options


@with_reading_options
def show(
    location: Annotated[str, Argument(metavar="FILE[:TREE]", help="A ROOT file, with the name of a tree.")],
    *,
    access: Reading,
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Prints the branches of a tree: type, entries, baskets, sizes."""
    # Only who looks at a tree waits for what opens it to be imported.
    from branchline.dataset import DataFile
    from branchline.locations import split_location
    from branchline.train.plan import open_tree

    with told(debug=debug):
        path, tree = split_location(location)
        open_tree(DataFile(path, tree), access()).show()
