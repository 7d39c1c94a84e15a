"""Tree: a TTree or an RNTuple of a file.

A TTree may also store aliases, an index, and a list of friend trees.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import awkward as ak
import numpy as np

from branchline.errors import MissingFileError, NoSuchKeyError, UnsupportedBranchError
from branchline.reading.arrays.nesting import Outline, Shape
from branchline.reading.expressions.name_filters import near_names_hint
from branchline.reading.request import ReadRequest
from branchline.reading.sources import Source
from branchline.reading.trees.branch import Branch
from branchline.reading.trees.branches import Branches
from branchline.reading.trees.selection import Selector
from branchline.reading.trees.tree_reader import read

if TYPE_CHECKING:
    from branchline import _core
    from branchline.reading.trees.handles import DirectoryHandle, FileHandle, TreeHandle


class Tree(Branches[Branch]):
    """A TTree or RNTuple: columns of events. ``tree["branch"]`` is a Branch; ``arrays`` and ``iterate`` read several
    together. ``len(tree)`` is the number of top-level branches, ``tree.num_entries`` the number of entries. Sizes are
    in bytes; entries are numbered from 0, and ranges exclude ``entry_stop``.

    ``tree["branch"]`` raises NoSuchKeyError with the nearest names. Methods that read values raise
    UnsupportedBranchError, BadFileError and StorageError, which name the file and the branch.

        >>> tree = branchline.open("file.root")["Events"]
        >>> tree.keys()
        ['nMuon', 'Muon_pt', 'Muon_eta']
        >>> tree.arrays(["Muon_pt"], entry_stop=1000)
    """

    def __init__(self, shape: Shape, file: FileHandle, cycle: int | None = None) -> None:
        self.shape = shape
        core = shape.core
        self._file = file
        self.file_path: str = file.path
        self.path: str = core.path
        self.name: str = self.path.rsplit("/", 1)[-1]
        self.title: str = core.title
        self.entries_count: int = core.entries_count
        self.warned_unreadable: set[str] = set()
        self._cycle = cycle
        # A branch refers to its tree: a strong reference back would keep both, and the file, until garbage collection.
        self._branches: WeakValueDictionary[int, Branch] = WeakValueDictionary()

    def __repr__(self) -> str:
        count = len(self.outline.paths)
        return f"<Tree {self.path!r} of {self.file_path}: {count} branches, {self.entries_count} entries>"

    def __reduce__(self) -> tuple[object, ...]:
        # Unpickling opens the file again, by its path.
        return _tree_of, (self.file, self.object_path.lstrip("/"))

    def __enter__(self) -> Tree:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the tree can still be read."""

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self.file.closed

    @property
    def description(self) -> str:
        """The title, for compatibility with RNTuples of uproot."""
        return self.title

    @property
    def all_members(self) -> Mapping[str, Any]:
        """The stored members of a TTree by name, without its branches. Raises UnsupportedBranchError for an RNTuple.

        >>> tree.member("fEntries")
        3
        """
        members: Mapping[str, Any] = self.file.members_of_tree(self.object_path)
        return members

    @property
    def members(self) -> Mapping[str, Any]:
        """The same as ``all_members``. Raises UnsupportedBranchError for an RNTuple."""
        return self.all_members

    def member(self, name: str) -> Any:
        """A stored member of a TTree. Raises NoSuchKeyError, UnsupportedBranchError for an RNTuple."""
        return self.all_members[name]

    def has_member(self, name: str) -> bool:
        """Whether a TTree has this stored member. Raises UnsupportedBranchError for an RNTuple."""
        return name in self.all_members

    def _branch(self, index: int) -> Branch:
        return self.branch(index)

    @property
    def core(self) -> _core.Tree:
        """The engine's handle."""
        return self.shape.core

    @property
    def file(self) -> FileHandle:
        """The file that contains the tree."""
        return self._file

    @property
    def tree(self) -> Tree:
        """The tree itself."""
        return self

    @property
    def number(self) -> None:
        """None, because a tree is not a branch."""
        return

    @property
    def outline(self) -> Outline:
        """The hierarchy of the branches."""
        return self.shape.outline

    @property
    def parent(self) -> DirectoryHandle:
        """The directory that contains the tree."""
        return self.file.directory_of(self.path)

    @property
    def classname(self) -> str:
        """The class name in the file: ``TTree``, ``TNtuple``, ``ROOT::RNTuple``, ..."""
        return self.file.classname_of(self.object_path.lstrip("/"))

    @property
    def num_entries(self) -> int:
        """Number of entries, for compatibility with uproot."""
        return self.entries_count

    @property
    def object_path(self) -> str:
        """Path in the file, in uproot's notation: ``/folder/tree;1``."""
        return f"/{self.path}" if self._cycle is None else f"/{self.path};{self._cycle}"

    @property
    def cache_key(self) -> str:
        """A key that identifies this tree and its copies: the UUID of the file, and the path."""
        return f"{self.file.uuid}:{self.object_path}"

    @cached_property
    def _links(self) -> StoredLinks | None:
        """The stored aliases, index and friends; None for a tree without any of these."""
        return StoredLinks(self) if self.core.has_relatives else None

    @property
    def aliases(self) -> dict[str, str]:
        """Named formulas stored in the file (TTree::SetAlias), in ROOT's syntax; expressions may use the names."""
        return self._links.aliases if self._links else {}

    @property
    def friends(self) -> dict[str, Friend]:
        """Friend trees (TTree::AddFriend), by the names that expressions use: ``tree.arrays(["pt",
        "friend.weight"])``.
        """
        return self._links.friends if self._links else {}

    @property
    def index(self) -> Index | None:
        """The index (TTree::BuildIndex), which is used if this tree is a friend of another tree; None without index."""
        return self._links.index if self._links else None

    @property
    def compressed_bytes(self) -> int:
        """Total size of all branches in the file."""
        return sum(branch.compressed_bytes for branch in self.values() if not branch.is_part)

    @property
    def uncompressed_bytes(self) -> int:
        """Total size of all branches after decompression."""
        return sum(branch.plain_bytes for branch in self.values() if not branch.is_part)

    @property
    def compression_ratio(self) -> float:
        """Size after decompression divided by the size in the file; 1 for an empty tree."""
        compressed = self.compressed_bytes
        return self.uncompressed_bytes / compressed if compressed else 1.0

    def branch(self, index: int) -> Branch:
        """Return a branch by its index; parents have lower indices than their children."""
        branch = self._branches.get(index)
        if branch is None:
            branch = self._branches[index] = Branch(self, index, self.shape.facts_of(index))
        return branch

    def index_of(self, name: str) -> int | None:
        """Return the index of the branch with this name, which may start with the tree's name as in ROOT; None if it
        does not exist. Raises NoSuchKeyError for an ambiguous name.
        """
        own = f"{self.name}."
        for one in (name, name.removeprefix(own)) if name.startswith(own) else (name,):
            try:
                return self.core.find(one)
            except NoSuchKeyError as error:
                if error.hint is not None:  # the name is ambiguous
                    raise
        return None

    def no_such_branch(self, name: str) -> str:
        """The error message for a branch that does not exist."""
        return f"tree {self.path} has no branch {name!r}"

    def hint_of_friends(self, name: str, known: Callable[[], list[str]]) -> str | None:
        """A hint for a name that may refer to a friend's branch; None without friends. Does not open the friends."""
        if not self.friends:
            return None
        friend, _, rest = name.partition(".")
        if rest and friend in self.friends:
            own = f"tree.friends[{friend!r}].tree[{rest!r}]"
            return f"{friend} is a friend: tree.arrays({name!r}) reads its branch aligned to this tree, {own} unaligned"
        near = near_names_hint(name, known())
        friends = f"tree.arrays({name!r}) also looks in the friends of the tree: {', '.join(self.friends)}"
        return friends if near is None else f"{near} {friends}"

    def check_readable(self, path: str) -> None:
        """Raise the error that reading a branch would raise: UnsupportedBranchError, BadFileError, StorageError."""
        self.core.check_readable(path)

    def empty_columns(self, paths: list[str]) -> list[Any]:
        """Columns of length 0 with the types of these branches. Raises UnsupportedBranchError."""
        return self.core.empty_columns(paths)

    def entry_offsets(self, index: int) -> list[int]:
        """The first entry of each basket of a branch, followed by the number of entries: shape (baskets + 1,). Raises
        BadFileError, StorageError.
        """
        return self.core.entry_offsets(index)

    def basket_borders(self) -> list[int]:
        """Entries at which the tree can be split for parallel reading, such that few baskets are read twice."""
        return self.core.basket_borders()

    def plain_bytes_per_entry(self, paths: list[str]) -> float:
        """Mean size after decompression of one entry of all of these branches."""
        return self.core.bytes_per_entry([self.core.find(path) for path in paths]).plain

    def source(self, entry_start: int = 0, entry_stop: int | None = None) -> Source:
        """A range of entries as the source of a stream, which reads it without opening the tree again."""
        return Source(self.file_path, self.path, entry_start, entry_stop, self)


