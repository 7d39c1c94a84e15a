"""Types of the compiled module."""

from pathlib import Path
from typing import Any

from branchline.access import Access
from branchline.layout.fields import ShownField
from branchline.layout.merge_request import MergeRequest
from branchline.layout.targets import Layout, Target

__version__: str

class Buffer:
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def list_folder(url: str, once: bool = False) -> tuple[str, list[bytes]]: ...
def size_of(url: str) -> int: ...
def listing_wait_s(once: bool) -> float: ...
def longest_wait_s(size_bytes: int) -> float: ...
def links_chosen(access: Access) -> list[dict[str, Any]]: ...

class File:
    path: str
    store: str
    recovered_count: int
    size_bytes: int
    root_version: int
    def __init__(self, path: str, access: Access | None = None) -> None: ...
    def keys_below(self, path: str) -> list[tuple[str, int, str, str, bool]]: ...
    def keys_in(self, path: str) -> list[tuple[str, int, str, str, bool]]: ...
    def find(self, path: str) -> list[tuple[str, int, str, str, bool]]: ...
    def object(self, path: str) -> Any: ...
    def tree_members(self, path: str) -> Any: ...
    def lineage(self, class_name: str) -> list[str]: ...
    def tree(self, path: str | None = None) -> Tree: ...

class Tree:
    path: str
    title: str
    separator: str
    nests: bool
    has_relatives: bool
    entries_count: int
    def paths(self) -> list[str]: ...
    def outline(self) -> list[tuple[str, int | None, str, int | None]]: ...
    def entry_offsets(self, index: int) -> list[int]: ...
    def extents(self, indices: list[int]) -> list[Buffer]: ...
    def codecs_in_baskets(self, indices: list[int]) -> list[str | None]: ...
    def readable(self) -> list[str]: ...
    def find(self, name: str) -> int: ...
    def check_readable(self, name: str) -> None: ...
    def empty_columns(self, names: list[str]) -> list[Any]: ...
    def basket_borders(self) -> list[int]: ...
    def bytes_per_entry(self, indices: list[int]) -> tuple[float, float]: ...
    def branch(self, index: int) -> dict[str, Any]: ...

class Store:
    name: str
    path: str
    identity: str | None
    size_bytes: int
    remarks: list[str]
    def __init__(self, path: str, access: Access | None = None) -> None: ...
    def read(self, ranges: list[tuple[int, int]]) -> tuple[list[bytes], int, int]: ...

class Proxy:
    address: str
    port: int
    def __init__(self, listen: str, target: str, throttle: str, fault: str | None = None) -> None: ...
    def counts(self) -> dict[str, int]: ...
    def close(self) -> None: ...

def without_secrets(text: str) -> str: ...
def take_troubles() -> list[dict[str, Any]]: ...
def check_trouble(throttle: str | None = None, fault: str | None = None) -> None: ...

class Stream:
    def __init__(
        self,
        sources: list[tuple[Tree | tuple[str, str | None], int, int | None]],
        branches: tuple[list[str] | None, list[str]],
        *,
        access: Access,
        step: tuple[int, int | None],
        threads: int,
        memory: tuple[int, int, bool],
    ) -> None: ...
    def next(self) -> Chunk | tuple[int, BaseException, Chunk | None] | None: ...
    def records(self) -> dict[str, Any]: ...
    def close(self) -> None: ...

class Chunk:
    source_index: int
    path: str
    tree_path: str
    recovered_count: int
    tree_entries: int
    entry_start: int
    entry_stop: int
    def branches(self) -> list[str]: ...
    def tree(self) -> Tree: ...
    def take_columns(self) -> list[Any]: ...
    def read_late(self, name: str) -> Any: ...

def decompress_all(
    paths: list[str],
    tree: str | None = None,
    branches: list[str] | None = None,
    threads: int = 1,
    codec: str | None = None,
) -> dict[str, Any]: ...

class Compared:
    """In what outputs differ from inputs: trees of any of them, other objects that are the same, and sentences on
    others.
    """

    trees: list[ComparedTree]
    objects: int
    differences: list[str]

class ComparedTree:
    """A tree: entries, baskets and branches of the outputs, branches with the ``same`` entries in other baskets,
    branches of which a basket differs, and sentences on what is on one side only.
    """

    path: str
    entries: int
    baskets: int
    branches: int
    same: list[str]
    differing: list[DifferingBranch]
    differences: list[str]

class DifferingBranch:
    """A branch whose baskets differ, and in what."""

    name: str
    reason: str

def compare(outputs: list[str], inputs: list[str], tree: str | None, access: Access | None) -> Compared:
    """Compares outputs with inputs, basket by basket and object by object."""

class ColumnsFile:
    """A ROOT file that is made from columns, which have the form of `Chunk.take_columns`."""

    @staticmethod
    def ntuple(
        target: Target, layout: Layout, names: list[str], columns: list[Any], shown: list[ShownField]
    ) -> ColumnsFile:
        """Begins an RNTuple with fields for columns like these."""

    @staticmethod
    def tree(target: Target, layout: Layout, names: list[str], columns: list[Any]) -> ColumnsFile:
        """Begins a TTree with branches for columns like these."""

    def fill(self, columns: list[Any], count: int) -> None:
        """Adds ``count`` entries, with a column of each field."""

    def abandon(self) -> None:
        """Leaves nothing of the file."""

    def finish(self) -> WrittenFile:
        """Ends the file, and gives it its name."""

class WrittenFile:
    """What was written: entries, clusters and bytes."""

    entries: int
    clusters: int
    size_bytes: int

class ObjectsFile:
    """A ROOT file of histograms that is being written; it has its name only when it is finished."""

    def __init__(self, path: Path, replace: bool, codec: str) -> None:
        """Raises StorageError where no file can be made, ValueError for a codec that there is not."""

    def add(self, directories: list[str], class_name: str, name: str, title: str, content: bytes) -> None:
        """Writes an object, whose bytes are as ROOT streams it, into a directory, which is made if need be.

        Raises StorageError, also for a second object of one name.
        """

    def abandon(self) -> None:
        """Leaves nothing of the file, unless it is finished."""

    def finish(self) -> int:
        """Ends the file and returns its size in bytes. Raises StorageError."""

class NewFile:
    temporary: Path
    def __init__(self, path: Path, inputs: list[str], replace: bool) -> None: ...
    def publish(self) -> None: ...
    def abandon(self) -> None: ...

class Merge:
    """A merge, which one thread runs and others may watch and stop."""

    files_done: int
    bytes_done: int
    def __init__(self, request: MergeRequest) -> None:
        """Raises ValueError for an option that has no meaning."""

    def stop(self) -> None:
        """Ends the merge soon, with nothing left of it."""

    def run(self) -> Merged:
        """Merges. Raises the errors of `branchline.layout.merge`."""

class Merged:
    """What a merge made: the outputs, files that are in them, trees with entries and baskets, other objects, bytes, and
    sentences on what is not in them and on what else is to be known.
    """

    outputs: list[Path]
    files: int
    trees: int
    entries: int
    baskets: int
    basket_bytes: int
    objects: int
    size_bytes: int
    left_out: list[str]
    notes: list[str]
    skipped: list[SkippedInput]

class SkippedInput:
    """An input that was left out, and why."""

    path: str
    reason: str

def trace_begin(folder: str) -> None: ...
def trace_end() -> None: ...
def trace_is_on() -> bool: ...
def trace_wagon(name: str) -> None: ...
def trace_did(what: str, wagon: str, seconds: float) -> None: ...
