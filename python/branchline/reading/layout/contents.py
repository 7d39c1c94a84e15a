"""What is in a file, or in a directory of it: its objects, and how large its trees are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from branchline.errors import BranchlineError
from branchline.reading.trees.file import Directory
from branchline.reading.trees.tree import Tree


@dataclass(frozen=True)
class ObjectSummary:
    """An object of a file. ``name`` is relative to the directory that is listed, with the cycle if there are several.

    ``entries`` and ``branches`` are those of a tree, None for anything else; ``error`` says why a tree cannot be read.
    """

    name: str
    classname: str
    title: str
    is_tree: bool
    entries: int | None = None
    branches: int | None = None
    error: str | None = None


def contents_of(directory: Directory, filter_name: Any = None) -> list[ObjectSummary]:
    """The objects in a file or a directory, and in directories within it, in the order of the file.

    ``filter_name`` is a name, a pattern with wildcards or a ``/regular expression/``. Trees are opened, one by one.

    >>> contents_of(branchline.open("file.root"), "Mu*")
    """
    return list(_summaries(directory, filter_name))


def _summaries(directory: Directory, filter_name: Any) -> Iterator[ObjectSummary]:
    keys = directory.keys(filter_name=filter_name)
    names = [key.rpartition(";")[0] for key in keys]
    trees = set(directory.trees())
    for key, name in zip(keys, names, strict=True):
        shown = name if names.count(name) == 1 else key
        summary = ObjectSummary(shown, directory.classname_of(key), directory.title_of(key), name in trees)
        yield _with_sizes(summary, directory, key) if summary.is_tree else summary


def _with_sizes(summary: ObjectSummary, directory: Directory, key: str) -> ObjectSummary:
    """The summary of a tree with its entries and branches, or with the error that opening it raises."""
    try:
        tree: Tree = directory[key]
        return replace(summary, entries=tree.entries_count, branches=len(tree.outline.paths))
    except BranchlineError as error:
        return replace(summary, error=error.reason)
