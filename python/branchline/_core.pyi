"""Types of the compiled module. `make check-python` compares them with the module itself.

Paths may be URLs. Raised errors are classes in `branchline.errors`; a bug in the module raises InternalError. Times are
in seconds and sizes in bytes. Entries are numbered from 0 within a tree.
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
from branchline.writing.columns.output_file import Layout, NewTable, Target
from branchline.writing.merging.merge import MergeRequest
from branchline.writing.recreate.copies import Differences

__version__: str
#: All codecs of ROOT files.
CODECS: tuple[Codec, ...]
#: The maximum compression level, for every codec with levels; the minimum is 1.
CODEC_LEVEL_MAX: int
#: Number of bytes that the first read of a file requests.
HEAD_BYTES: int
#: Number of entries from which the access mode `cache` learns which branches are read.
LEARN_ENTRIES: int

@final
class Buffer:
    """Read-only memory of the engine that contains bytes or 64-bit integers, which NumPy can use without a copy."""

    def __len__(self) -> int:
        """Size in bytes."""

    # Python before 3.12 does not call this method.
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Codec:
    """A codec of ROOT's compressed records, or "none".

    ``root_number`` is ROOT's number for the codec. ``default_level`` is the level that ROOT recommends, or None if
    Branchline can only read the codec.
    """

    @property
    def name(self) -> str: ...
    @property
    def root_number(self) -> int: ...
    @property
    def default_level(self) -> int | None: ...

@disjoint_base
class Column:
    """The values of a branch, as an instance of one of the nested classes. The ``content`` and ``contents`` of nested
    values are columns too. Arrays from the engine are read-only. Numbers are in native byte order, offsets are 64-bit.
    """

    @final
    class Flat(Column):
        """Numbers. ``dtype`` is NumPy's name of their type, or "unknown" if there are no values."""

        __match_args__ = ("dtype", "values")
        def __new__(cls, dtype: str, values: NDArray[Any]) -> Column.Flat: ...
        @property
        def dtype(self) -> str: ...
        @property
        def values(self) -> NDArray[Any]: ...

    @final
    class Regular(Column):
        """Arrays that have ``size`` values each."""

        __match_args__ = ("size", "content")
        def __new__(cls, size: int, content: Column) -> Column.Regular: ...
        @property
        def size(self) -> int: ...
        @property
        def content(self) -> Column: ...

    @final
    class List(Column):
        """Lists of any length. The number of offsets is the number of lists plus one."""

        __match_args__ = ("offsets", "content")
        def __new__(cls, offsets: NDArray[np.int64], content: Column) -> Column.List: ...
        @property
        def offsets(self) -> NDArray[np.int64]: ...
        @property
        def content(self) -> Column: ...

    @final
    class Text(Column):
        """Strings: their concatenated bytes in ``letters``, and offsets as for lists."""

        __match_args__ = ("offsets", "letters")
        def __new__(cls, offsets: NDArray[np.int64], letters: NDArray[np.uint8]) -> Column.Text: ...
        @property
        def offsets(self) -> NDArray[np.int64]: ...
        @property
        def letters(self) -> NDArray[np.uint8]: ...

    @final
    class Record(Column):
        """``count`` records, optionally of a class. ``contents`` has one column for each field name."""

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
        """``count`` records with unnamed fields."""

        __match_args__ = ("contents", "count")
        def __new__(cls, contents: Sequence[Column], count: int) -> Column.Tuple: ...
        @property
        def contents(self) -> list[Column]: ...
        @property
        def count(self) -> int: ...

    @final
    class Option(Column):
        """Optional values. ``valid`` has one byte per value, 1 if the value is present. ``content`` contains only the
        values that are present.
        """

        __match_args__ = ("valid", "content")
        def __new__(cls, valid: NDArray[np.uint8], content: Column) -> Column.Option: ...
        @property
        def valid(self) -> NDArray[np.uint8]: ...
        @property
        def content(self) -> Column: ...

    @final
    class Union(Column):
        """Values of several types. ``tags`` has one byte per value with the index of its type in ``contents``."""

        __match_args__ = ("tags", "contents")
        def __new__(cls, tags: NDArray[np.uint8], contents: Sequence[Column]) -> Column.Union: ...
        @property
        def tags(self) -> NDArray[np.uint8]: ...
        @property
        def contents(self) -> list[Column]: ...

