"""Plans the fields of an RNTuple from the branches of a tree.

A branch that only groups sub-branches becomes a record. A branch that is a collection of objects becomes a list of
records. Arrays with a common counter become a collection ``_collection0``, ``_collection1``, ..., and are also
projected to fields with their own names, as in ROOT's importer of TTrees (RNTupleImporter).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import awkward as ak
import numpy as np

from branchline._core import Column
from branchline.errors import BranchlineError, UnsupportedBranchError
from branchline.reading.arrays.layouts import misses, whole
from branchline.reading.arrays.nesting import IMPORTED, LEFT_OUT, Outline, imported_counts
from branchline.writing.columns.columns import HINT, column_of

if TYPE_CHECKING:
    from branchline.reading.trees.tree import Tree

DIMENSIONS = re.compile(r"(\[[^\]]*\])+$")
# Matches characters that ROOT does not allow in field names (RNTuple specification, "Naming specification").
NOT_IN_NAMES = re.compile(r"[./\\\s\x00-\x1f\x7f]")


class Field(Protocol):
    """A field of an output file."""

    @property
    def name(self) -> str: ...

    def paths(self) -> Iterator[str]:
        """Yield the paths of the branches that the field is made from."""

    def layout(self, chunk: Mapping[str, ak.contents.Content]) -> ak.contents.Content:
        """Return the values of the field in ``chunk``."""


@dataclass(frozen=True)
class Leaf:
    """A field with the values of one branch."""

    name: str
    path: str

    def paths(self) -> Iterator[str]:
        """Yield the path of the branch that the field is made from."""
        yield self.path

    def layout(self, chunk: Mapping[str, ak.contents.Content]) -> ak.contents.Content:
        """Return the values of the field in ``chunk``."""
        return chunk[self.path]


@dataclass(frozen=True)
class RecordField:
    """A field with sub-fields: one record per entry, or a list of records."""

    name: str
    members: tuple[Field, ...]
    is_list: bool

    def paths(self) -> Iterator[str]:
        """Yield the paths of the branches that the field is made from."""
        for member in self.members:
            yield from member.paths()

    def layout(self, chunk: Mapping[str, ak.contents.Content]) -> ak.contents.Content:
        """Return the values of the field in ``chunk``."""
        names = [member.name for member in self.members]
        layouts = [member.layout(chunk) for member in self.members]
        if not self.is_list:
            return ak.contents.RecordArray(layouts, names)
        if not all(layout.is_list for layout in layouts):
            raise UnsupportedBranchError(f"{self.name} is a list, but some of its members are not", hint=HINT)
        lists = [layout.to_ListOffsetArray64(True) for layout in layouts]
        offsets = lists[0].offsets
        for member, one in zip(self.members, lists, strict=True):
            if not np.array_equal(one.offsets.data, offsets.data):
                raise BranchlineError(
                    f"{member.name} of {self.name} has different numbers of elements than the other members"
                )
        stop = offsets[-1]
        return ak.contents.ListOffsetArray(
            offsets, ak.contents.RecordArray([one.content[:stop] for one in lists], names)
        )


@dataclass(frozen=True)
class ShownField:
    """A projected field: a ``member`` of a collection's elements, or the number of elements if ``member`` is None."""

    name: str
    collection: str
    member: str | None


class RenamedBranch(NamedTuple):
    """A branch whose field needs a different name: ROOT rejects the branch name, or another field already has it."""

    branch: str
    field: str


class PlanChanged(Exception):  # noqa: N818 - not an error: the output is restarted with another plan
    """Raised if values do not fit the plan. ``plan`` is the plan that they fit."""

    def __init__(self, plan: FieldPlan) -> None:
        super().__init__(plan)
        self.plan = plan


