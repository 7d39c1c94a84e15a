"""Types of the compiled module. `make check-python` compares them with the module itself.

Paths may be URLs. Errors are those of `branchline.errors`; a fault of the module itself raises InternalError. Times are
seconds, sizes bytes, entries are numbered from 0 within a tree.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from branchline.reading.access import Access, ByteRange
from branchline.reading.datasets.elements import ReplicaRank
from branchline.reading.datasets.server_listings import ListingForm
from branchline.reading.sources import StreamRecords
from branchline.writing.columns.fields import ShownField
from branchline.writing.columns.output_file import Layout, Target
from branchline.writing.merging.merge import MergeRequest
from branchline.writing.recreate.copies import Differences
from branchline.writing.recreate.writable_tree import NewTable

__version__: str
#: Bytes that are read from the start of a file.
HEAD_BYTES: int
#: Entries on which the access `cache` learns which branches are read.
LEARN_ENTRIES: int

@final
class Buffer:
    """Read-only memory of the engine, which NumPy reads without a copy: bytes, or 64-bit numbers."""

    def __len__(self) -> int:
        """Its bytes."""

    # Python before 3.12 has no name for it at run time.
    def __buffer__(self, flags: int, /) -> memoryview: ...

@disjoint_base
class Column:
    """The values of a branch, as one of the classes in this one. Contents are columns; arrays from the engine
    are read-only. Numbers are in native byte order, offsets are 64-bit.
    """

    @final
    class Flat(Column):
        """Numbers; ``dtype`` is NumPy's name, or "unknown" where there are no values."""

        __match_args__ = ("dtype", "values")
        def __new__(cls, dtype: str, values: NDArray[Any]) -> Column.Flat: ...
        @property
        def dtype(self) -> str: ...
        @property
        def values(self) -> NDArray[Any]: ...

    @final
    class Regular(Column):
        """Arrays of ``size`` values each."""

        __match_args__ = ("size", "content")
        def __new__(cls, size: int, content: Column) -> Column.Regular: ...
        @property
        def size(self) -> int: ...
        @property
        def content(self) -> Column: ...

    @final
    class List(Column):
        """Lists; there is one offset more than there are lists."""

        __match_args__ = ("offsets", "content")
        def __new__(cls, offsets: NDArray[np.int64], content: Column) -> Column.List: ...
        @property
        def offsets(self) -> NDArray[np.int64]: ...
        @property
        def content(self) -> Column: ...

    @final
    class Text(Column):
        """Texts: bytes, with offsets as those of lists."""

        __match_args__ = ("offsets", "letters")
        def __new__(cls, offsets: NDArray[np.int64], letters: NDArray[np.uint8]) -> Column.Text: ...
        @property
        def offsets(self) -> NDArray[np.int64]: ...
        @property
        def letters(self) -> NDArray[np.uint8]: ...

    @final
    class Record(Column):
        """``count`` records of a class, or of none; ``contents`` has a column for each name."""

        __match_args__ = ("names", "contents", "count", "class_name")
        def __new__(
            cls, names: Sequence[str], contents: Sequence[Column], count: int, class_name: str | None
        ) -> Column.Record: ...
        @property
        def names(self) -> list[str]: ...
        @property
        def contents(self) -> list[Column]: ...
        @property
        def count(self) -> int: ...
        @property
        def class_name(self) -> str | None: ...

    @final
    class Tuple(Column):
        """``count`` records without names."""

        __match_args__ = ("contents", "count")
        def __new__(cls, contents: Sequence[Column], count: int) -> Column.Tuple: ...
        @property
        def contents(self) -> list[Column]: ...
        @property
        def count(self) -> int: ...

    @final
    class Option(Column):
        """Values that may be missing: ``valid`` is a byte for each, 1 where it is there; ``content`` has only those."""

        __match_args__ = ("valid", "content")
        def __new__(cls, valid: NDArray[np.uint8], content: Column) -> Column.Option: ...
        @property
        def valid(self) -> NDArray[np.uint8]: ...
        @property
        def content(self) -> Column: ...

    @final
    class Union(Column):
        """Values of several kinds: ``tags`` is a byte for each, the number of its kind in ``contents``."""

        __match_args__ = ("tags", "contents")
        def __new__(cls, tags: NDArray[np.uint8], contents: Sequence[Column]) -> Column.Union: ...
        @property
        def tags(self) -> NDArray[np.uint8]: ...
        @property
        def contents(self) -> list[Column]: ...