@final
class FolderListing:
    """The listing of a folder on a server: the format of the responses, and their bytes."""

    form: ListingForm
    pages: list[bytes]

def list_folder(url: str, access: Access | None = None, once: bool = False) -> FolderListing:
    """List a folder on a server. ``once`` disables retries. Raises MissingFileError, StorageError."""

def prefer_replicas(ranks: list[ReplicaRank]) -> None:
    """Make this process read the replicas of a file in the order of these ranks."""

def silent_elements() -> list[str]:
    """Return the storage elements that recently did not answer, in this process or as told to `avoid_silent`."""

def avoid_silent(elements: list[str]) -> None:
    """Make this process read replicas on these storage elements last for some minutes, because they did not answer."""

def set_base_directory(directory: str | None) -> None:
    """Set the directory against which relative paths of input files are resolved; None restores the working
    directory.
    """

def size_and_identity(url: str, access: Access | None = None) -> tuple[int, str | None]:
    """Return the size and the identity of a file on a server, without retries. The identity changes if the file
    changes. ``url`` may list several replicas. Raises MissingFileError, StorageError.
    """

def listing_wait_s(url: str, access: Access | None, once: bool) -> float:
    """Return the timeout in seconds for Python libraries that list a folder."""

def wait_settings() -> list[tuple[str, str, float, float, float]]:
    """Return the timeout and retry settings of Access: their names, environment variables, minima, maxima and
    defaults.
    """

def environment_names() -> list[str]:
    """Return the names of the environment variables that the engine reads."""

def longest_wait_s(access: Access, size_bytes: int) -> float:
    """Return the maximum duration in seconds of a call that reads this number of bytes, including all retries."""

@final
class Link:
    """The measured network link to a storage element, and the request sizes chosen for the link."""

    name: str
    round_trip_s: float
    bytes_per_second: float
    gap_bytes: int
    requests_in_flight: int
    bytes_in_flight: int

def links_chosen(access: Access) -> list[Link]:
    """Return the links to all storage elements that this process has read from."""

def link_chosen(access: Access, round_trip_s: float, bytes_per_second: float, gap_bytes: int) -> Link:
    """Return the request sizes for a link with these properties. ``gap_bytes`` is the default gap for coalescing
    ranges; a bandwidth of 0 means that it is unknown. Raises ValueError for a negative round trip.
    """

@final
class Key:
    """A key in a file: the path of an object, its cycle, its class and its title."""

    path: str
    cycle: int
    class_name: str
    title: str
    is_tree: bool

@final
class File:
    """An open file. Opening reads only metadata. Raises MissingFileError, BadFileError, StorageError.

    ``store`` is the name of the storage element. ``is_near`` is true for a local disk. ``recovered_count`` is the
    number of keys that were recovered because the file was not closed properly. ``uuid`` is ROOT's identifier of the
    file. ``compress`` is its compression setting: 100 times the codec's number, plus the level.
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
        """Return the offset and size of the record with the streamer infos; None if the file has no such record."""

    def metadata_requests(self) -> list[list[tuple[int, int]]]:
        """Return, for each previous request for metadata, the offsets and sizes of its ranges."""

    def keys_below(self, path: str) -> list[Key]:
        """Return all keys in a directory and its subdirectories; ``""`` is the root directory of the file."""

    def keys_in(self, path: str) -> list[Key]:
        """Return the keys in a directory, without subdirectories."""

    def find(self, path: str) -> list[Key]:
        """Return the keys with this path, one for each cycle."""

    def object(self, path: str) -> _StoredValue:
        """Read an object that is not a tree. Raises NoSuchKeyError, UnsupportedBranchError."""

    def tree_members(self, path: str) -> _StoredValue:
        """Return the members of a TTree. Raises NoSuchKeyError."""

    def lineage(self, class_name: str) -> list[str]:
        """Return the name of a class, followed by the names of all its base classes."""

    def tree(self, path: str | None = None) -> Tree:
        """Open the tree with this path, or the only tree of the file. Raises NoSuchKeyError, BadFileError."""

@final
class StoredObject:
    """An object in a file: its class, and its members by name."""

    @property
    def class_name(self) -> str: ...
    @property
    def members(self) -> dict[str, _StoredValue]: ...

# A value in a file. Values that are not a single number, string or object are a Column with one value.
_StoredValue: TypeAlias = int | float | str | StoredObject | Column

@final
class OutlineRow:
    """A branch in the hierarchy of its tree.

    ``name`` is the last part of its path, ``parent`` the index of its parent. ``kind`` is ``data``, ``group`` or
    ``unreadable``. ``counter`` is the index of the branch with its number of elements.
    """

    name: str
    parent: int | None
    kind: Literal["data", "group", "unreadable"]
    counter: int | None

@final
class BranchFacts:
    """The metadata of a branch.

    ``kind`` is ``data``, ``group`` (the branch only contains other branches) or ``unreadable``; ``reason`` says why it
    is unreadable. ``compress`` is ROOT's compression setting: 100 times the codec's number, plus the level. ``is_part``
    is true if the bytes of the branch are included in those of its parent.
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
    """Bytes per entry of some branches: as stored in the file, and after decompression."""

    stored: float
    plain: float