@dataclass(frozen=True)
class FieldPlan:
    """The fields of an output file.

    ``shown`` are projected fields, which are views of parts of other fields. ``renamed`` are branches whose names had
    to be changed. ``optional`` are the fields that may have missing values; None allows missing values in all fields
    whose types support them.
    """

    fields: tuple[Field, ...]
    shown: tuple[ShownField, ...]
    renamed: tuple[RenamedBranch, ...]
    optional: frozenset[str] | None = None

    def paths(self) -> list[str]:
        """Return the branches to read."""
        return list(dict.fromkeys(path for field in self.fields for path in field.paths()))

    def layouts(self, chunk: ak.Array) -> list[ak.contents.Content]:
        """Return the values of all fields in a chunk, which contains the branches ``paths``. Raises PlanChanged."""
        by_path = {name: chunk[name].layout for name in chunk.fields}
        layouts = [field.layout(by_path) for field in self.fields]
        if self.optional is None:
            return layouts
        names = [field.name for field in self.fields]
        settled = [one if name in self.optional else whole(one) for name, one in zip(names, layouts, strict=True)]
        missing = {name for name, one in zip(names, settled, strict=True) if name not in self.optional and misses(one)}
        if missing:
            raise PlanChanged(replace(self, optional=self.optional | missing))
        return settled

    def columns(self, layouts: Sequence[ak.contents.Content]) -> list[Column]:
        """Convert the values of all fields to engine columns."""
        return [column_of(layout, field.name) for field, layout in zip(self.fields, layouts, strict=True)]


def plan_fields(tree: Tree, chosen: Sequence[str] | None, dropped: Sequence[str], *, collect: bool) -> FieldPlan:
    """Plan the fields for a tree's branches: the branches ``chosen``, or all if None, without those in ``dropped``.

    With ``collect``, arrays with a common counter become a collection. Raises `UnsupportedBranchError` for branches
    that cannot be read.
    """
    outline: Outline = tree.outline
    kept = _kept(tree, outline, chosen, dropped)
    check_readable(tree, kept)
    if outline.nests:
        is_imported = any(count is not None for count in imported_counts(outline))
        tops = [index for index in outline.children(None) if index in kept]
        fields: list[Field] = [
            Leaf(outline.names[index], outline.paths[index])
            for index in tops
            if not (is_imported and outline.names[index].startswith(IMPORTED))
        ]
        return FieldPlan(tuple(fields), (), ())
    made = _Maker(outline, kept)
    fields = [field for top in outline.children(None) if (field := made.field(top, "", None)) is not None]
    if not fields:
        raise BranchlineError("no branch is left to convert", path=tree.file_path)
    if not collect:
        return FieldPlan(tuple(fields), (), tuple(made.renamed))
    return _collected(tree, outline, fields, made)


def check_readable(tree: Tree, kept: Iterable[int]) -> None:
    """Raise UnsupportedBranchError if some branches cannot be read."""
    outline = tree.outline
    unreadable = [outline.paths[index] for index in sorted(kept) if outline.kinds[index] in LEFT_OUT]
    if unreadable:
        raise UnsupportedBranchError(
            f"branches that cannot be read: {', '.join(unreadable[:10])}",
            path=tree.file_path,
            hint="leave them out with --drop",
        )


def _kept(tree: Tree, outline: Outline, chosen: Sequence[str] | None, dropped: Sequence[str]) -> set[int]:
    """Return the indices of the branches that match ``chosen`` but not ``dropped``, with all sub-branches."""

    def matching(patterns: Iterable[str]) -> set[int]:
        found: set[int] = set()
        for pattern in patterns:
            # tree[pattern] raises an error with similar names if the branch does not exist.
            found |= matching_branches(tree, pattern) or {tree[pattern].number}
        return found

    kept = set(range(len(outline.paths))) if chosen is None else matching(chosen)
    return kept - matching(dropped)


def matching_branches(tree: Tree, pattern: str) -> set[int]:
    """Return the indices of the branches with a name or pattern, with all sub-branches."""
    found = set(tree.indices(pattern, None, None, recursive=True))
    if not found and (index := tree.find(pattern)) is not None:
        found = {index}
    return found | {below for index in found for below in tree.outline.below(index)}


