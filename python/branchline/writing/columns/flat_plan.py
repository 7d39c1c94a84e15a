"""Plans flat columns from the branches of a tree: the columns' names, and the members that are left out.

A column has the name of its branch and of the members that lead to it, joined by underscores, whether ROOT has split
the branch or not. Members of base classes have no name of the base class, unless they need it to differ from others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import awkward as ak
import numpy as np

from branchline.errors import BranchlineError, NoSuchKeyError, OptionError, UnsupportedBranchError
from branchline.reading.arrays.nesting import IMPORTED, short_name
from branchline.reading.expressions.name_filters import name_filter, near_names_hint
from branchline.reading.trees.file import File
from branchline.writing.columns.columns import lists_of
from branchline.writing.columns.fields import (
    DIMENSIONS,
    NOT_IN_NAMES,
    Field,
    FieldPlan,
    PlanChanged,
    RecordField,
    RenamedBranch,
    ShownField,
    check_readable,
    matching_branches,
)
from branchline.writing.columns.flat_columns import (
    NULLS,
    FlatMember,
    NullElements,
    changes_type,
    flat_values,
    is_fixed,
    is_integer,
    joined_type,
    members_of,
)
from branchline.writing.columns.output_file import Kind

if TYPE_CHECKING:
    from branchline.reading.trees.tree import Tree

SEPARATOR = "_"
# Matches what cannot be part of a C++ name in the name of a member.
NOT_IN_MEMBERS = re.compile(r"::|[^\w]")
#: Approximate size of the first values, which show the classes in branches whose type changes.
FIRST_VALUES = "10 MB"


@dataclass(frozen=True)
class FlatColumn:
    """A column with the values of a branch, or of a member of its objects.

    ``counter`` is the name of the column with the number of elements per entry, or None. ``is_renamed`` means that a
    branch of numbers or strings could not keep its name.
    """

    name: str
    path: str
    steps: tuple[str, ...]
    sample: ak.contents.Content = field(repr=False, compare=False)
    counter: str | None
    is_renamed: bool

    def paths(self) -> Iterator[str]:
        """Yield the path of the branch that the column is made from."""
        yield self.path

    def layout(self, chunk: Mapping[str, ak.contents.Content]) -> ak.contents.Content:
        """Return the values of the column in ``chunk``. Raises NullElements."""
        return flat_values(chunk[self.path], self.steps, self.sample)

    def misses_elements(self, chunk: Mapping[str, ak.contents.Content]) -> bool:
        """Whether elements of the column's collection are missing in ``chunk``."""
        try:
            self.layout(chunk)
        except NullElements:
            return True
        return False

    @property
    def origin(self) -> str:
        """The branch and the member."""
        return ".".join((self.path, *self.steps))


@dataclass(frozen=True)
class FlatPlan(FieldPlan):
    """The flat columns of an output file, and the names of members without a flat form by reason.

    ``counting`` are branches that become counters: they must have the numbers of elements. ``changing`` are branches
    whose types only values show.
    """

    flat: tuple[FlatColumn, ...] = ()
    left_out: tuple[tuple[str, tuple[str, ...]], ...] = ()
    counting: tuple[FlatColumn, ...] = ()
    changing: tuple[str, ...] = ()
    planner: FlatPlanner | None = field(default=None, repr=False, compare=False)

    def paths(self) -> list[str]:
        """Return the branches to read."""
        return list(dict.fromkeys((*super().paths(), *(one.path for one in self.counting), *self.changing)))

    def layouts(self, chunk: ak.Array) -> list[ak.contents.Content]:
        """Return the values of all fields in a chunk. Raises PlanChanged if the chunk has other types than planned."""
        with self._checked(chunk):
            return super().layouts(chunk)

    def values(self, chunk: ak.Array) -> dict[str, ak.contents.Content]:
        """Return the values of each column in a chunk, by name. Raises PlanChanged."""
        with self._checked(chunk):
            by_path = {name: chunk[name].layout for name in chunk.fields}
            return {column.name: column.layout(by_path) for column in self.flat}

    def names(self) -> set[str]:
        """Return the names of all columns and counters."""
        counters = {column.counter for column in self.flat if column.counter is not None}
        return {column.name for column in self.flat} | counters

    @contextmanager
    def _checked(self, chunk: ak.Array) -> Iterator[None]:
        assert self.planner is not None
        by_path = {name: chunk[name].layout for name in chunk.fields}
        known = {path: self.planner.types[path] for path in self.changing}
        others = [path for path, one in known.items() if by_path[path].form.type != one.form.type]
        types = {path: joined_type(known[path], by_path[path]) for path in others}
        if any(one.form.type != known[path].form.type for path, one in types.items()):
            raise PlanChanged(replace(self.planner, types=self.planner.types | types).plan())
        try:
            for counter in self.counting:
                counted = next(column for column in self.flat if column.counter == counter.name)
                lengths = np.diff(lists_of(counted.layout(by_path)).offsets.data)
                if not np.array_equal(counter.layout(by_path).data, lengths):
                    what = f"{counter.path} does not have the numbers of elements of {counted.name}"
                    hint = f"leave it out, so that a counter can have its name: --drop '{counter.path}'"
                    raise UnsupportedBranchError(what, hint=hint)
            yield
        except NullElements:
            # Leave out all such columns at once, since each change of the plan restarts the conversion.
            nulls = {(column.path, column.steps) for column in self.flat if column.misses_elements(by_path)}
            raise PlanChanged(replace(self.planner, nulls=self.planner.nulls | nulls).plan()) from None