@final
class Extents:
    """The positions of baskets or pages, as columns of 64-bit integers with one row per basket or page.

    ``branch`` is the index of the branch. ``offset`` and ``size`` are its position and length in the file in bytes. The
    basket contains the entries from ``entry_start`` up to, but not including, ``entry_stop``.
    """

    branch: Buffer
    offset: Buffer
    size: Buffer
    entry_start: Buffer
    entry_stop: Buffer

@final
class Tree:
    """An open TTree or RNTuple. Branches are identified by indices; a parent precedes its children.

    ``separator`` separates the names in a path. If the tree ``nests``, a branch contains all data of its sub-branches.
    ``has_relatives`` is true if the tree has aliases, an index or friends.
    """

    path: str
    title: str
    separator: str
    nests: bool
    has_relatives: bool
    entries_count: int
    def paths(self) -> list[str]:
        """Return the paths of all branches."""

    def outline(self) -> list[OutlineRow]:
        """Return the hierarchy of all branches."""

    def entry_offsets(self, index: int) -> list[int]:
        """Return the first entry of each basket of a branch, followed by the end of the last basket."""

    def extents(self, indices: list[int]) -> Extents:
        """Return the positions of the baskets or pages of these branches, grouped by branch. Raises BadFileError,
        StorageError.
        """

    def codecs_in_baskets(self, indices: list[int]) -> list[str | None]:
        """Return the codec of the first basket of each of these branches; None for a branch that has no baskets or
        whose metadata already contain its codec.
        """

    def readable(self) -> list[str]:
        """Return the paths of all branches that can be read."""

    def find(self, name: str) -> int:
        """Return the index of the branch with this path, or of the only branch that matches a shorter name.

        Raises NoSuchKeyError.
        """

    def check_readable(self, name: str) -> None:
        """Raise the error that reading the branch would raise."""

    def empty_columns(self, names: list[str]) -> list[Column]:
        """Return columns without entries that have the types of these branches."""

    def basket_borders(self) -> list[int]:
        """Return the entries at which the tree can be split into parts such that few baskets belong to two parts."""

    def bytes_per_entry(self, indices: list[int]) -> BytesPerEntry:
        """Return the average number of bytes per entry of these branches."""

    def memory_needs(self, indices: list[int]) -> tuple[float, int]:
        """Return the memory per entry for the values of these branches, and the memory for decompressing the largest
        basket.
        """

    def branch(self, index: int) -> BranchFacts:
        """Return the metadata of a branch."""

@final
class Store:
    """The bytes of a file on any storage. Raises MissingFileError, StorageError.

    ``identity`` changes if the file is replaced; None if the storage does not provide one. ``remarks`` are sentences
    for the user, such as the reason why nothing is cached.
    """

    name: str
    path: str
    identity: str | None
    size_bytes: int
    remarks: list[str]
    def __new__(cls, path: str, access: Access | None = None) -> Store: ...
    def read(self, ranges: list[ByteRange]) -> RangesRead:
        """Read these ranges. Raises BadFileError if a range extends beyond the end of the file."""

@final
class WantedRange:
    """A range that a Python library reads on behalf of a store: ``length`` bytes starting at ``offset``."""

    offset: int
    length: int
    def append(self, content: bytes) -> None:
        """Append the next bytes. Raises ValueError if the total exceeds ``length`` bytes or the read has already
        ended.
        """

@final
class RangesRead:
    """The contents of several ranges, in order. ``read_calls`` is the number of read calls. ``bytes_read`` is the
    number of bytes transferred, including gaps between ranges that were read together.
    """

    contents: list[memoryview]
    read_calls: int
    bytes_read: int