class _Maker:
    """Creates fields from branches."""

    def __init__(self, outline: Outline, kept: set[int]) -> None:
        self._outline = outline
        self._kept = kept
        # For each parent branch: the names of the fields created below it, and the names of its direct sub-branches.
        self._taken: dict[int | None, set[str]] = {}
        self._reserved: dict[int | None, set[str]] = {}
        self.renamed: list[RenamedBranch] = []

    def field(self, index: int, prefix: str, owner: int | None) -> Field | None:
        """Return the field for a branch; None if neither the branch nor a sub-branch is kept."""
        outline = self._outline
        name = self._name(index, prefix, owner)
        if not outline.children(index):
            return Leaf(name, outline.paths[index]) if index in self._kept else None
        below = f"{outline.names[index].rstrip('.')}."
        if outline.kinds[index] == "data":
            leaves = [one for one in outline.below(index) if outline.kinds[one] == "data" and one in self._kept]
            members: list[Field] = [Leaf(self._name(one, below, index), outline.paths[one]) for one in leaves]
        else:
            made = (self.field(child, below, index) for child in outline.children(index))
            members = [field for field in made if field is not None]
        if not members:
            return None
        return RecordField(name, tuple(members), is_list=outline.kinds[index] == "data")

    def _own(self, index: int, prefix: str) -> str:
        return DIMENSIONS.sub("", self._outline.names[index].removeprefix(prefix)).rstrip(".")

    def _name(self, index: int, prefix: str, owner: int | None) -> str:
        """Return a unique field name for a branch, without dots, spaces and array dimensions."""
        name = self._own(index, prefix)
        clean = free = NOT_IN_NAMES.sub("_", name) or "_"
        if owner not in self._taken:
            self._taken[owner] = set()
            siblings = self._outline.children(None) if owner is None else self._outline.below(owner)
            self._reserved[owner] = {self._own(one, prefix) for one in siblings}
        taken, reserved = self._taken[owner], self._reserved[owner]
        number = 2
        while free in taken or (free != name and free in reserved):
            free = f"{clean}_{number}"
            number += 1
        taken.add(free)
        if free != name:
            self.renamed.append(RenamedBranch(self._outline.paths[index], free))
        return free


def _collected(tree: Tree, outline: Outline, fields: Sequence[Field], made: _Maker) -> FieldPlan:
    """Return the plan for ``fields``, with one collection for each group of number arrays with a common counter."""
    by_counter: dict[int, list[Leaf]] = {}
    empty = tree.arrays([field.path for field in fields if isinstance(field, Leaf)] or None, entry_stop=0)
    for field in fields:
        if isinstance(field, Leaf):
            counter = outline.counts[outline.index_by_path[field.path]]
            layout = empty[field.path].layout if field.path in empty.fields else None
            if (
                counter is not None
                and layout is not None
                and layout.is_list
                and layout.content.is_numpy
                and layout.content.data.ndim == 1
            ):
                by_counter.setdefault(counter, []).append(field)
    collections: dict[str, RecordField] = {}
    shown: list[ShownField] = []
    gone: set[str] = set()
    for number, (counter, members) in enumerate(by_counter.items()):
        name = f"{IMPORTED}{number}"
        collections[name] = RecordField(name, tuple(members), is_list=True)
        shown += [ShownField(member.name, name, member.name) for member in members]
        gone |= {member.path for member in members}
        own = next((one for one in fields if isinstance(one, Leaf) and one.path == outline.paths[counter]), None)
        if own is not None:
            shown.append(ShownField(own.name, name, None))
            gone.add(own.path)
    rest = [field for field in fields if not (isinstance(field, Leaf) and field.path in gone)]
    return FieldPlan((*rest, *collections.values()), tuple(shown), tuple(made.renamed))
