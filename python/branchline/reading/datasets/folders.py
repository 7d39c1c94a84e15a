"""Patterns of tree paths, such as ``DF_*/O2track_iu`` in the AO2D files of ALICE.

A file whose tree is given as a pattern stands for all trees that match, one for each folder, in the order of the keys
in the file. Of trees with several cycles, only the highest is read, as by ``TFile::Get``.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence

from branchline import _core
from branchline.errors import FILE_ERRORS, DatasetError
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.locations import is_parquet, path_in_file

_MAGIC = re.compile(r"[*?\[]")


def is_tree_pattern(tree: str | None) -> bool:
    """Whether a tree path contains wildcards: ``*``, ``?`` or ``[...]``, which do not match slashes."""
    return tree is not None and _MAGIC.search(tree) is not None


def matching_trees(location: str, pattern: str, access: Access | None = None) -> tuple[str, ...]:
    """Return the paths of the trees in a file that match a pattern, in the order of the file's keys.

    Empty if no tree matches, if the file cannot be opened, or if a tree has the pattern as its name: reading the tree
    with this name then succeeds, or raises the error.
    """
    if is_parquet(location):
        return ()
    try:
        trees = [one.path for one in _core.File(location, access).keys_below("") if one.is_tree]
    except FILE_ERRORS:
        return ()
    if pattern in trees:
        return ()
    parts = pattern.split("/")
    return tuple(dict.fromkeys(one for one in trees if _fits(one.split("/"), parts)))


def _fits(names: Sequence[str], patterns: Sequence[str]) -> bool:
    return len(names) == len(patterns) and all(map(fnmatch.fnmatchcase, names, patterns))


def trees_by_place(
    places: Iterable[tuple[str, str]], access: Access | None = None
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the matching trees for pairs of location and pattern. Files are opened concurrently."""
    # Imported lazily, because most datasets have no patterns of trees.
    from branchline.reading.datasets.server_files import in_threads

    wanted = list(dict.fromkeys(places))
    return dict(zip(wanted, in_threads(lambda one: matching_trees(*one, access), wanted), strict=True))


def with_folders(files: Sequence[DataFile], access: Access | None = None) -> list[DataFile]:
    """Replace each file whose tree is a pattern by one DataFile for each tree that matches.

    Files that cannot be opened, or without a matching tree, are returned unchanged: reading them raises the error.
    Raises DatasetError for a pattern together with an entry range.
    """
    named = [one.changed(tree=path_in_file(one.tree)) if one.tree and "/" in one.tree else one for one in files]
    patterns = [(one.opens, one.tree) for one in named if one.tree is not None and is_tree_pattern(one.tree)]
    if not patterns:
        return named
    found = trees_by_place(patterns, access)
    expanded: list[DataFile] = []
    for one in named:
        trees = found.get((one.opens, one.tree or ""), ())
        if trees and (one.entry_start, one.entry_stop) != (0, None):
            hint = "name a tree, since entries are numbered in each tree"
            raise DatasetError(f"a range of entries cannot be read from all trees {one.tree}", path=one.path, hint=hint)
        expanded += [one.changed(tree=tree, trees=len(trees)) for tree in trees] or [one]
    return expanded