@final
class ProxyCounts:
    """Traffic counters of a proxy."""

    connections: int
    to_server_bytes: int
    to_client_bytes: int
    faults: int

@final
class Proxy:
    """A proxy that delays and breaks connections on purpose, for tests. Raises ValueError, OSError."""

    address: str
    port: int
    def __new__(cls, listen: str, target: str, throttle: str, fault: str | None = None) -> Proxy: ...
    def counts(self) -> ProxyCounts:
        """Return the current counters."""

    def close(self) -> None:
        """Close all connections and stop listening."""

def without_secrets(text: str) -> str:
    """Return a URL, or text that contains URLs, without passwords and tokens."""

@final
class Troubles:
    """Counts of failures at a storage element, and the time that they cost in seconds. `TroubleRecord` has the same
    fields.
    """

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
    """Return the failures at each storage element since the last call of this function."""

def check_trouble(throttle: str | None = None, fault: str | None = None) -> None:
    """Validate values of the options ``throttle`` and ``fault``, which simulate slow and failing storage. Raises
    ValueError.
    """

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
    """A source that cannot be read further: its index, the error, and the chunk that failed, or None."""

    source_index: int
    error: BaseException
    chunk: Chunk | None

@final
class Stream:
    """The chunks of many sources, in order. Threads of the engine prefetch them."""

    def __new__(cls, sources: Sequence[_Source], request: _StreamRequest) -> Stream: ...
    def next(self) -> Chunk | FailedSource | None:
        """Return the next chunk, or a source that cannot be read further; None after the last chunk."""

    def records(self) -> StreamRecords:
        """Return the records of all reads so far."""

    def close(self) -> None:
        """Stop prefetching and join the engine's threads."""

@final
class Chunk:
    """A range of entries of a tree in the source with index ``source_index``, with the decoded columns."""

    source_index: int
    path: str
    tree_path: str
    recovered_count: int
    tree_entries: int
    entry_start: int
    entry_stop: int
    def branches(self) -> list[str]:
        """Return the paths of the decoded branches."""

    def tree(self) -> Tree:
        """Return the tree that contains the entries."""

    def take_columns(self) -> list[Column]:
        """Return the columns in the order of `branches`. Can be called only once."""

    def read_late(self, name: str) -> Column:
        """Read another branch for the entries of the chunk, without prefetching."""

@final
class Decompressed:
    """The cost of decompression without decoding."""

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
    """Decompress all baskets of these branches without decoding, to measure the maximum speed of reading. With
    ``codec``, each basket is also compressed again, to measure the maximum speed of recompressing.
    """

@final
class Compared:
    """The result of comparing output files with input files.

    ``trees`` has an entry for each tree. ``objects`` is the number of other objects that are equal. ``differences`` are
    sentences about objects that differ.
    """

    trees: list[ComparedTree]
    objects: int
    differences: list[str]

@final
class ComparedTree:
    """The result of comparing a tree.

    ``entries``, ``baskets`` and ``branches`` are numbers in the outputs. ``same`` are branches with equal entries in
    different baskets, ``differing`` other branches whose baskets differ. ``differences`` are sentences about content
    that is missing on one side. ``filled`` are branches that some inputs lack.
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
    """A branch whose baskets differ, with a sentence about the difference."""

    name: str
    reason: str

def compare(outputs: list[str], inputs: list[str], tree: str | None, access: Access | None) -> Compared:
    """Compare output files with input files, basket by basket and object by object."""

@final
class ColumnsFile:
    """A ROOT file written from columns as returned by `Chunk.take_columns`."""

    @staticmethod
    def ntuple(
        target: Target, layout: Layout, names: list[str], columns: list[Column], shown: list[ShownField]
    ) -> ColumnsFile:
        """Create an RNTuple with a field for each column. Only the types of the columns' values are used."""

    @staticmethod
    def tree(target: Target, layout: Layout, names: list[str], columns: list[Column]) -> ColumnsFile:
        """Create a TTree with a branch for each column. Only the types of the columns' values are used."""

    def fill(self, columns: list[Column], count: int) -> None:
        """Append ``count`` entries, given as one column per field or branch."""

    def abandon(self) -> None:
        """Remove the unfinished file."""

    def finish(self) -> WrittenFile:
        """Finish the file and rename it to its final name."""

@final
class WrittenFile:
    """The size of a written file: numbers of entries and clusters, and bytes."""

    entries: int
    clusters: int
    size_bytes: int