@final
class FolderListing:
    """What is in a folder at a server: the form of its answers, and their bytes."""

    form: ListingForm
    pages: list[bytes]

def list_folder(url: str, once: bool = False) -> FolderListing:
    """Lists a folder at a server; ``once``: without retries. Raises MissingFileError, StorageError."""

def prefer_replicas(ranks: list[ReplicaRank]) -> None:
    """Has this process read the replicas of files in the order of their ranks."""

def set_base_directory(directory: str | None) -> None:
    """Makes relative paths of files to read start from a directory, wherever the process goes later; None ends that."""

def size_and_identity(url: str) -> tuple[int, str | None]:
    """The size of a file at a server, and what differs between its versions, tried once. ``url`` may be several
    replicas. Raises MissingFileError, StorageError.
    """

def listing_wait_s(url: str, once: bool) -> float:
    """How long a Python library may take to list a folder, in seconds."""

def longest_wait_s(size_bytes: int) -> float:
    """How long a call that reads this number of bytes may take, with all its retries, in seconds."""

@final
class Link:
    """The measured link to a storage element, and the sizes of requests that reading chooses for it."""

    name: str
    round_trip_s: float
    bytes_per_second: float
    gap_bytes: int
    requests_in_flight: int
    bytes_in_flight: int

def links_chosen(access: Access) -> list[Link]:
    """The links to all storage elements that this process has read from."""

def link_chosen(access: Access, round_trip_s: float, bytes_per_second: float, gap_bytes: int) -> Link:
    """What reading would choose for such a link, to a store whose own gap is ``gap_bytes``; bandwidth 0 is unknown.
    Raises ValueError for a round trip below 0.
    """

@final
class Key:
    """A key of a file: where an object is, of which cycle and class."""

    path: str
    cycle: int
    class_name: str
    title: str
    is_tree: bool

@final
class File:
    """An open file; of its contents only metadata are read. Raises MissingFileError, BadFileError, StorageError.

    ``store`` is the storage element, ``is_near`` whether that is a disk of this machine. ``recovered_count`` is how
    many keys were found again because the file was never closed. ``uuid`` is the identifier that ROOT gave it,
    ``compress`` its setting of compression: 100 times the codec, plus the level.
    """

    path: str
    store: str
    recovered_count: int
    size_bytes: int
    store_gap_bytes: int
    is_near: bool
    root_version: int
    uuid: bytes
    compress: int
    def __new__(cls, path: str, access: Access | None = None) -> File: ...
    def infos_range(self) -> tuple[int, int] | None:
        """Offset and size of the record of streamer infos."""

    def metadata_requests(self) -> list[list[tuple[int, int]]]:
        """Offsets and sizes of the ranges of each request for metadata so far."""

    def keys_below(self, path: str) -> list[Key]:
        """All keys below a directory; the file itself is ``""``."""

    def keys_in(self, path: str) -> list[Key]:
        """The keys of a directory, without those of directories in it."""

    def find(self, path: str) -> list[Key]:
        """The keys with this path, one for each cycle."""

    def object(self, path: str) -> _StoredValue:
        """Reads an object that is no tree. Raises NoSuchKeyError, UnsupportedBranchError."""

    def tree_members(self, path: str) -> _StoredValue:
        """The members of a TTree. Raises NoSuchKeyError."""

    def lineage(self, class_name: str) -> list[str]:
        """A class, followed by all classes that it inherits from."""

    def tree(self, path: str | None = None) -> Tree:
        """Opens a tree by its path, or the only one. Raises NoSuchKeyError, BadFileError."""

@final
class StoredObject:
    """An object of a file: its class, and its members by their names."""

    @property
    def class_name(self) -> str: ...
    @property
    def members(self) -> dict[str, _StoredValue]: ...

