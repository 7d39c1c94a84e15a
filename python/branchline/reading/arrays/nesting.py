"""The branches of a tree, and how they combine into records.

The `Shape` of a tree is its metadata: the hierarchy of branches (its `Outline`), their types, and their groups. A Group
is a record that is formed from one of these:

- a branch with sub-branches: ``Tracks`` with ``Tracks/Tracks.fP[5]`` has a member ``fP``;
- branches with the same counter and a common prefix: ``Muon_pt`` and ``Muon_eta``, counted by
  ``nMuon``, are members ``pt`` and ``eta`` of ``Muon``, as in NanoAOD;
- two or more other branches with a common prefix up to the first ``_`` or ``.``: ``MET_pt`` and ``MET_phi``.

In the first two cases, all members have the same number of elements in an event. They become one list of records, and
the counter is not a separate field. Groups depend only on branch names and counters, never on values, so every chunk of
every file of a dataset has the same fields.
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

# Kinds of branches that are left out unless they are requested by name.
LEFT_OUT = ("unreadable", "short")
# Maximum number of branch sets whose groups are cached. The files of a dataset usually share one set of branches.
PLANS_KEPT = 16
# Characters that separate the group's name from the member's name in a branch name.
SEPARATORS = "_."
# Prefix of the collections that RNTupleImporter, ROOT's importer of TTrees into RNTuples, creates.
IMPORTED = "_collection"


class Shape:
    """The metadata of a tree: its branches, their types, and their groups.

    The metadata is loaded lazily and shared by all chunks of the tree. ``core`` is the engine's handle of the tree.
    """

    def __init__(self, core: _core.Tree) -> None:
        self.core = core
        self._facts: dict[int, BranchFacts] = {}
        self._empty: dict[str, ak.contents.Content] = {}

    @cached_property
    def outline(self) -> Outline:
        """The hierarchy of the branches."""
        return Outline(self.core)

    @cached_property
    def readable(self) -> list[str]:
        """Paths of the readable branches."""
        return self.core.readable()

    @cached_property
    def readable_set(self) -> frozenset[str]:
        """Paths of the readable branches, as a set."""
        return frozenset(self.readable)

    @cached_property
    def groups(self) -> dict[str, str | Group]:
        """All readable branches, as groups and single branches by name."""
        return groups_of(self.outline, self.readable)

    def group(self, name: str) -> Group | None:
        """The group with this name; None if the name refers to a single branch or does not exist."""
        alone = self.outline.index_by_path.get(name)
        if alone is not None and not self.outline.children(alone):
            return None
        group = self.groups.get(name)
        return group if isinstance(group, Group) else None

    def find(self, name: str) -> str:
        """Resolve a name to the path of a branch. Raises NoSuchKeyError."""
        return self.facts_of(self.core.find(name)).path

    @property
    def title(self) -> str:
        """The title of the tree."""
        return self.core.title

    def facts_of(self, index: int) -> BranchFacts:
        """The metadata of the branch with this index."""
        if index not in self._facts:
            self._facts[index] = self.core.branch(index)
        return self._facts[index]

    def facts(self) -> dict[str, BranchFacts]:
        """The metadata of all branches by path."""
        return {path: self.facts_of(index) for path, index in self.outline.index_by_path.items()}

    def empty(self, path: str) -> ak.contents.Content:
        """Return a branch's layout with zero entries, which defines the branch's type."""
        if path not in self._empty:
            self._empty[path] = layout_of(self.core.empty_columns([path])[0])
        return self._empty[path]

    def learn_types(self, paths: list[str]) -> None:
        """Load and cache the types of many branches in one call."""
        unknown = [path for path in paths if path not in self._empty]
        self._empty |= dict(zip(unknown, map(layout_of, self.core.empty_columns(unknown)), strict=True))


class Outline:
    """The hierarchy of a tree's branches. Lists have one element per branch, with parents before their children.

    - ``paths`` are unique; ``names`` may occur several times.
    - ``kinds`` are ``data``, ``group`` (has only sub-branches), ``short`` (has fewer entries than the tree) and
      ``unreadable``.
    - ``counts`` contains the index of each branch's counter, which stores the number of elements per entry, or None.
    - ``separator`` joins the names in a path.
    - ``nests`` means that the data of a branch include the data of its sub-branches.
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
        """Return the direct children of a branch; for None, the top-level branches."""
        return self._children.get(index, [])

    def below(self, index: int | None) -> Iterator[int]:
        """Yield all descendants of a branch; for None, all branches of the tree."""
        if index is None:
            yield from range(len(self.paths))
            return
        for child in self.children(index):
            yield child
            yield from self.below(child)

    def is_below(self, index: int, ancestor: int | None) -> bool:
        """Whether a branch is a descendant of ``ancestor``; None is the ancestor of all branches."""
        parent: int | None = index
        while parent is not None and parent != ancestor:
            parent = self.parents[parent]
        return parent == ancestor and index != ancestor

    def depth(self, index: int) -> int:
        """Number of ancestors of a branch."""
        parent = self.parents[index]
        return 0 if parent is None else 1 + self.depth(parent)

    def chain(self, index: int | None) -> str:
        """Return the joined names of the branch's ancestors and the branch. Unlike a path, it is not always unique."""
        names = []
        while index is not None:
            names.append(self.names[index])
            index = self.parents[index]
        return self.separator.join(reversed(names))

    def path_from(self, index: int, ancestor: int | None) -> str:
        """The path of a branch relative to an ancestor."""
        if ancestor is None:
            return self.paths[index]
        return self.paths[index][len(self.chain(ancestor)) + 1 :]

    def data_below(self, index: int) -> list[int]:
        """The readable descendants of a branch."""
        return [one for one in self.below(index) if self.kinds[one] == "data"]


