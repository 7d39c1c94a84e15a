"""What files, directories, trees and branches know of each other.

A branch leads to its tree, a tree to its file, and a file to its trees: each of them imports only what is below it, and
knows the others by what is said here.
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
        """Where it is in the file, as uproot writes it."""
        ...

    @property
    def closed(self) -> bool:
        """Whether the file was closed."""
        ...

    def close(self) -> None:
        """Closes the file."""
        ...

    def keys(self, *, recursive: bool = True, cycle: bool = True) -> list[str]:
        """Names of the objects."""
        ...

    def trees(self) -> list[str]:
        """Paths of the trees."""
        ...

    def classnames(self, *, recursive: bool = True, cycle: bool = True) -> dict[str, str]:
        """Classes of the objects by their names."""
        ...

    def __getitem__(self, name: str) -> Any:
        """An object."""
        ...


class FileHandle(DirectoryHandle, Protocol):
    """An open file."""

    path: str
    access: Access
    size_bytes: int

    @property
    def uuid(self) -> UUID:
        """The identifier that ROOT gave the file."""
        ...

    def tree(self, name: str | None = None) -> TreeHandle:
        """A tree by its name, or the only one."""
        ...

    def directory_of(self, path: str) -> DirectoryHandle:
        """The directory that an object is in."""
        ...

    def classname_of(self, name: str) -> str:
        """The class of an object."""
        ...

    def members_of_tree(self, object_path: str) -> Any:
        """A TTree as the members that are stored of it."""
        ...

    def another(self, path: str) -> FileHandle:
        """Another file, opened in the same way."""
        ...


#: Opens a file by its path.
OpenFile = Callable[[str], FileHandle]


class BranchesHandle(Protocol):
    """A tree, or a branch, as a mapping of the branches below it."""

    @property
    def tree(self) -> TreeHandle:
        """The tree, which a tree is itself."""
        ...

    @property
    def number(self) -> int | None:
        """The number of the branch in the tree; None for the tree."""
        ...

    def indices(
        self,
        filter_name: Any = None,
        filter_typename: Any = None,
        filter_branch: Callable[[Any], object] | None = None,
        *,
        recursive: bool = True,
    ) -> list[int]:
        """Numbers of the branches that the filters keep."""
        ...

    def find(self, name: str) -> int | None:
        """The number of the branch that a name means; None if there is none."""
        ...

    def keys(self) -> list[str]:
        """Paths of the branches."""
        ...

    def __getitem__(self, name: str | int) -> BranchHandle:
        """A branch."""
        ...

    def __len__(self) -> int:
        """Branches right below it."""
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
        """The number of the branch in the tree."""
        ...

    @property
    def cache_key(self) -> str:
        """A text that no other branch of any file has."""
        ...

    @property
    def readable(self) -> bool:
        """Whether its values can be read."""
        ...

    @property
    def is_group(self) -> bool:
        """Whether it only groups the branches below it."""
        ...

    def array(self, interpretation: Any = None, entry_start: int | None = None, entry_stop: int | None = None) -> Any:
        """The values of a range of entries."""
        ...


class FriendHandle(Protocol):
    """A tree that is read together with a main tree."""

    def find_path(self, name: str) -> str | None:
        """The path of the branch that a name means; None if there is none."""
        ...

    def keys(self) -> list[str]:
        """Paths of its branches."""
        ...

    def layout(self, path: str, start: int, count: int) -> ak.contents.Content:
        """The column of a branch for a range of entries of the main tree."""
        ...


class TreeHandle(BranchesHandle, OpenTree, Protocol):
    """A tree of an open file."""

    name: str
    title: str
    path: str
    file_path: str
    entries_count: int
    shape: Shape
    #: Paths of unreadable branches that a warning has named already.
    warned_unreadable: set[str]

    @property
    def file(self) -> FileHandle:
        """The file that it is in."""
        ...

    @property
    def outline(self) -> Outline:
        """Which branches there are, and which belong to which."""
        ...

    @property
    def object_path(self) -> str:
        """Where it is in the file, as uproot writes it."""
        ...

    @property
    def cache_key(self) -> str:
        """A text that no other tree of any file has."""
        ...

    @property
    def aliases(self) -> dict[str, str]:
        """Formulas that the file has names for."""
        ...

    @property
    def friends(self) -> Mapping[str, FriendHandle]:
        """Trees that are read together with it."""
        ...

    @property
    def index(self) -> Any:
        """The index by which it is read as a friend."""
        ...

    def branch(self, index: int) -> BranchHandle:
        """A branch by its number."""
        ...

    def index_of(self, name: str) -> int | None:
        """The number of the branch that a name means; None if there is none."""
        ...

    def check_readable(self, path: str) -> None:
        """Raises what reading a branch would raise."""
        ...

    def empty_columns(self, paths: list[str]) -> list[Any]:
        """Columns without entries, with the types of these branches."""
        ...

    def entry_offsets(self, index: int) -> list[int]:
        """Entries at which the baskets of a branch begin, and its end."""
        ...

    def plain_bytes_per_entry(self, paths: list[str]) -> float:
        """Bytes after decompression for an entry of these branches together."""
        ...

    def no_such_branch(self, name: str) -> str:
        """What to say of a branch that is not there."""
        ...

    def hint_of_friends(self, name: str, known: Callable[[], list[str]]) -> str | None:
        """The hint for a name that may be that of a friend's branch; None without friends."""
        ...

    def source(self, entry_start: int = 0, entry_stop: int | None = None) -> Source:
        """A range of its entries as a source of a stream."""
        ...

    def show(
        self,
        *,
        filter_name: Any = None,
        filter_typename: Any = None,
        filter_branch: Callable[[Any], object] | None = None,
    ) -> None:
        """Prints a table of the branches."""
        ...

    def arrays(self, *arguments: Any, **options: Any) -> Any:
        """Branches over a range of entries."""
        ...