# A column has one value, which is no single number, text or object.
_StoredValue: TypeAlias = int | float | str | StoredObject | Column

@final
class OutlineRow:
    """A branch among the others of its tree: its own name, the number of its parent, its kind (``data``, ``group`` or
    ``unreadable``) and the number of the branch that counts its elements.
    """

    name: str
    parent: int | None
    kind: Literal["data", "group", "unreadable"]
    counter: int | None

@final
class BranchFacts:
    """The metadata of a branch.

    ``kind`` is ``data``, ``group`` (it only groups others) or ``unreadable``, for which ``reason`` is why.
    ``compress`` is ROOT's setting, 100 times the codec plus the level. ``is_part`` says that its bytes are counted with
    the branch that it belongs to.
    """

    path: str
    name: str
    title: str
    class_name: str
    kind: Literal["data", "group", "unreadable"]
    reason: str | None
    typename: str
    container_class: str
    is_part: bool
    entries_count: int
    baskets_count: int
    compressed_bytes: int
    plain_bytes: int
    compress: int

@final
class BytesPerEntry:
    """Bytes per entry of some branches: as they are stored, and after decompression."""

    stored: float
    plain: float

@final
class Extents:
    """Where baskets or pages lie: columns of 64-bit numbers with a row for each.

    ``branch`` is the number of the branch, ``offset`` and ``size`` are bytes in the file; ``entry_start`` is the first
    entry of the tree that it has values of, ``entry_stop`` the one after the last.
    """

    branch: Buffer
    offset: Buffer
    size: Buffer
    entry_start: Buffer
    entry_stop: Buffer

@final
class Tree:
    """An open TTree or RNTuple. Branches are numbered, a parent before its children.

    ``separator`` stands between the names of a path. Where the tree ``nests``, a branch holds all that those below it
    hold. ``has_relatives``: it has aliases, an index or friends.
    """

    path: str
    title: str
    separator: str
    nests: bool
    has_relatives: bool
    entries_count: int
    def paths(self) -> list[str]:
        """The paths of all branches."""

    def outline(self) -> list[OutlineRow]:
        """All branches."""

    def entry_offsets(self, index: int) -> list[int]:
        """Entries at which the baskets of a branch begin, and its end."""

    def extents(self, indices: list[int]) -> Extents:
        """Where the baskets or pages of these branches lie, branch by branch. Raises BadFileError, StorageError."""

    def codecs_in_baskets(self, indices: list[int]) -> list[str | None]:
        """The codecs of the first baskets of these branches; None where there is none, or the branch has its codec."""

    def readable(self) -> list[str]:
        """The paths of the branches that can be read."""

    def find(self, name: str) -> int:
        """The number of the branch with this path, or of the only one that a shorter name means.

        Raises NoSuchKeyError.
        """

    def check_readable(self, name: str) -> None:
        """Raises what reading the branch would raise."""

    def empty_columns(self, names: list[str]) -> list[Column]:
        """The columns of these branches without entries, which have their types."""

    def basket_borders(self) -> list[int]:
        """Entries at which parts that are read apart may begin: few baskets are then read for two parts."""

    def bytes_per_entry(self, indices: list[int]) -> BytesPerEntry:
        """Bytes per entry of these branches."""

    def memory_needs(self, indices: list[int]) -> tuple[float, int]:
        """What the values of these branches take per entry, and what decompressing the largest basket takes."""

    def branch(self, index: int) -> BranchFacts:
        """The metadata of a branch."""

@final
class Store:
    """The bytes of a file at any storage. Raises MissingFileError, StorageError.

    ``identity`` differs when the file was replaced; None where the storage has none. ``remarks`` are sentences for the
    user, such as why nothing is cached.
    """

    name: str
    path: str
    identity: str | None
    size_bytes: int
    remarks: list[str]
    def __new__(cls, path: str, access: Access | None = None) -> Store: ...
    def read(self, ranges: list[ByteRange]) -> RangesRead:
        """Reads these ranges. Raises BadFileError for one that reaches beyond the end."""

