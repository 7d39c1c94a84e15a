"""Which branches a tree has, and which belong together as records: members of objects, elements of collections, names
with a common prefix.

The `Shape` of a tree is its metadata: its `Outline`, which is the branches and their parents, their types and groups.
A Group is made of

- a branch with branches below it: ``Tracks`` of ``Tracks/Tracks.fP[5]`` has a member ``fP``;
- branches whose elements the same branch counts and whose names begin alike: ``Muon_pt`` and ``Muon_eta``, counted by
  ``nMuon``, are members ``pt`` and ``eta`` of ``Muon``, as in NanoAOD;
- two or more other branches whose names begin alike up to the first ``_`` or ``.``: ``MET_pt`` and ``MET_phi``.

In the first case and the second all members have the same number of elements in an event, and come as one list of
records; the branch that counts them is not a field of its own then. All this follows from the names and counters of the
branches alone and never from values, so that every chunk of every file of a kind has the same fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import awkward as ak
import numpy as np

from branchline._core import BranchFacts
from branchline.errors import BranchlineError
from branchline.reading.arrays.layouts import layout_of, record_of
from branchline.reading.arrays.libraries import common_prefix

if TYPE_CHECKING:
    from branchline import _core

# Kinds of branches that are left out where no branches are named.
LEFT_OUT = ("unreadable", "short")
# Sets of branches whose groups are cached: the files of a dataset have the same branches.
PLANS_KEPT = 16
# Characters between the name of a group and that of a member.
SEPARATORS = "_."
# Prefix of the collections that ROOT's importer of TTrees (RNTupleImporter) makes in RNTuples.
IMPORTED = "_collection"


class Shape:
    """Metadata of a tree, looked up once for all its chunks, and only when they are wanted: its branches, their types,
    and which belong together.

    ``core`` is the engine's handle on the tree.
    """

    def __init__(self, core: _core.Tree) -> None:
        self.core = core
        self._facts: dict[int, BranchFacts] = {}
        self._empty: dict[str, ak.contents.Content] = {}

    @cached_property
    def outline(self) -> Outline:
        """Which branches there are, and which are below which."""
        return Outline(self.core)

    @cached_property
    def readable(self) -> list[str]:
        """Paths of the branches that can be read."""
        return self.core.readable()

    @cached_property
    def readable_set(self) -> frozenset[str]:
        """The same, to look into."""
        return frozenset(self.readable)

    @cached_property
    def groups(self) -> dict[str, str | Group]:
        """All that can be read, as groups and single branches by their names."""
        return groups_of(self.outline, self.readable)

    def group(self, name: str) -> Group | None:
        """The branches that belong together under a name; None if it stands for one branch, or for nothing."""
        alone = self.outline.index_by_path.get(name)
        if alone is not None and not self.outline.children(alone):
            return None
        group = self.groups.get(name)
        return group if isinstance(group, Group) else None

    def find(self, name: str) -> str:
        """The path of the branch that a name means. Raises NoSuchKeyError."""
        return self.facts_of(self.core.find(name)).path

    @property
    def title(self) -> str:
        """The title of the tree."""
        return self.core.title

    def facts_of(self, index: int) -> BranchFacts:
        """The metadata of a branch, by its number."""
        if index not in self._facts:
            self._facts[index] = self.core.branch(index)
        return self._facts[index]

    def facts(self) -> dict[str, BranchFacts]:
        """The metadata of all branches, by their paths."""
        return {path: self.facts_of(index) for path, index in self.outline.index_by_path.items()}

    def empty(self, path: str) -> ak.contents.Content:
        """The layout of a branch without entries, which has its type."""
        if path not in self._empty:
            self._empty[path] = layout_of(self.core.empty_columns([path])[0])
        return self._empty[path]

    def learn_types(self, paths: list[str]) -> None:
        """Looks up the types of many branches at once."""
        unknown = [path for path in paths if path not in self._empty]
        self._empty |= dict(zip(unknown, map(layout_of, self.core.empty_columns(unknown)), strict=True))


class Outline:
    """The branches of a tree by their indices, a parent before its children.

    ``paths`` are unique, ``names`` are the branches' own; ``kinds`` are ``data``, ``group`` (it only groups others),
    ``short`` (data of fewer entries than the tree has) and ``unreadable``; ``counts`` are the branches that say how
    many elements the entries of one have. ``separator`` stands between the names of a path. Where the tree ``nests``, a
    branch holds all that those below it hold.
    """

    def __init__(self, core: _core.Tree) -> None:
        self.paths: list[str] = core.paths()
        self.separator: str = core.separator
        self.nests: bool = core.nests
        rows = core.outline()
        self.names = [row.name for row in rows]
        self.parents = [row.parent for row in rows]
        self.kinds = [row.kind for row in rows]
        self.counts = [row.counter for row in rows]
        self.index_by_path = {path: index for index, path in enumerate(self.paths)}
        self._children: dict[int | None, list[int]] = {}
        for index, parent in enumerate(self.parents):
            self._children.setdefault(parent, []).append(index)

    def children(self, index: int | None) -> list[int]:
        """The branches right below one, or with None those at the top."""
        return self._children.get(index, [])

    def below(self, index: int | None) -> Iterator[int]:
        """All branches below one, or with None all of the tree."""
        if index is None:
            yield from range(len(self.paths))
            return
        for child in self.children(index):
            yield child
            yield from self.below(child)

    def is_below(self, index: int, ancestor: int | None) -> bool:
        """Whether a branch is below another; all are below None."""
        parent: int | None = index
        while parent is not None and parent != ancestor:
            parent = self.parents[parent]
        return parent == ancestor and index != ancestor

    def depth(self, index: int) -> int:
        """How many branches are above one."""
        parent = self.parents[index]
        return 0 if parent is None else 1 + self.depth(parent)

    def chain(self, index: int | None) -> str:
        """Names of the branches that lead to one and its own, as in a path, which two branches may share."""
        names = []
        while index is not None:
            names.append(self.names[index])
            index = self.parents[index]
        return self.separator.join(reversed(names))

    def path_from(self, index: int, ancestor: int | None) -> str:
        """The path of a branch relative to another, with which that one finds it."""
        if ancestor is None:
            return self.paths[index]
        return self.paths[index][len(self.chain(ancestor)) + 1 :]

    def data_below(self, index: int) -> list[int]:
        """The branches below a group that can be read."""
        return [one for one in self.below(index) if self.kinds[one] == "data"]


@dataclass
class Group:
    """Members by their short names: paths of branches, and groups in it. ``counter`` is the path of the branch that
    holds the number of their elements, None if the group is one record per entry.
    """

    members: dict[str, str | Group] = field(default_factory=dict)
    counter: str | None = None

    def paths(self) -> Iterator[str]:
        """All branches in it."""
        for member in self.members.values():
            yield from _paths_in(member)


def groups_of(outline: Outline, paths: Iterable[str]) -> dict[str, str | Group]:
    """Groups and single branches by their names, of the branches with these paths."""
    wanted = frozenset(outline.index_by_path[path] for path in paths)
    facts: tuple[Sequence[Any], ...] = (outline.paths, outline.names, outline.parents, outline.kinds, outline.counts)
    if outline.nests:
        # Fields come as records already; the path of a field that is read alone has the names of its parents.
        counts = imported_counts(outline)
        nothing_else = {index for index in wanted if outline.paths[index].startswith(IMPORTED)}
        wanted = wanted - nothing_else if counts else wanted
        facts = (outline.paths, outline.paths, [None] * len(outline.paths), outline.kinds, counts or outline.counts)
    return _plan(wanted, *[tuple(fact) for fact in facts])


def imported_counts(outline: Outline) -> list[int | None]:
    """For an RNTuple that was made of a TTree of arrays with counters, the fields that count others.

    ROOT's importer puts such arrays into collections ``_collection0``, ..., and repeats them under their old names with
    their counters (RNTupleImporter). Nothing if there is no such collection.
    """
    counts: list[int | None] = [None] * len(outline.paths)
    found = False
    for collection in outline.children(None):
        if not outline.names[collection].startswith(IMPORTED):
            continue
        names = [outline.names[index] for index in outline.children(collection)]
        prefix = common_prefix(names) if len(names) > 1 else _beginning(names[0]) if names else ""
        counter = outline.index_by_path.get(f"n{prefix.rstrip(SEPARATORS)}")
        members = [index for name in names if (index := outline.index_by_path.get(name)) is not None]
        if prefix and counter is not None:
            found = True
            for index in members:
                counts[index] = counter
    return counts if found else []


@lru_cache(maxsize=PLANS_KEPT)
def _plan(wanted: frozenset[int], *facts: tuple[Any, ...]) -> dict[str, str | Group]:
    return _Planner(wanted, *facts).plan()


class _Planner:
    """Sorts the branches of a tree into groups."""

    def __init__(
        self,
        wanted: frozenset[int],
        paths: Sequence[str],
        names: Sequence[str],
        parents: Sequence[int | None],
        kinds: Sequence[str],
        counts: Sequence[int | None],
    ) -> None:
        self._wanted = wanted
        self._paths = paths
        self._names = names
        self._parents = parents
        self._kinds = kinds
        self._counts = counts
        self._below: dict[int | None, list[int]] = {}
        for index in self._needed():
            self._below.setdefault(self._parents[index], []).append(index)
        self._top_names = {name for name, parent in zip(self._names, self._parents, strict=True) if parent is None}

    def _needed(self) -> list[int]:
        """The wanted branches, and those that lead to them."""
        needed = set()
        for index in self._wanted:
            above: int | None = index
            while above is not None and above not in needed:
                needed.add(above)
                above = self._parents[above]
        return sorted(needed)

    def plan(self) -> dict[str, str | Group]:
        fields: dict[str, str | Group] = {}
        rest = []
        for index in self._below.get(None, []):
            if index in self._below and "." not in self._names[index].rstrip("."):
                _add(fields, self._names[index].rstrip("."), self._names[index], self._group(index))
            else:
                rest.append(index)
        rest = self._add_counted(fields, rest)
        self._add_alike(fields, rest)
        place = {path: index for index, path in enumerate(self._paths)}
        return dict(sorted(fields.items(), key=lambda item: min(place[path] for path in _paths_in(item[1]))))

    def _group(self, index: int) -> Group:
        is_collection = self._kinds[index] == "data"
        group = Group(counter=self._paths[index] if is_collection else None)
        for child in self._below[index]:
            short = short_name(self._names[child], self._names[index])
            _add(group.members, short, self._names[child], self._member(child))
        return group

    def _add_counted(self, fields: dict[str, str | Group], leaves: list[int]) -> list[int]:
        """Makes groups of what has a counter; gives the leaves that are in none."""
        counted: dict[int, list[int]] = {}
        for index in leaves:
            counter = self._counts[index]
            if counter is not None:
                counted.setdefault(counter, []).append(index)
        grouped = set()
        for counter, indices in counted.items():
            prefix = self._prefix_of(counter, indices)
            members = [index for index in indices if prefix and self._names[index].startswith(prefix)]
            name = prefix.rstrip(SEPARATORS)
            if not members or name in fields or name in self._top_names:
                continue
            group = Group(counter=self._paths[counter])
            for index in members:
                _add(group.members, self._names[index][len(prefix) :], self._names[index], self._paths[index])
            fields[name] = group
            grouped |= {counter, *members}
        return [index for index in leaves if index not in grouped]

    def _prefix_of(self, counter: int, indices: list[int]) -> str:
        """``Muon_`` for what ``nMuon`` counts; else what all the names begin with."""
        named = self._names[counter].removeprefix("n") + "_"
        names = [self._names[index] for index in indices]
        if any(name.startswith(named) for name in names):
            return named
        return common_prefix(names) if len(names) > 1 else ""

    def _add_alike(self, fields: dict[str, str | Group], leaves: list[int]) -> None:
        alike: dict[str, list[int]] = {}
        for index in leaves:
            alike.setdefault(_beginning(self._names[index]), []).append(index)
        for beginning, indices in alike.items():
            name = beginning.rstrip(SEPARATORS)
            if not beginning or len(indices) < 2 or name in fields or name in self._top_names:
                for index in indices:
                    _add(fields, self._names[index].rstrip("."), self._paths[index], self._member(index))
                continue
            group = Group()
            for index in indices:
                short = self._names[index][len(beginning) :].rstrip(".")
                _add(group.members, short, self._names[index], self._member(index))
            fields[name] = group

    def _member(self, index: int) -> str | Group:
        return self._group(index) if index in self._below else self._paths[index]


def _paths_in(member: str | Group) -> Iterator[str]:
    return member.paths() if isinstance(member, Group) else iter((member,))


def _beginning(name: str) -> str:
    """A name up to its first separator and with it; nothing if it has none, or begins or ends with it."""
    at = min((at for at in (name.find(separator) for separator in SEPARATORS) if at > 0), default=len(name))
    return name[: at + 1] if at + 1 < len(name) else ""


def _add(members: dict[str, str | Group], name: str, longer: str, member: str | Group) -> None:
    """Adds a member under its name, or a longer one if that is taken."""
    free = next((one for one in (name, longer) if one and one not in members), None)
    number = 2
    while free is None:
        free = None if f"{longer}#{number}" in members else f"{longer}#{number}"
        number += 1
    members[free] = member


def short_name(name: str, parent: str) -> str:
    """A name without dimensions and the pieces that it shares with its parent's: ``fP`` of ``Tracks.fP[5]``."""
    pieces = name.split("[")[0].rstrip(".").split(".")
    shared = 0
    for piece, other in zip(pieces[:-1], parent.rstrip(".").split("."), strict=False):
        if piece != other:
            break
        shared += 1
    return ".".join(pieces[shared:])


