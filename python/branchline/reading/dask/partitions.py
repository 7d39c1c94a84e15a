"""The partitions of a collection: which entries of which file each of them reads, their lengths, and the fields that
all trees have (`PartitionPlan`).
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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

#: Files that are opened at a time for their numbers of entries. Most of opening is waiting for the storage; the
#: metadata of more files at a time would only wait for a core.
FILES_OPENED_AT_ONCE = 8
STEPS_HINT = 'give {"file.root": {"object_path": "tree", "steps": [[0, 1000], [1000, 2000]]}}, or "steps": [0, 1000]'


@dataclass(frozen=True)
class PartitionPlan:
    """Partitions, their lengths if these are known, and the fields of all trees. ``tree`` is the first one; None if no
    file was opened.
    """

    parts: Sequence[Part]
    lengths: Sequence[int] | None
    tree: Tree | None
    fields: Mapping[str, Field]

    @property
    def divisions(self) -> tuple[int, ...] | None:
        """Entries at which partitions begin, over all files, and the end."""
        return None if self.lengths is None else (0, *itertools.accumulate(self.lengths))

    def with_full_paths(self) -> PartitionPlan:
        """The same with fields under their paths in the tree."""
        return replace(self, fields={getattr(one, "path", name): one for name, one in self.fields.items()})

    @classmethod
    def of(
        cls, given: Sequence[GivenTree], request: ReadRequest, step_size: int | str | None, steps_per_file: int
    ) -> PartitionPlan:
        """That of files which are opened now."""
        trees = opened_trees(given, request.access, allow_missing=request.allow_missing)
        ranges = []
        for one in trees:
            is_cut = one.given.steps is not None
            entries = None if is_cut else entries_of_step(one.tree, step_size, steps_per_file, request)
            ranges += one.ranges(entries)
        if not ranges:
            ranges = [Range(trees[0].tree.file_path, trees[0].tree.object_path.lstrip("/"), 0, 0)]
        return cls(ranges, [len(one) for one in ranges], trees[0].tree, _common_fields(trees, request))

    @classmethod
    def unopened(
        cls,
        given: Sequence[GivenTree],
        request: ReadRequest,
        steps_per_file: int,
        known_base_form: ak.forms.Form | None,
    ) -> PartitionPlan:
        """That of files which are opened when something is computed, but for the first."""
        parts = shares(given, steps_per_file)
        lengths = [len(one) for one in parts if isinstance(one, Range)] if given[0].steps is not None else None
        if known_base_form is not None:
            return cls(parts, lengths, None, {name: BranchField(name) for name in known_base_form.fields})
        tree = first_tree(given, request.access, allow_missing=request.allow_missing)
        return cls(parts, lengths, tree, dict(tree.selection(request).fields))


def _common_fields(trees: Sequence[OpenedTree], request: ReadRequest) -> dict[str, Field]:
    """The fields of the first tree of which all trees have the branches. Raises DatasetError if there are none."""
    fields = dict(trees[0].tree.selection(request).fields)
    for one in trees[1:]:
        readable = one.tree.shape.readable_set
        fields = {name: field for name, field in fields.items() if readable.issuperset(field.paths())}
    if not fields:
        what = "no branch that can be read is in all of the trees" if len(trees) > 1 else "no branch is selected"
        raise DatasetError(what, path=trees[0].tree.file_path, hint="check the filters, and that the trees are alike")
    return fields


@dataclass(frozen=True)
class Range:
    """Some entries of a tree, counted from 0 and without the last limit."""

    path: str
    tree: str | None
    entry_start: int
    entry_stop: int

    def source(self, access: Access) -> Source:
        """What is read."""
        del access
        return Source(self.path, self.tree, self.entry_start, self.entry_stop)

    def __len__(self) -> int:
        return self.entry_stop - self.entry_start


@dataclass(frozen=True)
class Share:
    """One of ``count`` parts of a tree whose number of entries is not known yet."""

    path: str
    tree: str | None
    index: int
    count: int

    def source(self, access: Access) -> Source:
        """What is read: the tree is opened for its number of entries. Raises what opening raises."""
        tree = File(self.path, access).tree(self.tree)
        start, stop = share_of(tree.entries_count, self.index, self.count)
        return Source(self.path, self.tree, start, stop, tree)


def share_of(entries_count: int, index: int, count: int) -> tuple[int, int]:
    """The entries of one of ``count`` parts of a tree; the last ones may be shorter, or empty."""
    entries = math.ceil(entries_count / count)
    return min(index * entries, entries_count), min((index + 1) * entries, entries_count)


Part = Range | Share


@dataclass(frozen=True)
class GivenTree:
    """A tree as it was given, with the limits of its partitions if these were given too."""

    source: Source
    steps: tuple[tuple[int, int], ...] | None = None

    def opened(self, access: Access) -> OpenedTree:
        """The same with the tree. Raises what opening raises."""
        tree = self.source.open_tree
        if not isinstance(tree, Tree):
            file = File(self.source.path, access)
            tree = file.tree(self.source.tree)
            if file.recovered_count:
                warn(recovered(file.path, file.recovered_count), RecoveredFileWarning)
        return OpenedTree(self, tree)


@dataclass(frozen=True)
class OpenedTree:
    """A tree that was given, open."""

    given: GivenTree
    tree: Tree

    def ranges(self, entries: int | None) -> list[Range]:
        """Its partitions: those that were given, or such of ``entries`` entries. Raises OptionError for entries that it
        does not have.
        """
        count, tree = self.tree.entries_count, self.tree
        steps: Sequence[tuple[int, int]] = self.given.steps or ()
        if self.given.steps is None and entries is not None:
            steps = [(start, min(start + entries, count)) for start in range(0, count, entries)]
        for _, stop in steps:
            if stop > count:
                what = f"entries up to {stop} were given as steps, and the tree {tree.path} has {count}"
                raise OptionError(what, path=tree.file_path, hint="give steps within the tree")
        name = tree.object_path.lstrip("/")
        return [Range(tree.file_path, name, start, stop) for start, stop in steps if start < stop]


def given_trees(files: Any) -> list[GivenTree]:
    """The trees of what a user gives: what `branchline.iterate` takes, and ``{path: {"object_path": tree, "steps":
    limits}}``. Raises DatasetError for nothing, OptionError for what is no file.
    """
    trees = list(_trees_in(files))
    if not trees:
        raise DatasetError("no files were given")
    if len({tree.steps is None for tree in trees}) > 1:
        raise OptionError("some files have steps and others have none", hint="give steps for all of them, or for none")
    return trees


def _trees_in(files: Any) -> Iterator[GivenTree]:
    if isinstance(files, Mapping):
        for path, value in files.items():
            if isinstance(value, Mapping):
                steps = _steps_in(value)
                yield from (GivenTree(one, steps) for one in sources_of({path: value.get("object_path")}))
            else:
                yield from map(GivenTree, sources_of({path: value}))
    elif isinstance(files, str | bytes | os.PathLike | Tree) or not hasattr(files, "__iter__"):
        yield from map(GivenTree, sources_of(files))
    else:
        for one in files:
            yield from _trees_in(one)


def _steps_in(given: Mapping[str, Any]) -> tuple[tuple[int, int], ...] | None:
    """The limits of partitions, which may be given as the entries between them. Raises OptionError."""
    unknown = given.keys() - {"object_path", "steps"}
    if unknown:
        raise OptionError(f"a file has no {', '.join(sorted(map(repr, unknown)))}", hint=STEPS_HINT)
    if given.get("steps") is None:
        return None
    limits = np.asarray(given["steps"])
    if limits.dtype.kind in "iu" and limits.ndim == 1 and len(limits) > 1:
        limits = np.stack([limits[:-1], limits[1:]], axis=1)
    if limits.dtype.kind not in "iu" or limits.ndim != 2 or limits.shape[1] != 2:
        raise OptionError(f"steps cannot be {given['steps']!r}", hint=STEPS_HINT)
    if (limits < 0).any() or (limits[:, 0] > limits[:, 1]).any():
        raise OptionError(f"steps cannot be {given['steps']!r}", hint="entries count from 0, and a step ends after it")
    return tuple((int(start), int(stop)) for start, stop in limits)


def opened_trees(given: Sequence[GivenTree], access: Access, *, allow_missing: bool) -> list[OpenedTree]:
    """The trees, several opened at a time; with ``allow_missing`` without the files that have none. Raises what opening
    raises, and DatasetError if none is left.
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
    """Entries of a partition of a tree. Raises OptionError for an impossible size."""
    if step_size is None:
        return max(1, math.ceil(tree.entries_count / steps_per_file))
    if not isinstance(step_size, str):
        return int(step_size)
    wanted = {"filter_name": request.filter_name, "filter_typename": request.filter_typename}
    return tree.num_entries_for(step_size, **wanted, filter_branch=request.filter_branch)


def shares(given: Sequence[GivenTree], steps_per_file: int) -> list[Part]:
    """The partitions of files that are not opened yet."""
    parts: list[Part] = []
    for one in given:
        path, tree = one.source.path, one.source.tree
        if isinstance(one.source.open_tree, Tree):
            tree = one.source.open_tree.object_path.lstrip("/")
        if one.steps is not None:
            parts += [Range(path, tree, start, stop) for start, stop in one.steps]
        else:
            parts += [Share(path, tree, index, steps_per_file) for index in range(steps_per_file)]
    return parts


def first_tree(given: Sequence[GivenTree], access: Access, *, allow_missing: bool) -> Tree:
    """The first tree that opens. Raises what opening raises."""
    for index, one in enumerate(given):
        try:
            return one.opened(access).tree
        except NoSuchKeyError:
            if not allow_missing or index == len(given) - 1:
                raise
    raise DatasetError("no files were given")