@final
class WantedRange:
    """A range that a library of Python's reads for a store: ``length`` bytes from ``offset`` on."""

    offset: int
    length: int
    def append(self, content: bytes) -> None:
        """Adds the next bytes. Raises ValueError for more than ``length`` in all, and once the read has ended."""

@final
class RangesRead:
    """The bytes of several ranges in their order, the read calls of the store that they took, and the bytes that it
    moved, which are more where near ranges were read as one.
    """

    contents: list[memoryview]
    read_calls: int
    bytes_read: int

@final
class ProxyCounts:
    """The counts of a proxy."""

    connections: int
    to_server_bytes: int
    to_client_bytes: int
    faults: int

@final
class Proxy:
    """A proxy that makes connections slow, and fail, on purpose. Raises ValueError, OSError."""

    address: str
    port: int
    def __new__(cls, listen: str, target: str, throttle: str, fault: str | None = None) -> Proxy: ...
    def counts(self) -> ProxyCounts:
        """The counts so far."""

    def close(self) -> None:
        """Ends all connections, and accepts no more."""

def without_secrets(text: str) -> str:
    """A URL, or a text with URLs in it, without passwords and tokens."""

@final
class Troubles:
    """Counts of failures at a storage element, and the seconds that they cost; `TroubleRecord` has the same fields."""

    name: str
    retries: int
    timeouts: int
    resets: int
    wrong_answers: int
    other_errors: int
    replicas_left: int
    replicas_refused: int
    waits: int
    waited_s: float
    lost_s: float

def take_troubles() -> list[Troubles]:
    """The failures at each storage element since the last call."""

def check_trouble(throttle: str | None = None, fault: str | None = None) -> None:
    """Checks the texts of ``--throttle`` and ``--fault``. Raises ValueError."""

class _OpenTree(Protocol):
    @property
    def core(self) -> Tree: ...