@dataclass(frozen=True)
class _Member:
    """A member of the values of a branch, and the parts of its column's name. Base classes are marked in ``is_base``.

    ``collection`` is the number of these parts that name the member's outermost list; None without a list. ``list_of``
    identifies this list by its branch and the path to it within the branch's values.
    """

    index: int
    found: FlatMember
    parts: tuple[str, ...]
    is_base: tuple[bool, ...]
    collection: int | None
    list_of: tuple[int, tuple[str, ...]]

    def name(self, *, with_bases: bool, stop: int | None = None) -> str:
        """Return the name of the column, or the first parts of the name."""
        named = zip(self.parts[:stop], self.is_base[:stop], strict=True)
        return SEPARATOR.join(part for part, is_base in named if with_bases or not is_base)


@dataclass(frozen=True)
class FlatPlanner:
    """Plans the flat columns of a tree.

    ``types`` are empty layouts of the branches whose types only values show. ``nulls`` are the branches and steps of
    members with missing elements.
    """

    tree: Tree
    kind: Kind
    chosen: tuple[str, ...] | None
    dropped: tuple[str, ...]
    types: dict[str, ak.contents.Content]
    nulls: frozenset[tuple[str, tuple[str, ...]]] = frozenset()

    @classmethod
    def of(cls, tree: Tree, chosen: Sequence[str] | None, dropped: Sequence[str], kind: Kind) -> FlatPlanner:
        """Return the planner for a tree, with the types that its first values show."""
        outline = tree.outline
        paths = [path for path, kind in zip(outline.paths, outline.kinds, strict=True) if kind == "data"]
        tree.shape.learn_types(paths)
        changing = [path for path in paths if changes_type(tree.shape.empty(path))]
        types = {path: joined_type(tree.shape.empty(path), tree.shape.empty(path)) for path in changing}
        gone = {index for name in dropped for index in matching_branches(tree, name)}
        read = [path for path in changing if outline.index_by_path[path] not in gone]
        for chunk in tree.iterate(read, step_size=FIRST_VALUES) if read else ():
            types |= {path: joined_type(types[path], chunk[path].layout) for path in read}
            break
        return cls(tree, kind, None if chosen is None else tuple(chosen), tuple(dropped), types)

    def plan(self) -> FlatPlan:
        """Return the plan. Raises NoSuchKeyError, UnsupportedBranchError, and OptionError for duplicate names."""
        members = self._kept(list(self._members()))
        left_out: dict[str, list[str]] = {}
        with_columns: list[_Member] = []
        for one in members:
            is_null = (self.tree.outline.paths[one.index], one.found.steps) in self.nulls
            if one.found.sample is not None and not is_null:
                with_columns.append(one)
            else:
                left_out.setdefault(NULLS if is_null else one.found.reason, []).append(one.name(with_bases=True))
        columns, counting = self._columns(with_columns)
        if not columns:
            without = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in left_out.items())
            raise BranchlineError("no column is left", path=self.tree.file_path, hint=without or None)
        fields, shown = _collected(columns) if self.kind == "rntuple" else (columns, [])
        paths = self.tree.outline.paths
        return FlatPlan(
            tuple(fields),
            tuple(shown),
            tuple(RenamedBranch(one.path, one.name) for one in columns if one.is_renamed),
            flat=tuple(columns),
            left_out=tuple((reason, tuple(names)) for reason, names in left_out.items()),
            counting=tuple(counting),
            changing=tuple(dict.fromkeys(paths[one.index] for one in members if paths[one.index] in self.types)),
            planner=self,
        )

    def _members(self) -> Iterator[_Member]:
        """Yield the members of all readable branches."""
        outline = self.tree.outline
        indices: Iterable[int] = range(len(outline.paths))
        counting = set(outline.counts)
        if outline.nests:
            # The fields of an RNTuple are records, which contain their sub-fields. Members of imported collections are
            # also fields.
            tops = {outline.names[index]: index for index in outline.children(None)}
            indices = [
                index
                for name, index in tops.items()
                if not name.startswith(IMPORTED)
                or any(outline.names[one] not in tops for one in outline.children(index))
            ]
        for index in indices:
            if outline.kinds[index] != "data" or (not outline.nests and index in counting and outline.children(index)):
                continue  # a collection, whose members are in its sub-branches
            path = outline.paths[index]
            parts = list(self._parts(index))
            owner = outline.parents[index]
            while owner is not None and owner not in counting:
                owner = outline.parents[owner]
            layout = self.types[path] if path in self.types else self.tree.shape.empty(path)
            for found in members_of(layout, is_split=owner is not None, is_top=outline.parents[index] is None):
                names = [*(part for part, _ in parts), *(NOT_IN_MEMBERS.sub(SEPARATOR, name) for name in found.names)]
                collection, list_of = None, (index, found.steps[: found.depth])
                if found.depth is not None and owner is not None:
                    collection, list_of = len(list(self._parts(owner))), (owner, ())
                elif found.depth is not None:
                    collection = len(parts) + found.depth
                is_base = (*(is_base for _, is_base in parts), *(False for _ in found.steps))
                yield _Member(index, found, tuple(names), is_base, collection, list_of)

    def _parts(self, index: int) -> Iterator[tuple[str, bool]]:
        """Yield the parts of the name of a branch, and whether each is the name of a base class."""
        outline = self.tree.outline
        parent = outline.parents[index]
        if parent is None:
            name = DIMENSIONS.sub("", outline.names[index]).rstrip(".")
            yield NOT_IN_NAMES.sub(SEPARATOR, name) or SEPARATOR, False
            return
        yield from self._parts(parent)
        parts = [part for part in short_name(outline.names[index], outline.names[parent]).split(".") if part]
        for place, part in enumerate(parts):
            is_base = place + 1 == len(parts) and part in self._bases(index)
            yield NOT_IN_MEMBERS.sub(SEPARATOR, part), is_base

    def _bases(self, index: int) -> list[str]:
        """Return the classes that a branch may belong to as one of their base classes."""
        file, class_name = self.tree.file, self.tree.shape.facts_of(index).typename
        # The engine's list does not contain TObject, whose members it reads separately.
        return ["TObject", *(file._core.lineage(class_name) if isinstance(file, File) else ())]

    def _kept(self, members: list[_Member]) -> list[_Member]:
        """Return the members of branches, or with the names of columns, that are chosen and not dropped."""
        outline = self.tree.outline

        def matching(patterns: Iterable[str]) -> tuple[set[int], set[int], set[int]]:
            """Return the matching branches, the positions of matching members, and the positions of branches whose
            values may show further matching members.
            """
            branches, found, later = set[int](), set[int](), set[int]()
            for pattern in patterns:
                # The name of a branch stands for the branch, even if a column has the same name.
                test = None if pattern in outline.index_by_path else name_filter(pattern)
                of_branches = matching_branches(self.tree, pattern)
                paths = {outline.paths[index] for index in of_branches}
                own = {
                    place
                    for place, one in enumerate(members)
                    if self._is_below(one, paths) or (test and any(test(one.name(with_bases=b)) for b in (False, True)))
                }
                may_match = {
                    place
                    for place, one in enumerate(members)
                    if one.found.sample is None and pattern.startswith(one.name(with_bases=False) + SEPARATOR)
                }
                later |= may_match
                if not own and not of_branches and not may_match:
                    names = [*self.tree.keys(), *(one.name(with_bases=False) for one in members)]
                    hint = near_names_hint(pattern, names)
                    raise NoSuchKeyError(self.tree.no_such_branch(pattern), path=self.tree.file_path, hint=hint)
                branches |= of_branches
                found |= own
            return branches, found, later

        branches, places, later = set(range(len(outline.paths))), set(range(len(members))), set[int]()
        if self.chosen is not None:
            branches, places, later = matching(self.chosen)
        without, gone, _ = matching(self.dropped)
        check_readable(self.tree, branches - without)
        return [one for place, one in enumerate(members) if place in (places | later) - gone]

    def _is_below(self, member: _Member, paths: set[str]) -> bool:
        """Return whether a member belongs to one of these branches, or to one of these fields of an RNTuple."""
        path, steps = self.tree.outline.paths[member.index], member.found.steps
        return any(".".join((path, *steps[:count])) in paths for count in range(len(steps) + 1))

    def _columns(self, members: list[_Member]) -> tuple[list[FlatColumn], list[FlatColumn]]:
        """Return the columns of members, and the columns that become their counters.

        Raises OptionError for columns of the same name.
        """
        outline = self.tree.outline
        times = Counter(one.name(with_bases=False) for one in members)
        columns: list[FlatColumn] = []
        # The list that each counter counts.
        lists: dict[str, tuple[int, tuple[str, ...]]] = {}
        names = _Names(self.tree.file_path)
        for one in members:
            with_bases = times[one.name(with_bases=False)] > 1
            assert one.found.sample is not None
            is_top = outline.parents[one.index] is None and not one.found.steps
            known = outline.counts[one.index] if is_top else None
            counter = None
            if one.collection is not None and self._is_counted(one.found, has_counter=known is not None):
                list_of = one.list_of if known is None else (known, ())
                counter = f"n{one.name(with_bases=with_bases, stop=one.collection)}"
                if known is not None:
                    ((counter, _),) = self._parts(known)
                path = outline.paths[list_of[0]]
                if lists.setdefault(counter, list_of) != list_of or counter not in names:
                    names.add(counter, f"the number of elements of {'.'.join((path, *list_of[1]))}", path)
            name, path = one.name(with_bases=with_bases), outline.paths[one.index]
            columns.append(FlatColumn(name, path, one.found.steps, one.found.sample, counter, is_top and name != path))
        counting = [one for one in columns if one.name in lists and not one.steps and is_integer(one.sample)]
        columns = [one for one in columns if one not in counting]
        # Counters of the input have the numbers of elements anyway.
        counting = [one for one in counting if outline.index_by_path[one.path] not in outline.counts]
        for column in columns:
            names.add(column.name, column.origin, column.path)
        names.check()
        return columns, counting

    def _is_counted(self, found: FlatMember, *, has_counter: bool) -> bool:
        """Return whether a column has a counter. In a TTree, all lists of numbers or of fixed-size arrays have one; in
        an RNTuple, lists of numbers that are members of objects or already had a counter.
        """
        assert found.sample is not None
        content = found.sample.content
        if self.kind == "rntuple":
            return bool(content.is_numpy and content.data.ndim == 1) and (found.of_objects or has_counter)
        return self.kind == "ttree" and is_fixed(content)