def _tree_of(file: FileHandle, name: str) -> TreeHandle:
    """Unpickle a tree."""
    return file.tree(name)


class StoredLinks:
    """The aliases, index and friends of a tree, read on first use."""

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
        """Formulas of ROOT by name (TTree::SetAlias)."""
        return {one.raw("fName"): one.raw("fTitle") for one in self._objects("fAliases")}

    @cached_property
    def index(self) -> Index | None:
        """The index (TTree::BuildIndex); None if the tree has no index. Raises UnsupportedBranchError for an
        unsupported class of index.
        """
        index = self._record.raw("fTreeIndex") if "fTreeIndex" in self._record else None
        if index is None:
            return None
        if index.unread is not None or "fIndex" not in index:
            what = f"the index of tree {self._tree.path} is a {index.classname}, which is not supported"
            raise UnsupportedBranchError(f"{what}: {index.unread}", path=self._tree.file_path)
        keys = _pairs(index.raw("fIndexValues"), index.raw("fIndexValuesMinor"))
        return Index((index.raw("fMajorName"), index.raw("fMinorName")), keys, np.asarray(index.raw("fIndex")))

    @cached_property
    def friends(self) -> dict[str, Friend]:
        """Friend trees by the names that expressions use."""
        friends: dict[str, Friend] = {}
        for element in self._objects("fFriends"):
            friend = Friend(self._tree, element.raw("fName"), element.raw("fTreeName"), element.raw("fTitle"))
            friends.setdefault(friend.name, friend)
        return friends


