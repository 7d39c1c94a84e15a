"""Protocols of files, directories, trees and branches.

A branch refers to its tree, a tree to its file, and a file to its trees. To avoid import cycles, each module imports
only the classes below its own and uses these protocols for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from branchline.reading.sources import OpenTree, Source

if TYPE_CHECKING:
    from uuid import UUID

    import awkward as ak

    from branchline.reading.access import Access
    from branchline.reading.arrays.nesting import Outline, Shape


class DirectoryHandle(Protocol):
    """A directory of a file, or the file itself."""

    @property
    def file_path(self) -> str:
        """Path of the file."""
        ...

    @property
    def object_path(self) -> str:
        """Path in the file, in uproot's notation."""
        ...

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...

    def keys(self, *, recursive: bool = True, cycle: bool = True) -> list[str]:
        """Names of the objects."""
        ...

    def trees(self) -> list[str]:
        """Paths of the trees."""
        ...

    def classnames(self, *, recursive: bool = True, cycle: bool = True) -> dict[str, str]:
        """Class names of the objects by name."""
        ...

    def __getitem__(self, name: str) -> Any:
        """Return an object."""
        ...


class FileHandle(DirectoryHandle, Protocol):
    """An open file."""

    path: str
    access: Access
    size_bytes: int

    @property
    def uuid(self) -> UUID:
        """The UUID that ROOT gave the file."""
        ...

    def tree(self, name: str | None = None) -> TreeHandle:
        """Return a tree by name, or by default the only tree of the file."""
        ...

    def directory_of(self, path: str) -> DirectoryHandle:
        """The directory that contains an object."""
        ...

    def classname_of(self, name: str) -> str:
        """The class name of an object."""
        ...

    def members_of_tree(self, object_path: str) -> Any:
        """The stored members of a TTree."""
        ...

    def another(self, path: str) -> FileHandle:
        """Open another file with the same settings."""
        ...


#: A function that opens a file by its path.
OpenFile = Callable[[str], FileHandle]


class BranchesHandle(Protocol):
    """A tree or a branch as a mapping of its sub-branches."""

    @property
    def tree(self) -> TreeHandle:
        """The tree; a tree returns itself."""
        ...

    @property
    def number(self) -> int | None:
        """Index of the branch in the tree; None for the tree."""
        ...

    def indices(
        self,
        filter_name: object = None,
        filter_typename: object = None,
        filter_branch: Callable[[Any], object] | None = None,
        *,
        recursive: bool = True,
    ) -> list[int]:
        """Indices of the branches that pass the filters."""
        ...

    def find(self, name: str) -> int | None:
        """Return the index of the branch with this name, or None."""
        ...

    def keys(self) -> list[str]:
        """Paths of the branches."""
        ...

    def __getitem__(self, name: str | int) -> BranchHandle:
        """Return a branch."""
        ...

    def __len__(self) -> int:
        """Number of direct children."""
        ...


class BranchHandle(BranchesHandle, Protocol):
    """A branch."""

    path: str
    name: str
    title: str
    typename: str
    entries_count: int
    baskets_count: int
    compressed_bytes: int
    plain_bytes: int
    reason: str | None
    is_part: bool

    @property
    def number(self) -> int:
        """Index of the branch in the tree."""
        ...

    @property
    def cache_key(self) -> str:
        """A globally unique key of the branch."""
        ...

    @property
    def readable(self) -> bool:
        """Whether the values can be read."""
        ...

    @property
    def is_group(self) -> bool:
        """Whether the branch only groups sub-branches and has no data of its own."""
        ...

    def array(
        self, interpretation: object = None, entry_start: int | None = None, entry_stop: int | None = None
    ) -> Any:
        """Read a range of entries."""
        ...


class FriendHandle(Protocol):
    """A tree that is read alongside a main tree."""

    def find_path(self, name: str) -> str | None:
        """Return the path of the branch with this name, or None."""
        ...

    def keys(self) -> list[str]:
        """Paths of its branches."""
        ...

    def layout(self, path: str, start: int, count: int) -> ak.contents.Content:
        """The values of a branch for a range of entries of the main tree."""
        ...


class TreeHandle(BranchesHandle, OpenTree, Protocol):
    """A tree of an open file."""

    name: str
    title: str
    path: str
    file_path: str
    entries_count: int
    shape: Shape
    #: Paths of the unreadable branches for which a warning was already issued.
    warned_unreadable: set[str]

    @property
    def file(self) -> FileHandle:
        """The file that contains the tree."""
        ...

    @property
    def outline(self) -> Outline:
        """The hierarchy of the branches."""
        ...

    @property
    def object_path(self) -> str:
        """Path in the file, in uproot's notation."""
        ...

    @property
    def cache_key(self) -> str:
        """A globally unique key of the tree."""
        ...

    @property
    def aliases(self) -> dict[str, str]:
        """Named formulas stored in the file."""
        ...

    @property
    def friends(self) -> Mapping[str, FriendHandle]:
        """The friend trees by name."""
        ...

    @property
    def index(self) -> Any:
        """The index that is used when this tree is a friend of another."""
        ...

    def branch(self, index: int) -> BranchHandle:
        """Return a branch by its index."""
        ...

    def index_of(self, name: str) -> int | None:
        """Return the index of the branch with this name, or None."""
        ...

    def check_readable(self, path: str) -> None:
        """Raise the error that reading a branch would raise."""
        ...

    def empty_columns(self, paths: list[str]) -> list[Any]:
        """Columns of length 0 with the types of these branches."""
        ...

    def entry_offsets(self, index: int) -> list[int]:
        """The first entry of each basket of a branch, followed by the number of entries."""
        ...

    def plain_bytes_per_entry(self, paths: list[str]) -> float:
        """Mean size after decompression of one entry of all of these branches."""
        ...

    def no_such_branch(self, name: str) -> str:
        """The error message for a branch that does not exist."""
        ...

    def hint_of_friends(self, name: str, known: Callable[[], list[str]]) -> str | None:
        """A hint for a name that may refer to a friend's branch; None without friends."""
        ...

    def source(self, entry_start: int = 0, entry_stop: int | None = None) -> Source:
        """A range of entries as the source of a stream."""
        ...

    def show(
        self,
        *,
        filter_name: object = None,
        filter_typename: object = None,
        filter_branch: Callable[[Any], object] | None = None,
    ) -> None:
        """Print a table of the branches."""
        ...

    def arrays(self, *arguments: Any, **options: Any) -> Any:
        """Read branches over a range of entries."""
        ...