class _Names:
    """Finds columns and counters of the same name."""

    def __init__(self, file_path: str) -> None:
        self._file_path = file_path
        self._origins: dict[str, str] = {}
        self._twice: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._origins

    def add(self, name: str, origin: str, path: str) -> None:
        """Add a column or counter, with a description of its origin and the path of its branch."""
        if name in self._origins:
            self._twice[f"{name}: {self._origins[name]}, and {origin}"] = path
        self._origins.setdefault(name, origin)

    def check(self) -> None:
        """Raise OptionError if a name was added twice."""
        if self._twice:
            hint = f"leave one of them out: --drop '{','.join(dict.fromkeys(self._twice.values()))}'"
            what = f"several columns would be named {'; '.join(self._twice)}"
            raise OptionError(what, path=self._file_path, hint=hint)


def _collected(columns: Sequence[FlatColumn]) -> tuple[list[Field], list[ShownField]]:
    """Return the fields of an RNTuple, with one collection for each counter, and the projected fields."""
    fields: list[Field] = [column for column in columns if column.counter is None]
    shown: list[ShownField] = []
    for number, counter in enumerate(dict.fromkeys(one.counter for one in columns if one.counter is not None)):
        members = tuple(column for column in columns if column.counter == counter)
        name = f"{IMPORTED}{number}"
        fields.append(RecordField(name, members, is_list=True))
        shown += [ShownField(member.name, name, member.name) for member in members]
        shown.append(ShownField(counter, name, None))
    return fields, shown