class _Source(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def tree(self) -> str | None: ...
    @property
    def entry_start(self) -> int: ...
    @property
    def entry_stop(self) -> int | None: ...
    @property
    def open_tree(self) -> _OpenTree | None: ...

class _Step(Protocol):
    @property
    def size_bytes(self) -> int: ...
    @property
    def entries(self) -> int | None: ...
    @property
    def is_even(self) -> bool: ...

class _StreamRequest(Protocol):
    @property
    def branches(self) -> Sequence[str] | None: ...
    @property
    def optional(self) -> Sequence[str]: ...
    @property
    def step(self) -> _Step: ...
    @property
    def threads(self) -> int: ...
    @property
    def memory_limit_bytes(self) -> int: ...
    @property
    def memory_parts(self) -> int: ...
    @property
    def keeps_values(self) -> bool: ...
    @property
    def access(self) -> Access: ...

@final
class FailedSource:
    """A source that cannot be read on: its number, why, and the chunk that failed if there is one."""

    source_index: int
    error: BaseException
    chunk: Chunk | None

@final
class Stream:
    """Chunks of many sources in their order, which threads of the engine prefetch."""

    def __new__(cls, sources: Sequence[_Source], request: _StreamRequest) -> Stream: ...
    def next(self) -> Chunk | FailedSource | None:
        """The next chunk, or a source that cannot be read on; None at the end."""

    def records(self) -> StreamRecords:
        """What was read so far and what it cost."""

    def close(self) -> None:
        """Stops prefetching, and ends the threads."""

@final
class Chunk:
    """A range of entries of one tree, of source ``source_index``, with the columns that were read for it."""

    source_index: int
    path: str
    tree_path: str
    recovered_count: int
    tree_entries: int
    entry_start: int
    entry_stop: int
    def branches(self) -> list[str]:
        """The paths of the branches that were read."""

    def tree(self) -> Tree:
        """The tree that the chunk is a part of."""

    def take_columns(self) -> list[Column]:
        """The columns, in the order of `branches`. Can be called once."""

    def read_late(self, name: str) -> Column:
        """Reads the column of another branch for the same entries, now."""

@final
class Decompressed:
    """What decompressing without decoding took."""

    seconds: float
    baskets: int
    compressed_bytes: int
    plain_bytes: int

def decompress_all(
    paths: list[str],
    tree: str | None = None,
    branches: list[str] | None = None,
    threads: int = 1,
    codec: str | None = None,
) -> Decompressed:
    """Only decompresses all baskets of these branches, or with ``codec`` also compresses them again: the limit that
    reading is compared with.
    """

@final
class Compared:
    """How outputs differ from inputs: all trees, the number of other objects that are the same, and sentences on
    those that differ.
    """

    trees: list[ComparedTree]
    objects: int
    differences: list[str]

@final
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
    filled: list[FilledBranch]

@final
class DifferingBranch:
    """A branch whose baskets differ, and how."""

    name: str
    reason: str

def compare(outputs: list[str], inputs: list[str], tree: str | None, access: Access | None) -> Compared:
    """Compares outputs with inputs, basket by basket and object by object."""

@final
class ColumnsFile:
    """A ROOT file that is made from columns, which have the form of `Chunk.take_columns`."""

    @staticmethod
    def ntuple(
        target: Target, layout: Layout, names: list[str], columns: list[Column], shown: list[ShownField]
    ) -> ColumnsFile:
        """Begins an RNTuple with fields for columns like these."""

    @staticmethod
    def tree(target: Target, layout: Layout, names: list[str], columns: list[Column]) -> ColumnsFile:
        """Begins a TTree with branches for columns like these."""

    def fill(self, columns: list[Column], count: int) -> None:
        """Adds ``count`` entries, with a column of each field."""

    def abandon(self) -> None:
        """Removes the unfinished file."""

    def finish(self) -> WrittenFile:
        """Ends the file, and gives it its name."""

@final
class WrittenFile:
    """What was written: entries, clusters and bytes."""

    entries: int
    clusters: int
    size_bytes: int

@final
class WrittenKey:
    """An object or a directory of a file that is being written."""

    path: str
    cycle: int
    class_name: str
    title: str

@final
class WritableFile:
    """A ROOT file that is being written; it has its name when it is published or finished."""

    def __new__(cls, path: Path, replace: bool, codec: str) -> WritableFile:
        """Raises StorageError where no file can be made, ValueError for an unknown codec."""

    @staticmethod
    def update(path: Path, codec: str | None) -> WritableFile:
        """Begins a copy of a file, which replaces it when it is published.

        Raises what opening raises, UnsupportedBranchError.
        """

    def keys(self) -> list[WrittenKey]:
        """What is in it, in the order in which it was written."""

    def add_directory(self, names: list[str]) -> None:
        """Makes a directory, and those around it. Raises StorageError."""

    def add(self, directories: list[str], class_name: str, name: str, title: str, content: bytes) -> int:
        """Writes an object, whose bytes are as ROOT streams it, into a directory, which is made if it is missing.

        Returns its cycle. Raises StorageError.
        """

    def copy(self, source: File, path: str, directories: list[str], name: str, differences: Differences) -> int:
        """Copies an object of another file, with differences.

        Raises NoSuchKeyError, UnsupportedBranchError, StorageError.
        """

    def copy_tree(self, source: File, path: str, directories: list[str], name: str, codec: str) -> list[str]:
        """Copies a tree or an RNTuple of another file, compressed like ``codec``; of one that fails nothing is kept.

        Returns sentences on what was left out. Raises NoSuchKeyError, UnsupportedBranchError, BadFileError,
        StorageError.
        """

    def add_table(self, directories: list[str], table: NewTable) -> int:
        """Begins a tree or an RNTuple, and returns its number. Raises UnsupportedBranchError, StorageError."""

    def resume_table(self, old: File, path: str, table: NewTable, counts: dict[str, int]) -> int:
        """Continues a tree or an RNTuple that the file had before, which ``old`` still has, and returns its number.
        ``counts`` are the largest numbers of its counters. Raises UnsupportedBranchError for what is only read.
        """

    def add_columns(
        self,
        table: int,
        names: list[str],
        columns: list[Column],
        counters: list[str | None],
        descriptions: list[list[tuple[str, str]]],
    ) -> None:
        """Adds branches or fields, with a value for each entry so far. Raises UnsupportedBranchError.

        ``descriptions`` are those of the fields of an RNTuple by their paths, for each column.
        """

    def fill(self, table: int, columns: list[Column], count: int) -> None:
        """Adds ``count`` entries to a tree, with a column of each field."""

    def remove(self, path: str, cycle: int | None = None) -> None:
        """Removes what has this path: one cycle, or all. Raises NoSuchKeyError, StorageError."""

    def publish(self) -> None:
        """Makes everything that is finished visible under the name of the file. Raises StorageError."""

    def is_published(self) -> bool:
        """Whether the file has its name."""

    def abandon(self) -> None:
        """Closes the file as it was published; one that never was is removed."""

    def finish(self) -> int:
        """Ends the file and returns its size in bytes. Raises StorageError."""

@final
class NewFile:
    """A file that other code writes at ``temporary``; it has its name only when it is published."""

    temporary: Path
    def __new__(cls, path: Path, inputs: list[str], replace: bool) -> NewFile:
        """Raises StorageError where no file can be made, or where it is one of its inputs."""

    def publish(self) -> None:
        """Syncs it to the disk, and gives it its name. Raises StorageError; ValueError where it is closed."""

    def abandon(self) -> None:
        """Removes the file, unless it is published."""

@final
class Merge:
    """A merge. One thread runs it; others may read its progress and stop it."""

    files_done: int
    bytes_done: int
    def __new__(cls, request: MergeRequest) -> Merge:
        """Raises ValueError for an invalid option."""

    def stop(self) -> None:
        """Ends the merge soon, and removes its files."""

    def run(self) -> Merged:
        """Merges. Raises the errors of `branchline.merge`."""

@final
class Merged:
    """What a merge made: the outputs, files that are in them, trees with entries and baskets, other objects, bytes, and
    sentences on what is not in them (``left_out``) and other notes.
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
    filled: list[FilledBranch]
    skipped: list[SkippedInput]

@final
class FilledBranch:
    """A branch of a tree that some files lack, with their number: their entries have 0 or nothing in it."""

    tree: str
    name: str
    files: int
    entries: int

@final
class SkippedInput:
    """An input that was left out, and why."""

    path: str
    reason: str

def trace_begin(folder: str) -> None:
    """Records every request from now on, in a file of this process in the folder. Raises OSError."""

def trace_end() -> None:
    """Ends the recording; all of it is in the file. Raises OSError if a part of it could not be written."""

def trace_is_on() -> bool:
    """Whether requests are being recorded."""

def trace_wagon(name: str) -> None:
    """The wagon for which this thread reads from now on; ``""`` for none."""

def trace_did(what: str, wagon: str, seconds: float) -> None:
    """Records what this thread has done until now, with its duration in seconds. Raises ValueError for no duration."""

@final
class PlannedReads:
    """The calls that reading a file makes: ranges in columns of one length, with the number of the call of each.

    ``purposes`` are those of the calls, ``chunk_of_call`` the number of the chunk that needs each. ``seen`` is what
    the next file is read by.
    """

    call: Buffer
    offset: Buffer
    size: Buffer
    purposes: list[Literal["opening", "baskets", "prefetch", "staging"]]
    chunk_of_call: Buffer
    chunks: int
    calls_in_flight: int
    bytes_in_flight: int
    is_whole: bool
    opens_ahead: bool
    seen: tuple[int, float] | None

class _LaidFile(Protocol):
    """A file and its wanted branches, as a ``branchline.lab.forecast.laid_file.LaidFile``."""

    @property
    def size_bytes(self) -> int: ...
    @property
    def is_at_a_server(self) -> bool: ...
    @property
    def is_near(self) -> bool: ...
    @property
    def store_gap_bytes(self) -> int: ...
    @property
    def metadata(self) -> Sequence[Sequence[tuple[int, int]]]: ...
    @property
    def infos(self) -> tuple[int, int] | None: ...
    @property
    def is_ntuple(self) -> bool: ...
    @property
    def entries(self) -> int: ...
    @property
    def extents(self) -> Sequence[Sequence[tuple[int, int, int, int]]]: ...
    @property
    def unwanted_first(self) -> Sequence[tuple[int, int]]: ...
    @property
    def stored_per_entry(self) -> float: ...
    @property
    def plain_per_entry(self) -> float: ...
    @property
    def values_per_entry(self) -> float: ...
    @property
    def scratch_bytes(self) -> int: ...

class _PlanRequest(Protocol):
    """How a file is read, as a ``branchline.lab.forecast.planned_requests.PlanRequest``."""

    @property
    def access(self) -> Access: ...
    @property
    def link(self) -> tuple[float, float] | None: ...
    @property
    def step_bytes(self) -> int: ...
    @property
    def step_entries(self) -> int | None: ...
    @property
    def has_even_steps(self) -> bool: ...
    @property
    def memory_limit_bytes(self) -> int: ...
    @property
    def threads(self) -> int: ...
    @property
    def is_named(self) -> bool: ...
    @property
    def seen(self) -> tuple[int, float] | None: ...
    @property
    def entries(self) -> tuple[int, int] | None: ...
    @property
    def opening(self) -> str: ...

def plan_reads(file: _LaidFile, request: _PlanRequest) -> PlannedReads | None:
    """The calls that reading a file would make; None if the memory limit is too small for it."""

class _SimulatedPlatform(Protocol):
    """A platform with numbers in place of names; its parts are those of
    ``branchline.lab.simulation.simulated_jobs``.
    """

    @property
    def disks(self) -> Sequence[object]: ...
    @property
    def servers(self) -> Sequence[object]: ...
    @property
    def links(self) -> Sequence[object]: ...
    @property
    def caches(self) -> Sequence[object]: ...
    @property
    def storages(self) -> Sequence[object]: ...
    @property
    def nodes(self) -> Sequence[object]: ...

class _SimulatedPlan(Protocol):
    """The blocks of a job, and how its reading runs ahead."""

    @property
    def blocks(self) -> Sequence[object]: ...
    @property
    def reading(self) -> object: ...

class _SimulatedJob(Protocol):
    """A job: the number of its plan, and of its node or None."""

    @property
    def plan(self) -> int: ...
    @property
    def node(self) -> int | None: ...
    @property
    def start_s(self) -> float: ...
    @property
    def prepare_s(self) -> float: ...
    @property
    def cpu_factor(self) -> float: ...
    @property
    def data(self) -> int: ...

@final
class Simulation:
    """Jobs on a platform, in virtual time. Raises OptionError for a platform, a plan or a job that makes no sense."""

    now_s: float
    def __new__(cls, platform: _SimulatedPlatform) -> Simulation: ...
    def add_plan(self, plan: _SimulatedPlan) -> int:
        """A plan for jobs; returns its number."""

    def submit(self, job: _SimulatedJob) -> int:
        """A job that comes at its time, or now if that has passed; returns its number."""

    def cancel(self, job: int) -> None:
        """Ends a job where it stands."""

    def next_done(self, until_s: float) -> JobDone | None:
        """The next job that is done until this time; None if none is."""

    def all_done(self) -> list[JobDone]:
        """Runs all jobs to their ends, and returns them in the order of these."""

    def uses(self) -> list[ResourceUse]:
        """How each resource was used until now."""

    def totals(self) -> SimulationTotals:
        """What is known of all jobs."""

@final
class JobDone:
    """A job that is done, with its node, when it came, began and ended, what it read, and what of that a cache had."""

    job: int
    node: int
    start_s: float
    begin_s: float
    end_s: float
    read_bytes: float
    cached_bytes: float
    cpu_s: float
    computing_s: float

@final
class ResourceUse:
    """What a resource gives a second, and gave, and how long it held requests back, summed over these. ``kind`` is
    disk, operations, server, link, cores or network; ``number`` is that of the disk, the link or the kind of nodes.
    """

    kind: str
    number: int
    units_per_s: float
    moved: float
    limited_s: float

@final
class SimulationTotals:
    """Seconds of requests and computations, summed; events; and what finding rates has cost: levels of one resource
    that were found, flows that got another bottleneck, and computations of all connected rates from nothing.
    """

    round_trips_s: float
    transfers_s: float
    computing_s: float
    events_count: int
    levels_count: int
    moves_count: int
    fillings_count: int