@final
class WrittenKey:
    """The key of an object or directory in a file that is being written."""

    path: str
    cycle: int
    class_name: str
    title: str

@final
class WritableFile:
    """A ROOT file that is being written. The file gets its final name when it is published or finished."""

    def __new__(cls, path: Path, replace: bool, codec: str) -> WritableFile:
        """Create a file. Raises StorageError if that fails, and ValueError for an unknown codec."""

    @staticmethod
    def update(path: Path, codec: str | None) -> WritableFile:
        """Create a copy of a file that can be changed. The copy replaces the file when it is published.

        Raises the errors of opening a file, and UnsupportedBranchError.
        """

    def keys(self) -> list[WrittenKey]:
        """Return the keys in the order in which they were written."""

    def add_directory(self, names: list[str]) -> None:
        """Create a directory and its missing parents. Raises StorageError."""

    def add(self, directories: list[str], class_name: str, name: str, title: str, content: bytes) -> int:
        """Write an object, given in ROOT's serialization, into a directory, which is created if necessary.

        Returns the cycle of the new key. Raises StorageError.
        """

    def copy(self, source: File, path: str, directories: list[str], name: str, differences: Differences) -> int:
        """Copy an object from another file, with these differences. Returns the cycle of the new key.

        Raises NoSuchKeyError, UnsupportedBranchError, StorageError.
        """

    def copy_tree(self, source: File, path: str, directories: list[str], name: str, codec: str) -> list[str]:
        """Copy a tree or an RNTuple from another file, compressed with ``codec``. After an error, no part of the copy
        is kept.

        Returns sentences about content that was left out. Raises NoSuchKeyError, UnsupportedBranchError, BadFileError,
        StorageError.
        """

    def add_table(self, directories: list[str], table: NewTable) -> int:
        """Create a tree or an RNTuple and return its index for `fill`. Raises UnsupportedBranchError, StorageError."""

    def resume_table(self, old: File, path: str, table: NewTable, counts: dict[str, int]) -> int:
        """Resume filling a tree or an RNTuple that is already in the file, as read from ``old``. Returns its index for
        `fill`.

        ``counts`` are the maximum values of its counters. Raises UnsupportedBranchError for a table that cannot be
        written.
        """

    def add_columns(
        self,
        table: int,
        names: list[str],
        columns: list[Column],
        counters: list[str | None],
        descriptions: list[list[tuple[str, str]]],
    ) -> None:
        """Add branches or fields to a table, with a value for each existing entry. Raises UnsupportedBranchError.

        ``descriptions`` has, for each column, pairs of the path and the description of an RNTuple field.
        """

    def fill(self, table: int, columns: list[Column], count: int) -> None:
        """Append ``count`` entries to a table, given as one column per field or branch."""

    def remove(self, path: str, cycle: int | None = None) -> None:
        """Remove the keys with this path: one cycle, or all cycles. Raises NoSuchKeyError, StorageError."""

    def publish(self) -> None:
        """Make all finished content visible under the final name of the file. Raises StorageError."""

    def is_published(self) -> bool:
        """Return whether the file has been published."""

    def abandon(self) -> None:
        """Close the file in its last published state, or remove it if it was never published."""

    def finish(self) -> int:
        """Finish the file and return its size in bytes. Raises StorageError."""

@final
class NewFile:
    """A file that other code writes to the path ``temporary``. The file gets its final name only when it is
    published.
    """

    temporary: Path
    def __new__(cls, path: Path, inputs: list[str], replace: bool) -> NewFile:
        """Prepare writing a file to ``path``. Raises StorageError if the file cannot be created or is one of the
        inputs.
        """

    def publish(self) -> None:
        """Sync the file to disk and rename it to its final name. Raises StorageError, and ValueError if it was already
        closed.
        """

    def abandon(self) -> None:
        """Remove the file unless it was published."""

@final
class Merge:
    """A merge that one thread runs. Other threads may read its progress and stop it."""

    files_done: int
    bytes_done: int
    def __new__(cls, request: MergeRequest) -> Merge:
        """Create a merge without starting it. Raises ValueError for an invalid option."""

    def stop(self) -> None:
        """Ask the merge to stop soon and to remove its outputs."""

    def run(self) -> Merged:
        """Run the merge. Raises the same errors as `branchline.merge`."""

