"""`branchline show`: show the contents of a file, a directory or a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from branchline.base.quantities import counted
from branchline.base.texts import escaped
from branchline.cli.options import ReadingSettings, requests_recorded
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import print_out

if TYPE_CHECKING:
    from branchline.reading.layout.file_layout import ObjectSummary
    from branchline.reading.trees.file import Directory, File

HEAD = ("object", "class", "content", "title")


def show(
    location: Annotated[
        str,
        Argument(
            metavar="FILE[:NAME]",
            help="A ROOT file, or a tree, a directory or another object in it; DF_*/TREE are trees in many folders.",
        ),
    ],
    reading: ReadingSettings,
    filter_name: Annotated[
        str | None,
        Option(
            "--filter",
            metavar="PATTERN",
            help="Show only branches of a tree, or objects of a file, whose names match: a pattern, or /regex/.",
        ),
    ] = None,
) -> None:
    """Show the contents of a file: its objects, and for a tree the branches with type, entries, baskets and sizes.

    If a file has only one tree, its branches are shown as well.

    Examples:
        List the objects of a file:
            branchline show file.root
        Show the branches of a tree that are about muons:
            branchline show file.root:Events --filter "*Muon*"
        Show the trees of all folders of an AO2D file, and their branches:
            branchline show "AO2D.root:DF_*/O2track_iu"

    """
    # Imported here since it imports awkward.
    from branchline.reading.datasets.folders import is_tree_pattern, matching_trees
    from branchline.reading.locations import split_location
    from branchline.reading.trees.branch import Branch
    from branchline.reading.trees.file import Directory, File
    from branchline.reading.trees.tree import Tree

    with requests_recorded(reading.trace_to):
        path, name = split_location(location)
        file = File(path, reading.access)
        if name is not None and is_tree_pattern(name) and (trees := matching_trees(path, name, reading.access)):
            _show_trees(file, trees, filter_name)
            return
        found = file if name is None else file[name]
        if isinstance(found, Tree):
            found.show(filter_name=filter_name)
        elif isinstance(found, Branch):
            own = {found.number, *found.tree.outline.below(found.number)}
            found.tree.show(filter_name=filter_name, filter_branch=lambda branch: branch.number in own)
        elif isinstance(found, Directory):
            _show_directory(found, filter_name)
        else:
            assert name is not None
            _print_table([(name, file.classname_of(name), repr(found), file.title_of(name))])


def _show_trees(file: File, names: Sequence[str], filter_name: str | None) -> None:
    """Print the trees that match a pattern, and the branches of the first one."""
    trees = [file.tree(name) for name in names]
    rows = [
        (one.path, file.classname_of(one.path), _content_of(one.entries_count, len(one)), one.title) for one in trees
    ]
    _print_table(rows)
    entries = counted(sum(one.entries_count for one in trees), "entry", "entries")
    print_out(f"{counted(len(trees), 'tree')}, {entries} in all; branches of {escaped(trees[0].path)}:")
    trees[0].show(filter_name=filter_name)


def _show_directory(directory: Directory, filter_name: str | None) -> None:
    """Print the objects in a directory, and the branches of its tree if it has exactly one. The filter then applies to
    the branches.
    """
    from branchline.reading.layout.file_layout import contents_of

    trees = directory.trees()
    is_only_tree = len(trees) == 1
    if not is_only_tree or (filter_name is None and len(directory.keys()) > 1):
        objects = contents_of(directory, filter_name)
        _print_table([(one.name, one.classname, _content(one), one.title) for one in objects])
        print_out(counted(len(objects), "object") if objects else "no object matches the filter")
    if is_only_tree:
        directory[trees[0]].show(filter_name=filter_name)


def _content(one: ObjectSummary) -> str:
    if one.error is not None:
        return f"cannot be read: {one.error}"
    if one.entries is None or one.branches is None:
        return ""
    return _content_of(one.entries, one.branches)


def _content_of(entries: int, branches: int) -> str:
    return f"{counted(entries, 'entry', 'entries')}, {counted(branches, 'branch', 'branches')}"


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    lines = [HEAD, *(tuple(map(escaped, row)) for row in rows)] if rows else []
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))] if lines else []
    for number, line in enumerate(lines):
        print_out("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
        if number == 0:
            print_out("  ".join("-" * width for width in widths))
