"""The fields of an RNTuple that are made from the branches of a tree.

A branch that only groups others becomes a record of them, and one that is a collection of objects a list of records.
Arrays that the same branch counts come together as a collection ``_collection0``, ..., and are shown under their own
names, as ROOT's importer of TTrees does (RNTupleImporter).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import awkward as ak
import numpy as np

from branchline._core import Column
from branchline.errors import BranchlineError, UnsupportedBranchError
from branchline.reading.arrays.layouts import misses, whole
from branchline.reading.arrays.nesting import IMPORTED, LEFT_OUT, Outline, imported_counts
from branchline.writing.columns.columns import HINT, column_of

DIMENSIONS = re.compile(r"(\[[^\]]*\])+$")
# What ROOT does not allow in the name of a field (RNTuple specification, "Naming specification").
NOT_IN_NAMES = re.compile(r"[./\\\s\x00-\x1f\x7f]")


@dataclass(frozen=True)
class Leaf:
    """A field whose values are those of a branch."""

    name: str
    path: str

    def paths(self) -> Iterator[str]:
        """The branches that it consists of."""
        yield self.path

    def layout(self, chunk: Any) -> ak.contents.Content:
        """Its values."""
        return chunk[self.path]


@dataclass(frozen=True)
class Members:
    """A field of several: one record for each entry, or a list of them."""

    name: str
    members: tuple[Leaf | Members, ...]
    is_list: bool

    def paths(self) -> Iterator[str]:
        """The branches that it consists of."""
        for member in self.members:
            yield from member.paths()

    def layout(self, chunk: Any) -> ak.contents.Content:
        """Its values."""
        names = [member.name for member in self.members]
        layouts = [member.layout(chunk) for member in self.members]
        if not self.is_list:
            return ak.contents.RecordArray(layouts, names)
        if not all(layout.is_list for layout in layouts):
            raise UnsupportedBranchError(f"the members of {self.name} are no lists, unlike itself", hint=HINT)
        lists = [layout.to_ListOffsetArray64(True) for layout in layouts]
        offsets = lists[0].offsets
        for member, one in zip(self.members, lists, strict=True):
            if not np.array_equal(one.offsets.data, offsets.data):
                raise BranchlineError(
                    f"{member.name} of {self.name} has other numbers of elements than the other members"
                )
        stop = offsets[-1]
        return ak.contents.ListOffsetArray(
            offsets, ak.contents.RecordArray([one.content[:stop] for one in lists], names)
        )


Field = Leaf | Members


@dataclass(frozen=True)
class ShownField:
    """A field that shows a ``member`` of the elements of a collection, or their number if it is None."""

    name: str
    collection: str
    member: str | None


class RenamedBranch(NamedTuple):
    """A branch whose field has another name, since ROOT does not allow its own or since another field has it."""

    branch: str
    field: str


class MissingValues(Exception):  # noqa: N818 - no fault: the output begins anew, with other types
    """Values of ``fields`` are missing that were not to be optional."""

    def __init__(self, fields: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(fields)))
        self.fields = fields


@dataclass(frozen=True)
class FieldPlan:
    """The fields of an output, those that show parts of others, and names that had to be changed.

    With ``optional`` only these fields have values that may be missing; without it all whose types say so.
    """

    fields: tuple[Field, ...]
    shown: tuple[ShownField, ...]
    renamed: tuple[RenamedBranch, ...]
    optional: frozenset[str] | None = None

    def paths(self) -> list[str]:
        """The branches that are read."""
        return list(dict.fromkeys(path for field in self.fields for path in field.paths()))

    def layouts(self, chunk: ak.Array) -> list[ak.contents.Content]:
        """The values of all fields, of the arrays of ``paths``. Raises MissingValues."""
        by_path = {name: chunk[name].layout for name in chunk.fields}
        layouts = [field.layout(by_path) for field in self.fields]
        if self.optional is None:
            return layouts
        names = [field.name for field in self.fields]
        settled = [one if name in self.optional else whole(one) for name, one in zip(names, layouts, strict=True)]
        missing = {name for name, one in zip(names, settled, strict=True) if name not in self.optional and misses(one)}
        if missing:
            raise MissingValues(frozenset(missing))
        return settled

    def columns(self, layouts: Sequence[ak.contents.Content]) -> list[Column]:
        """Values of all fields as columns of the engine."""
        return [column_of(layout, field.name) for field, layout in zip(self.fields, layouts, strict=True)]


def plan_fields(tree: Any, chosen: Sequence[str] | None, dropped: Sequence[str], *, collect: bool) -> FieldPlan:
    """The fields for the branches of a tree: of the chosen ones, or of all, without the dropped ones.

    With ``collect`` arrays with one counter become a collection. Raises `UnsupportedBranchError` for branches that
    cannot be read.
    """
    outline: Outline = tree.outline
    kept = _kept(tree, outline, chosen, dropped)
    unreadable = [outline.paths[index] for index in sorted(kept) if outline.kinds[index] in LEFT_OUT]
    if unreadable:
        raise UnsupportedBranchError(
            f"branches that cannot be read: {', '.join(unreadable[:10])}",
            path=tree.file_path,
            hint="leave them out with --drop",
        )
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


def _kept(tree: Any, outline: Outline, chosen: Sequence[str] | None, dropped: Sequence[str]) -> set[int]:
    """The branches that match these names or patterns, with all below them."""

    def matching(patterns: Iterable[str]) -> set[int]:
        found: set[int] = set()
        for pattern in patterns:
            some = set(tree.indices(pattern, None, None, recursive=True))
            if not some:
                some = {tree[pattern].number}  # or an error with the nearest names
            found |= some | {below for index in some for below in outline.below(index)}
        return found

    kept = set(range(len(outline.paths))) if chosen is None else matching(chosen)
    return kept - matching(dropped)


class _Maker:
    """Makes fields of branches."""

    def __init__(self, outline: Outline, kept: set[int]) -> None:
        self._outline = outline
        self._kept = kept
        # By owner: names of fields that are taken, and names of branches.
        self._taken: dict[int | None, set[str]] = {}
        self._reserved: dict[int | None, set[str]] = {}
        self.renamed: list[RenamedBranch] = []

    def field(self, index: int, prefix: str, owner: int | None) -> Field | None:
        """The field of a branch; None if nothing of it is kept."""
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
        return Members(name, tuple(members), is_list=outline.kinds[index] == "data")

    def _own(self, index: int, prefix: str) -> str:
        return DIMENSIONS.sub("", self._outline.names[index].removeprefix(prefix)).rstrip(".")

    def _name(self, index: int, prefix: str, owner: int | None) -> str:
        """The name of a field, which has no dots, spaces or dimensions, and differs from the other names there."""
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


def _collected(tree: Any, outline: Outline, fields: Sequence[Field], made: _Maker) -> FieldPlan:
    """Makes a collection of the arrays of numbers that have the same counter."""
    by_counter: dict[int, list[Leaf]] = {}
    empty = tree.arrays([field.path for field in fields if isinstance(field, Leaf)] or None, entry_stop=0)
    for field in fields:
        if isinstance(field, Leaf):
            counter = outline.counts[outline.index_by_path[field.path]]
            layout = empty[field.path].layout if field.path in empty.fields else None
            if counter is not None and layout is not None and layout.is_list and _is_flat(layout.content):
                by_counter.setdefault(counter, []).append(field)
    collections: dict[str, Members] = {}
    shown: list[ShownField] = []
    gone: set[str] = set()
    for number, (counter, members) in enumerate(by_counter.items()):
        name = f"{IMPORTED}{number}"
        collections[name] = Members(name, tuple(members), is_list=True)
        shown += [ShownField(member.name, name, member.name) for member in members]
        gone |= {member.path for member in members}
        own = next((one for one in fields if isinstance(one, Leaf) and one.path == outline.paths[counter]), None)
        if own is not None:
            shown.append(ShownField(own.name, name, None))
            gone.add(own.path)
    rest = [field for field in fields if not (isinstance(field, Leaf) and field.path in gone)]
    return FieldPlan((*rest, *collections.values()), tuple(shown), tuple(made.renamed))


def _is_flat(layout: ak.contents.Content) -> bool:
    return bool(layout.is_numpy and layout.data.ndim == 1)
