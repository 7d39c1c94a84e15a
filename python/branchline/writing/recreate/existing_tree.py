"""Existing trees in a file that is being written.

An `ExistingTree` is a tree of an updated file, which can be read and extended by entries, branches and fields.
A `StreamedTree` is a tree of another file that is converted to columns; the names of its counters are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import awkward as ak

from branchline._core import WritableFile as WrittenFile
from branchline._core import WrittenKey
from branchline.base.limits import STREAMED_STEP
from branchline.errors import BadFileError, UnsupportedBranchError
from branchline.reading.trees.file import File
from branchline.reading.trees.tree import Tree
from branchline.writing.columns.output_file import NewTable
from branchline.writing.recreate.values import Naming, branches_of, named_columns
from branchline.writing.recreate.writable_tree import WritableTree, layout_with, new_table


class ExistingTree(Tree):
    """A tree that existed before the file was updated. Reading returns only the entries from before the update.
    `extend`, `add_branches` and `add_fields` add data without moving the existing baskets or pages.
    """

    def __init__(self, tree: Tree, opened: File, owner: TreeOwner) -> None:
        super().__init__(tree.shape, opened, tree._cycle)
        self._opened = opened
        self._owner = owner

    @property
    def num_entries(self) -> int:
        """Number of entries, including added entries."""
        added = self._owner.remembered(self.path)
        return added.num_entries if isinstance(added, WritableTree) else self.entries_count

    def extend(self, values: object, *, accept_new_fields: bool = False) -> None:
        """Add entries, like `WritableTree.extend`.

        Raises UnsupportedBranchError if Branchline cannot write a branch of the tree, for example a branch of objects.
        """
        self._writable().extend(values, accept_new_fields=accept_new_fields)

    def add_branches(self, values: object) -> None:
        """Add branches with values for all entries, like `WritableTree.add_branches`."""
        self._writable().add_branches(values)

    def add_fields(self, types: object) -> None:
        """Add fields that are 0 or empty in all entries, like `WritableTree.add_fields`."""
        self._writable().add_fields(types)

    def _writable(self) -> WritableTree:
        known = self._owner.remembered(self.path)
        if isinstance(known, WritableTree):
            return known
        given = StreamedTree.of(self)
        is_ntuple = self.outline.nests
        codec = self._owner.codec
        if is_ntuple:
            # Take the types from the schema of the RNTuple, because empty arrays may lose their types.
            table = NewTable(self.name, self.title, layout_with(codec), [], [], [], [], {}, [])
        else:
            table = new_table(self.name, self.title, given.columns, given.naming, codec, is_ntuple=False)
        counters = dict.fromkeys(one for one in table.counters if one is not None)
        counts = {
            one: int(ak.max(self[one].array(), initial=0, mask_identity=False)) for one in counters if one in self
        }
        number = self._owner.written().resume_table(self._opened._core, self.path, table, counts)
        written = WritableTree(
            path=self.path,
            file_path=self._owner.file_path,
            classname="ROOT::RNTuple" if is_ntuple else "TTree",
            title=self.title,
            _core_file=self._owner.written(),
            _number=number,
            _columns={one: layout[:0] for one, layout in given.columns.items()},
            _naming=given.naming,
            _names=[*(given.columns if is_ntuple else table.names), *counters],
            _counters=frozenset(counters),
            _table=table,
            _file=self._owner,
            num_entries=self.entries_count,
        )
        self._owner.remember(self.path, written)
        return written


def object_in_file(owner: TreeOwner, path: str, key: WrittenKey) -> object:
    """Read an object from the file at ``path``. Returns an `ExistingTree` for the newest cycle of a tree."""
    opened = File(path)
    found = opened[f"{key.path};{key.cycle}"]
    newest = [one.cycle for one in owner.written().keys() if one.path == key.path][-1]
    return ExistingTree(found, opened, owner) if isinstance(found, Tree) and key.cycle == newest else found


class TreeOwner(Protocol):
    """The part of `WritableFile` that trees use. It is a protocol because `writable_file` imports this module."""

    @property
    def file_path(self) -> str:
        """Path of the file."""
        ...

    @property
    def codec(self) -> str:
        """Codec for new branches."""
        ...

    def written(self) -> WrittenFile:
        """Return the engine's handle of the file."""
        ...

    def remember(self, path: str, tree: WritableTree) -> None:
        """Register a tree that is being filled."""
        ...

    def remembered(self, path: str) -> object:
        """Return the tree at ``path`` that is being filled; None if there is no such tree."""
        ...


@dataclass(frozen=True)
class StreamedTree:
    """A tree whose values are read in steps. Array counters keep their names and are written with their arrays."""

    tree: Tree
    columns: dict[str, ak.contents.Content]
    naming: Naming

    @classmethod
    def of(cls, tree: Tree) -> StreamedTree:
        """Prepare a tree for reading. Branches that cannot be read are left out with a warning. Raises read errors."""
        columns = named_columns(tree.arrays(entry_stop=0))
        if tree.outline.nests:
            return cls(tree, columns, Naming())
        counters = _counters_of(tree, columns)
        left = {name: layout for name, layout in columns.items() if name not in counters.values()}
        for name in left.keys() - counters.keys():
            counters[name] = Naming().counter(name)
            # The name may be taken, for example by a branch with vector lengths, which is not an array counter.
            while counters[name] in columns:
                counters[name] += "_"
        return cls(tree, left, Naming(counter=lambda name: counters.get(name) or Naming().counter(name)))

    def steps(self) -> Iterator[ak.Array]:
        """Yield the tree's columns for all entries, in steps of bounded size."""
        for part in self.tree.iterate(step_size=STREAMED_STEP):
            yield part[list(self.columns)]


def _counters_of(tree: Tree, columns: dict[str, ak.contents.Content]) -> dict[str, str]:
    """Return the counter's name for each column that is written as arrays with a counter."""
    outline = tree.outline
    data = [index for index, kind in enumerate(outline.kinds) if kind == "data"]
    numbers = {outline.names[index]: index for index in data} | {outline.paths[index]: index for index in data}
    counters = {}
    for name, layout in columns.items():
        counter = outline.counts[numbers[name]] if name in numbers else None
        made = list(branches_of(name, layout, Naming()))
        if counter is not None and len(made) == 1 and made[0].counter is not None:
            counters[name] = outline.names[counter]
    return counters


def not_copied_error(
    tree: Tree, not_copied: BadFileError | UnsupportedBranchError, not_written: BadFileError | UnsupportedBranchError
) -> BadFileError | UnsupportedBranchError:
    """Return the error for a tree whose baskets cannot be copied and whose values cannot be written."""
    what = f"tree {tree.path} cannot be copied: {not_copied.what}"
    if not_written.what != not_copied.what:
        what += f"; its values cannot be written either: {not_written.what}"
    hint = "write the branches that can be read: file[name] = tree.arrays([...])"
    return type(not_copied)(what, path=tree.file_path, hint=hint)