@final
class Merged:
    """The result of a merge.

    ``files`` is the number of input files, ``objects`` the number of objects that are not trees. ``basket_bytes`` is
    the size of all baskets, ``size_bytes`` that of the outputs. ``left_out`` are sentences about content that was left
    out, ``notes`` other remarks. ``filled`` are branches that some inputs lack, ``skipped`` are inputs that were not
    merged.
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
    """A branch that is missing in ``files`` input files, whose ``entries`` are filled with 0 or empty values."""

    tree: str
    name: str
    files: int
    entries: int

@final
class SkippedInput:
    """An input file that was skipped, and the reason."""

    path: str
    reason: str

def trace_begin(folder: str) -> None:
    """Start recording all requests of this process, in a new file in ``folder``. Raises OSError."""

def trace_end() -> None:
    """Stop recording and write all remaining records to the file. Raises OSError if not all records could be
    written.
    """

def trace_is_on() -> bool:
    """Return whether requests are being recorded."""

def trace_wagon(name: str) -> None:
    """Set the wagon to which the reads of this thread are attributed from now on; ``""`` for no wagon."""

def trace_did(what: str, wagon: str, seconds: float) -> None:
    """Record an activity of this thread that lasted ``seconds`` and ends now. Raises ValueError for an invalid
    duration.
    """

@final
class PlannedReads:
    """The calls for reading a file. ``call``, ``offset`` and ``size`` are columns with one row per range; ``call`` is
    the index of the call that reads the range.

    ``purposes`` has the purpose of each call, ``chunk_of_call`` the index of the chunk that needs it. ``seen`` is the
    observation to pass on when the next file is planned.
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
    """A file and its wanted branches, such as a ``branchline.lab.forecast.laid_file.LaidFile``."""

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
    """The settings for reading a file, such as a ``branchline.lab.forecast.planned_requests.PlanRequest``."""

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
    """Return the calls that reading the file would make; None if the memory limit is too small for the file."""

class _SimulatedPlatform(Protocol):
    """A platform that refers to its parts by index instead of by name, such as a
    ``branchline.lab.simulation.simulated_jobs.NumberedPlatform``.
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
    """The blocks that a job reads, and how far reading runs ahead of computing."""

    @property
    def blocks(self) -> Sequence[object]: ...
    @property
    def reading(self) -> object: ...

class _SimulatedJob(Protocol):
    """A job: the index of its plan, and the index of its node or None."""

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
    """A simulation of jobs on a platform in virtual time. Raises OptionError for an invalid platform, plan or job."""

    now_s: float
    def __new__(cls, platform: _SimulatedPlatform) -> Simulation: ...
    def add_plan(self, plan: _SimulatedPlan) -> int:
        """Add a plan that jobs can use, and return its index."""

    def submit(self, job: _SimulatedJob) -> int:
        """Submit a job that starts at its ``start_s``, or now if that time has passed. Returns the index of the job."""

    def cancel(self, job: int) -> None:
        """Stop a job immediately."""

    def next_done(self, until_s: float) -> JobDone | None:
        """Return the next job that finishes before this time; None if no job does."""

    def all_done(self) -> list[JobDone]:
        """Run all jobs to their end, and return them in the order in which they finish."""

    def uses(self) -> list[ResourceUse]:
        """Return the usage of each resource so far."""

    def totals(self) -> SimulationTotals:
        """Return totals of all jobs."""

@final
class JobDone:
    """A finished job.

    ``node`` is the index of its node. ``start_s`` is the time of its submission, ``begin_s`` the time at which it got a
    slot, and ``end_s`` the time at which it finished. ``cached_bytes`` is the part of ``read_bytes`` that came from a
    cache.
    """

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
    """The usage of a resource.

    ``kind`` is disk, operations, server, link, cores or network. ``number`` is the index of the disk, server, link or
    node type. ``units_per_s`` is its capacity, ``moved`` the number of units that it provided. ``limited_s`` is the
    time during which it limited requests or computations, summed over them.
    """

    kind: str
    number: int
    units_per_s: float
    moved: float
    limited_s: float

@final
class SimulationTotals:
    """Totals over all requests and computations in seconds, the number of events, and the effort of computing rates.

    ``levels_count`` is the number of times that the level of a single resource was computed, ``moves_count`` the number
    of flows whose bottleneck changed, and ``fillings_count`` the number of complete computations of connected rates.
    """

    round_trips_s: float
    transfers_s: float
    computing_s: float
    events_count: int
    levels_count: int
    moves_count: int
    fillings_count: int
