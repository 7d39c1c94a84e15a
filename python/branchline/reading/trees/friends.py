"""What a TTree stores besides its branches: aliases, an index, and the trees that are its friends."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import awkward as ak
import numpy as np

from branchline.errors import MissingFileError, NoSuchKeyError, UnsupportedBranchError
from branchline.reading.request import ReadRequest
from branchline.reading.trees.selection import Selector
from branchline.reading.trees.tree_reader import read

if TYPE_CHECKING:
    from branchline.reading.trees.handles import TreeHandle


class StoredLinks:
    """The aliases, index and friends of a tree, read at their first use; most trees have none."""

    def __init__(self, tree: TreeHandle) -> None:
        self._tree = tree

    @cached_property
    def _record(self) -> Any:
        return self._tree.file.members_of_tree(self._tree.object_path)

    def _objects(self, member: str) -> list[Any]:
        found = self._record.raw(member) if member in self._record else None
        return [] if found is None else [one for one in found.raw("objects") if one is not None and one.unread is None]

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Formulas of ROOT by their names (TTree::SetAlias)."""
        return {one.raw("fName"): one.raw("fTitle") for one in self._objects("fAliases")}

    @cached_property
    def index(self) -> Index | None:
        """Its index; None if it has none (TTree::BuildIndex). Raises UnsupportedBranchError for one of another kind."""
        index = self._record.raw("fTreeIndex") if "fTreeIndex" in self._record else None
        if index is None:
            return None
        if index.unread is not None or "fIndex" not in index:
            what = f"the index of tree {self._tree.path} is a {index.classname}, which is not read"
            raise UnsupportedBranchError(f"{what}: {index.unread}", path=self._tree.file_path)
        keys = _pairs(index.raw("fIndexValues"), index.raw("fIndexValuesMinor"))
        return Index((index.raw("fMajorName"), index.raw("fMinorName")), keys, np.asarray(index.raw("fIndex")))

    @cached_property
    def friends(self) -> dict[str, Friend]:
        """Its friends by the names under which expressions find them."""
        friends: dict[str, Friend] = {}
        for element in self._objects("fFriends"):
            friend = Friend(self._tree, element.raw("fName"), element.raw("fTreeName"), element.raw("fTitle"))
            friends.setdefault(friend.name, friend)
        return friends


@dataclass(frozen=True)
class Index:
    """The index of a tree: the ``formulas`` of its two numbers, pairs of these in order, the entries that have them."""

    formulas: tuple[str, str]
    keys: Any
    entries: Any

    def find(self, wanted: Any) -> Any:
        """The entries with these pairs of numbers, -1 for those that no entry has."""
        if not len(self.keys):
            return np.full(len(wanted), -1)
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[places] == wanted, self.entries[places], -1)


class Friend:
    """A tree that is read together with a main tree: by its index if it has one, else entry by entry.

    Where it has no entry for one of the main tree, its values are None. ``file_path`` is as the file has it, empty for
    the same file.

        >>> tree.friends["weights"].tree["w"].array()
    """

    def __init__(self, main: TreeHandle, name: str, tree_name: str, file_path: str) -> None:
        self.name = name
        self.tree_name = tree_name or name
        self.file_path = file_path
        self._main = main

    def __repr__(self) -> str:
        return f"<Friend {self.name!r}: tree {self.tree_name} of {self.file_path or self._main.file_path}>"

    @cached_property
    def tree(self) -> TreeHandle:
        """The tree. Raises MissingFileError, NoSuchKeyError and what else opening raises."""
        file = self._main.file if self._is_in_same_file() else self._main.file.another(self._place())
        try:
            return file.tree(self.tree_name)
        except NoSuchKeyError as error:
            what = f"tree {self._main.path} has a friend {self.name}, which is not there: {error.what}"
            raise NoSuchKeyError(what, path=file.path, hint=error.hint) from None

    def _is_in_same_file(self) -> bool:
        return not self.file_path or os.path.realpath(self.file_path) == os.path.realpath(self._main.file_path)

    def _place(self) -> str:
        """Where its file is: as it is written, from the current directory, or in the folder of the main file."""
        in_folder = os.path.join(os.path.dirname(self._main.file_path), self.file_path)
        for place in (self.file_path, in_folder):
            if "://" in place or os.path.exists(place):
                return place
        what = f"tree {self._main.path} of {self._main.file_path} has a friend {self.name}, whose file is not there"
        hint = f"it is looked for from the current directory, and as {in_folder}"
        raise MissingFileError(what, path=self.file_path, hint=hint)

    @cached_property
    def _entries(self) -> Any | None:
        """For each entry of the main tree that of this one, -1 where it has none; None if they are the same numbers."""
        index = self.tree.index
        return None if index is None else index.find(_pairs(*_numbers(self._main, index.formulas)))

    def find_path(self, name: str) -> str | None:
        """The path of the branch that a name means; None if there is none. Raises NoSuchKeyError if it means two."""
        index = self.tree.find(name)
        return None if index is None else self.tree.outline.paths[index]

    def keys(self) -> list[str]:
        """Paths of its branches."""
        return self.tree.keys()

    def layout(self, path: str, start: int, count: int) -> ak.contents.Content:
        """The column of a branch for a range of entries of the main tree."""
        if self._entries is None:
            stop = min(start + count, self.tree.entries_count)
            column = self.tree[path].array(None, min(start, stop), stop)
            if len(column) == count:
                return column.layout
            rows = np.where(np.arange(count) < len(column), np.arange(count), -1)
        else:
            rows = self._entries[start : start + count]
            there = rows[rows >= 0]
            first, last = (int(there.min()), int(there.max()) + 1) if len(there) else (0, 0)
            column = self.tree[path].array(None, first, last)
            rows = np.where(rows >= 0, rows - first, -1)
            if len(there) == count:
                return ak.to_packed(column[rows], highlevel=False)
        option = ak.contents.IndexedOptionArray.simplified(ak.index.Index64(rows), column.layout)
        return ak.to_packed(option, highlevel=False) if len(column) else option


def _numbers(tree: TreeHandle, names: tuple[str, str]) -> list[Any]:
    """The two numbers of each entry, whole ones as TTreeIndex takes them."""
    made = []
    for name in names:
        if name.strip().removeprefix("-").isdecimal():
            made.append(np.full(tree.entries_count, int(name)))
        else:
            values = read(tree, Selector(tree).formula(name), ReadRequest()).single()
            made.append(np.asarray(values).astype("i8"))
    return made


def _pairs(major: Any, minor: Any) -> Any:
    """Two columns of numbers as one that is compared like pairs."""
    pairs = np.empty(len(major), dtype=[("major", "i8"), ("minor", "i8")])
    pairs["major"], pairs["minor"] = major, minor
    return pairs