def elements_of(path: str, layout: ak.contents.Content) -> ak.contents.ListOffsetArray:
    """The lists of a branch whose elements are counted, from the first on. Raises BranchlineError if it has none."""
    if not layout.is_list or layout.parameter("__array__") is not None:
        raise BranchlineError(f"{path} has no list of elements, though another branch counts them")
    return layout.to_ListOffsetArray64(True)


def nested_layout(group: Group, layout: Callable[[str], ak.contents.Content], entries_count: int) -> Any:
    """The layout of a group made of those of its branches. Raises BranchlineError if the lengths of lists differ."""
    if group.counter is None:
        contents = [
            nested_layout(member, layout, entries_count) if isinstance(member, Group) else layout(member)
            for member in group.members.values()
        ]
        return record_of(contents, list(group.members), entries_count)
    lists = {path: elements_of(path, layout(path)) for path in group.paths()}
    first, offsets = next((path, one.offsets) for path, one in lists.items())
    for path, one in lists.items():
        if not np.array_equal(one.offsets, offsets):
            what = f"{path} and {first} have different numbers of elements, though {group.counter} counts both"
            raise BranchlineError(what, hint="read the branches as they are, without nesting")
    count = offsets[-1]
    elements = {path: one.content[:count] for path, one in lists.items()}
    return ak.contents.ListOffsetArray(offsets, nested_layout(Group(group.members), elements.__getitem__, count))
