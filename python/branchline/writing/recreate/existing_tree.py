"""Trees of a file that is updated: they are read as before, and get entries, branches and fields."""

from __future__ import annotations

from typing import Any, Protocol

import awkward as ak

from branchline._core import WritableFile as WrittenFile
from branchline._core import WrittenKey
from branchline.reading.trees.file import File
from branchline.reading.trees.tree import Tree
from branchline.writing.recreate.from_tree import StreamedTree
from branchline.writing.recreate.writable_tree import NewTable, WritableTree, layout_with, new_table


class TreeOwner(Protocol):
    """The part of `WritableFile` that its trees use; a protocol, because `writable_file` imports this module."""

    @property
    def file_path(self) -> str:
        """The path of the file."""
        ...

    @property
    def codec(self) -> str:
        """The codec of new branches."""
        ...

    def written(self) -> WrittenFile:
        """The file as the engine has it."""
        ...

    def remember(self, path: str, tree: WritableTree) -> None:
        """Keeps a tree that is being filled."""
        ...

    def remembered(self, path: str) -> object:
        """The tree of this path that is being filled, if there is one."""
        ...


class ExistingTree(Tree):
    """A tree that existed before the file was updated. Reading returns the entries that it had when it was opened.
    `extend`, `add_branches` and `add_fields` add to it without moving its baskets or pages.
    """

    def __init__(self, tree: Tree, opened: File, owner: TreeOwner) -> None:
        super().__init__(tree.shape, opened, tree._cycle)
        self._opened = opened
        self._owner = owner

    @property
    def num_entries(self) -> int:
        """The number of entries, including added ones."""
        added = self._owner.remembered(self.path)
        return added.num_entries if isinstance(added, WritableTree) else self.entries_count

    def extend(self, values: Any, *, accept_new_fields: bool = False) -> None:
        """Add entries, as `WritableTree.extend` does. Raises UnsupportedBranchError if Branchline cannot write a
        branch of the tree, for example a branch of objects.
        """
        self._writable().extend(values, accept_new_fields=accept_new_fields)

    def add_branches(self, values: Any) -> None:
        """Add branches with values for all entries, as `WritableTree.add_branches` does."""
        self._writable().add_branches(values)

    def add_fields(self, types: Any) -> None:
        """Add fields that are 0 or empty in all entries, as `WritableTree.add_fields` does."""
        self._writable().add_fields(types)

    def _writable(self) -> WritableTree:
        known = self._owner.remembered(self.path)
        if isinstance(known, WritableTree):
            return known
        given = StreamedTree.of(self)
        is_ntuple = self.outline.nests
        codec = self._owner.codec
        if is_ntuple:
            # Types come from the schema, because empty arrays may lose them.
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


def object_in_file(owner: TreeOwner, path: str, key: WrittenKey) -> Any:
    """Read an object from the file at ``path``. A tree that is the newest cycle of its name can be extended."""
    opened = File(path)
    found = opened[f"{key.path};{key.cycle}"]
    newest = [one.cycle for one in owner.written().keys() if one.path == key.path][-1]
    return ExistingTree(found, opened, owner) if isinstance(found, Tree) and key.cycle == newest else found
