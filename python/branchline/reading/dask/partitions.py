"""Plans the partitions of a collection: their entry ranges, their lengths, and the fields that all trees have."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import awkward as ak
import numpy as np

from branchline.errors import DatasetError, NoSuchKeyError, OptionError, RecoveredFileWarning, warn
from branchline.reading.request import ReadRequest
from branchline.reading.sources import Source
from branchline.reading.trees.file import File
from branchline.reading.trees.iteration import sources_of
from branchline.reading.trees.selection import BranchField, Field
from branchline.reading.trees.tree import Tree
from branchline.reading.trees.tree_steps import recovered

if TYPE_CHECKING:
    from branchline.reading.access import Access

#: Maximum number of files that are opened concurrently to get their numbers of entries. Opening mostly waits for
#: storage; with more files, parsing the metadata would become CPU-bound.
FILES_OPENED_AT_ONCE = 8
STEPS_HINT = 'give {"file.root": {"object_path": "tree", "steps": [[0, 1000], [1000, 2000]]}}, or "steps": [0, 1000]'


@dataclass(frozen=True)
class PartitionPlan:
    """Partitions, their lengths (None if unknown), and the fields that all trees have.

    ``tree`` is the first tree; None if no file was opened.
    """

    parts: Sequence[Part]
    lengths: Sequence[int] | None
    tree: Tree | None
    fields: Mapping[str, Field]

    @property
    def divisions(self) -> tuple[int, ...] | None:
        """Partition boundaries, counted across all files."""
        return None if self.lengths is None else (0, *itertools.accumulate(self.lengths))

    def with_full_paths(self) -> PartitionPlan:
        """Return a copy with fields that are named by their paths in the tree."""
        return replace(self, fields={getattr(one, "path", name): one for name, one in self.fields.items()})

    @classmethod
    def of(
        cls, given: Sequence[GivenTree], request: ReadRequest, step_size: int | str | None, steps_per_file: int
    ) -> PartitionPlan:
        """Open all files and plan their partitions."""
        trees = opened_trees(given, request.access, allow_missing=request.allow_missing)
        ranges = []
        for one in trees:
            is_cut = one.given.steps is not None
            entries = None if is_cut else entries_of_step(one.tree, step_size, steps_per_file, request)
            ranges += one.ranges(entries)
        if not ranges:
            ranges = [Range(trees[0].tree.file_path, trees[0].tree.object_path.lstrip("/"), 0, 0)]
        # Keep the fields of the first tree whose branches exist in all trees.
        fields = dict(trees[0].tree.selection(request).fields)
        for other in trees[1:]:
            readable = other.tree.shape.readable_set
            fields = {name: field for name, field in fields.items() if readable.issuperset(field.paths())}
        if not fields:
            what = "the trees have no readable branch in common" if len(trees) > 1 else "no branch is selected"
            raise DatasetError(
                what, path=trees[0].tree.file_path, hint="check the filters, and that the trees have the same structure"
            )
        return cls(ranges, [len(one) for one in ranges], trees[0].tree, fields)

    @classmethod
    def unopened(
        cls,
        given: Sequence[GivenTree],
        request: ReadRequest,
        steps_per_file: int,
        known_base_form: ak.forms.Form | None,
    ) -> PartitionPlan:
        """Plan the partitions without opening the files, except for the first file if its form is needed."""
        parts = shares(given, steps_per_file)
        lengths = [len(one) for one in parts if isinstance(one, Range)] if given[0].steps is not None else None
        if known_base_form is not None:
            return cls(parts, lengths, None, {name: BranchField(name) for name in known_base_form.fields})
        tree = first_tree(given, request.access, allow_missing=request.allow_missing)
        return cls(parts, lengths, tree, dict(tree.selection(request).fields))


@dataclass(frozen=True)
class Range:
    """A range of entries of a tree; ``entry_stop`` is exclusive."""

    path: str
    tree: str | None
    entry_start: int
    entry_stop: int

    def source(self, access: Access) -> Source:
        """Return the source to read."""
        del access
        return Source(self.path, self.tree, self.entry_start, self.entry_stop)

    def __len__(self) -> int:
        return self.entry_stop - self.entry_start


@dataclass(frozen=True)
class TreePart:
    """One of ``count`` parts of a tree with an unknown number of entries."""

    path: str
    tree: str | None
    index: int
    count: int

    def source(self, access: Access) -> Source:
        """Return the source to read. Opens the tree to get its number of entries. Raises file-open errors."""
        tree = File(self.path, access).tree(self.tree)
        start, stop = share_of(tree.entries_count, self.index, self.count)
        return Source(self.path, self.tree, start, stop, tree)


def share_of(entries_count: int, index: int, count: int) -> tuple[int, int]:
    """Return the entry range of part ``index`` of ``count`` parts of a tree; the last parts may be shorter or empty."""
    entries = math.ceil(entries_count / count)
    return min(index * entries, entries_count), min((index + 1) * entries, entries_count)


Part = Range | TreePart


@dataclass(frozen=True)
class GivenTree:
    """A tree as specified by the user, with the entry ranges of the partitions if the user specified them."""

    source: Source
    steps: tuple[tuple[int, int], ...] | None = None

    def opened(self, access: Access) -> OpenedTree:
        """Open the tree. Raises the errors of opening."""
        tree = self.source.open_tree
        if not isinstance(tree, Tree):
            file = File(self.source.path, access)
            tree = file.tree(self.source.tree)
            if file.recovered_count:
                warn(recovered(file.path, file.recovered_count), RecoveredFileWarning)
        return OpenedTree(self, tree)


@dataclass(frozen=True)
class OpenedTree:
    """An opened tree that the user specified."""

    given: GivenTree
    tree: Tree

    def ranges(self, entries: int | None) -> list[Range]:
        """Return the partitions of the tree: the ranges that the user specified, or else ranges of ``entries`` entries.

        Raises OptionError for entries that the tree does not have.
        """
        count, tree = self.tree.entries_count, self.tree
        steps: Sequence[tuple[int, int]] = self.given.steps or ()
        if self.given.steps is None and entries is not None:
            steps = [(start, min(start + entries, count)) for start in range(0, count, entries)]
        for _, stop in steps:
            if stop > count:
                what = f"the steps end at entry {stop}, but the tree {tree.path} has {count} entries"
                raise OptionError(what, path=tree.file_path, hint="give steps within the tree")
        name = tree.object_path.lstrip("/")
        return [Range(tree.file_path, name, start, stop) for start, stop in steps if start < stop]


def given_trees(files: object, access: Access | None = None) -> list[GivenTree]:
    """Parse the files specified by the user.

    The argument is as for `branchline.iterate`, or ``{path: {"object_path": tree, "steps": limits}}``. Raises
    DatasetError for an empty list, and OptionError for invalid values.
    """
    trees = list(_trees_in(files, access))
    if not trees:
        raise DatasetError("no files were given")
    if len({tree.steps is None for tree in trees}) > 1:
        raise OptionError("only some of the files have steps", hint="give steps for all of them, or for none")
    return trees


def _trees_in(files: object, access: Access | None) -> Iterator[GivenTree]:
    if isinstance(files, Mapping):
        for path, value in files.items():
            if isinstance(value, Mapping):
                steps = _steps_in(value)
                yield from (GivenTree(one, steps) for one in sources_of({path: value.get("object_path")}, access))
            else:
                yield from map(GivenTree, sources_of({path: value}, access))
    elif isinstance(files, str | bytes | os.PathLike | Tree) or not hasattr(files, "__iter__"):
        yield from map(GivenTree, sources_of(files, access))
    else:
        for one in files:
            yield from _trees_in(one, access)


def _steps_in(given: Mapping[str, object]) -> tuple[tuple[int, int], ...] | None:
    """Parse ``steps``: pairs of entries, or a list of boundaries. Raises OptionError."""
    unknown = given.keys() - {"object_path", "steps"}
    if unknown:
        raise OptionError(f"unknown keys of a file: {', '.join(sorted(map(repr, unknown)))}", hint=STEPS_HINT)
    if given.get("steps") is None:
        return None
    limits = np.asarray(given["steps"])
    if limits.dtype.kind in "iu" and limits.ndim == 1 and len(limits) > 1:
        limits = np.stack([limits[:-1], limits[1:]], axis=1)
    if limits.dtype.kind not in "iu" or limits.ndim != 2 or limits.shape[1] != 2:
        raise OptionError(f"steps cannot be {given['steps']!r}", hint=STEPS_HINT)
    if (limits < 0).any() or (limits[:, 0] > limits[:, 1]).any():
        raise OptionError(
            f"steps cannot be {given['steps']!r}", hint="entries count from 0, and a step must not end before its start"
        )
    return tuple((int(start), int(stop)) for start, stop in limits)


def opened_trees(given: Sequence[GivenTree], access: Access, *, allow_missing: bool) -> list[OpenedTree]:
    """Open the trees, several at a time. With ``allow_missing``, files without the tree are skipped.

    Raises file-open errors, and DatasetError if no file has the tree.
    """

    def opened(one: GivenTree) -> OpenedTree | None:
        try:
            return one.opened(access)
        except NoSuchKeyError:
            if not allow_missing:
                raise
            return None

    with ThreadPoolExecutor(FILES_OPENED_AT_ONCE) as threads:
        trees = [one for one in threads.map(opened, given) if one is not None]
    if not trees:
        raise DatasetError("none of the files has the tree", path=given[0].source.path, hint="check its name")
    return trees


def entries_of_step(tree: Tree, step_size: int | str | None, steps_per_file: int, request: ReadRequest) -> int:
    """Return the number of entries per partition. Raises OptionError for an invalid size."""
    if step_size is None:
        return max(1, math.ceil(tree.entries_count / steps_per_file))
    if not isinstance(step_size, str):
        return int(step_size)
    wanted = {"filter_name": request.filter_name, "filter_typename": request.filter_typename}
    return tree.num_entries_for(step_size, **wanted, filter_branch=request.filter_branch)


def shares(given: Sequence[GivenTree], steps_per_file: int) -> list[Part]:
    """Return the partitions of files that are not open yet."""
    parts: list[Part] = []
    for one in given:
        path, tree = one.source.path, one.source.tree
        if isinstance(one.source.open_tree, Tree):
            tree = one.source.open_tree.object_path.lstrip("/")
        if one.steps is not None:
            parts += [Range(path, tree, start, stop) for start, stop in one.steps]
        else:
            parts += [TreePart(path, tree, index, steps_per_file) for index in range(steps_per_file)]
    return parts


def first_tree(given: Sequence[GivenTree], access: Access, *, allow_missing: bool) -> Tree:
    """Open the first available tree. Raises the errors of opening."""
    for index, one in enumerate(given):
        try:
            return one.opened(access).tree
        except NoSuchKeyError:
            if not allow_missing or index == len(given) - 1:
                raise
    raise DatasetError("no files were given")