@dataclass(frozen=True)
class Index:
    """The index of a tree: the two ``formulas`` of its key, the sorted ``keys`` (pairs of numbers), and the ``entries``
    with these keys.
    """

    formulas: tuple[str, str]
    keys: Any
    entries: Any

    def find(self, wanted: Any) -> Any:
        """The entries with these keys, -1 for unknown keys."""
        if not len(self.keys):
            return np.full(len(wanted), -1)
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[places] == wanted, self.entries[places], -1)


class Friend:
    """A friend tree, aligned with a main tree by its index if it has one, else by entry number.

    Values are None for entries of the main tree without a matching entry in the friend. ``file_path`` is the path
    stored in the file; empty means the main tree's file.

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
        """The tree. Raises MissingFileError, NoSuchKeyError and the other errors of opening."""
        path = self.file_path
        is_in_same_file = not path or os.path.realpath(path) == os.path.realpath(self._main.file_path)
        file = self._main.file if is_in_same_file else self._main.file.another(self._place())
        try:
            return file.tree(self.tree_name)
        except NoSuchKeyError as error:
            what = f"tree {self._main.path} has a friend {self.name}, which does not exist: {error.what}"
            raise NoSuchKeyError(what, path=file.path, hint=error.hint) from None

    def _place(self) -> str:
        """Path of the friend's file: as stored (relative to the current directory), or relative to the folder of the
        main file.
        """
        in_folder = os.path.join(os.path.dirname(self._main.file_path), self.file_path)
        for place in (self.file_path, in_folder):
            if "://" in place or os.path.exists(place):
                return place
        what = f"tree {self._main.path} of {self._main.file_path} has a friend {self.name}, whose file does not exist"
        hint = f"put it into the current directory, or at {in_folder}"
        raise MissingFileError(what, path=self.file_path, hint=hint)

    @cached_property
    def _entries(self) -> Any | None:
        """The friend's entry for each entry of the main tree, -1 if it has none; None if the entry numbers are the
        same.
        """
        index = self.tree.index
        return None if index is None else index.find(_pairs(*_numbers(self._main, index.formulas)))

    def find_path(self, name: str) -> str | None:
        """Return the path of the branch with this name, or None. Raises NoSuchKeyError for an ambiguous
        name.
        """
        index = self.tree.find(name)
        return None if index is None else self.tree.outline.paths[index]

    def keys(self) -> list[str]:
        """Paths of its branches."""
        return self.tree.keys()

    def layout(self, path: str, start: int, count: int) -> ak.contents.Content:
        """The values of a branch for a range of entries of the main tree."""
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
    """The two key numbers of each entry, converted to integers as TTreeIndex does."""
    made = []
    for name in names:
        if name.strip().removeprefix("-").isdecimal():
            made.append(np.full(tree.entries_count, int(name)))
        else:
            values = read(tree, Selector(tree).formula(name), ReadRequest()).single()
            made.append(np.asarray(values).astype("i8"))
    return made


def _pairs(major: Any, minor: Any) -> Any:
    """Combine two columns of numbers into a structured array whose elements compare like pairs."""
    pairs = np.empty(len(major), dtype=[("major", "i8"), ("minor", "i8")])
    pairs["major"], pairs["minor"] = major, minor
    return pairs