@dataclass
class Group:
    """Branches that are combined into records: branch paths and nested groups by short name.

    ``counter`` is the path of the branch with the number of elements per entry; None for one record per entry.
    """

    members: dict[str, str | Group] = field(default_factory=dict)
    counter: str | None = None

    def paths(self) -> Iterator[str]:
        """Yield the paths of all branches in the group and in nested groups."""
        for member in self.members.values():
            yield from _paths_in(member)


def groups_of(outline: Outline, paths: Iterable[str]) -> dict[str, str | Group]:
    """Group the branches at ``paths``; return the groups and the remaining branches by name."""
    wanted = frozenset(outline.index_by_path[path] for path in paths)
    facts: tuple[Sequence[Any], ...] = (outline.paths, outline.names, outline.parents, outline.kinds, outline.counts)
    if outline.nests:
        # The fields of an RNTuple are already records. Treat each field as a top-level branch with its path as name.
        counts = imported_counts(outline)
        nothing_else = {index for index in wanted if outline.paths[index].startswith(IMPORTED)}
        wanted = wanted - nothing_else if counts else wanted
        facts = (outline.paths, outline.paths, [None] * len(outline.paths), outline.kinds, counts or outline.counts)
    return _plan(wanted, *[tuple(fact) for fact in facts])


def imported_counts(outline: Outline) -> list[int | None]:
    """Return the counter of each field of an RNTuple that was imported from a TTree with counted arrays.

    ROOT's importer (RNTupleImporter) puts counted arrays into collections ``_collection0``, ``_collection1``, ..., and
    adds projected fields with the original names and counters. Returns an empty list without imported collections.
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
    """Assigns the branches of a tree to groups."""

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
        # Collect the wanted branches and all of their ancestors.
        needed = set()
        for index in self._wanted:
            above: int | None = index
            while above is not None and above not in needed:
                needed.add(above)
                above = self._parents[above]
        for index in sorted(needed):
            self._below.setdefault(self._parents[index], []).append(index)
        self._top_names = {name for name, parent in zip(self._names, self._parents, strict=True) if parent is None}

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
        """Add groups of branches with a common counter to ``fields``; return the branches without a group."""
        counted: dict[int, list[int]] = {}
        for index in leaves:
            counter = self._counts[index]
            if counter is not None:
                counted.setdefault(counter, []).append(index)
        grouped = set()
        for counter, indices in counted.items():
            # The prefix is ``Muon_`` for branches with the counter ``nMuon``; otherwise, use the common prefix.
            prefix = self._names[counter].removeprefix("n") + "_"
            names = [self._names[index] for index in indices]
            if not any(name.startswith(prefix) for name in names):
                prefix = common_prefix(names) if len(names) > 1 else ""
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
    """Return the prefix of a name up to and including the first separator.

    The prefix is empty if the name has no separator, or only at the start or end.
    """
    at = min((at for at in (name.find(separator) for separator in SEPARATORS) if at > 0), default=len(name))
    return name[: at + 1] if at + 1 < len(name) else ""


def _add(members: dict[str, str | Group], name: str, longer: str, member: str | Group) -> None:
    """Add a member under ``name``, or under the name ``longer`` if ``name`` is taken."""
    free = next((one for one in (name, longer) if one and one not in members), None)
    number = 2
    while free is None:
        free = None if f"{longer}#{number}" in members else f"{longer}#{number}"
        number += 1
    members[free] = member


def short_name(name: str, parent: str) -> str:
    """Return a name without array dimensions and without the parent's components: ``fP`` for ``Tracks.fP[5]``."""
    pieces = name.split("[")[0].rstrip(".").split(".")
    shared = 0
    for piece, other in zip(pieces[:-1], parent.rstrip(".").split("."), strict=False):
        if piece != other:
            break
        shared += 1
    return ".".join(pieces[shared:])


def elements_of(path: str, layout: ak.contents.Content) -> ak.contents.ListOffsetArray:
    """Return the lists of a counted branch, with offsets starting at 0. Raises BranchlineError for other values."""
    if not layout.is_list or layout.parameter("__array__") is not None:
        raise BranchlineError(f"{path} does not contain lists, although another branch counts its elements")
    return layout.to_ListOffsetArray64(True)


def nested_layout(group: Group, layout: Callable[[str], ak.contents.Content], entries_count: int) -> Any:
    """Combine the layouts of a group's branches into one layout. Raises BranchlineError if list lengths differ."""
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
            what = (
                f"{path} and {first} have different numbers of elements, although both are counted by {group.counter}"
            )
            raise BranchlineError(what, hint="read the branches individually, without nesting")
    count = offsets[-1]
    elements = {path: one.content[:count] for path, one in lists.items()}
    return ak.contents.ListOffsetArray(offsets, nested_layout(Group(group.members), elements.__getitem__, count))
