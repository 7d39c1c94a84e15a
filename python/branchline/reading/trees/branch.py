"""Branch: one column of a tree, or a group of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import awkward as ak
import numpy as np

from branchline.base.codecs import Compression, codec_of_setting
from branchline.errors import OptionError
from branchline.reading.arrays.lazy import AccessLog
from branchline.reading.arrays.libraries import numpy_of
from branchline.reading.request import ReadRequest, check_virtual, dtype_of
from branchline.reading.trees.branches import Branches
from branchline.reading.trees.selection import Selector
from branchline.reading.trees.tree_reader import read, read_lazily

if TYPE_CHECKING:
    from branchline._core import BranchFacts
    from branchline.reading.trees.handles import BranchesHandle, BranchHandle, FileHandle, TreeHandle


class Branch(Branches["Branch"]):
    """A column of a tree, or a group of columns. As a mapping it holds its sub-branches.

    ``typename`` is the C++ type. ``compressed_bytes`` is the size in the file, ``plain_bytes`` the size after
    decompression. ``reason`` is why the branch cannot be read; None for a readable branch. Entries are numbered from 0
    in the tree.

    Reading raises UnsupportedBranchError for unsupported types, BadFileError for damaged baskets, and StorageError if
    the storage fails; each names the file and the branch.

        >>> branch = tree["Muon_pt"]
        >>> branch.typename, branch.array(entry_stop=3)
        ('float[]', <Array [[...], [...], [...]] type='3 * var * float32'>)
    """

    def __init__(self, tree: TreeHandle, number: int, facts: BranchFacts) -> None:
        self._tree = tree
        self._number = number
        self._facts = facts
        self.path = facts.path
        self.name = facts.name
        self.title = facts.title
        self.typename = facts.typename
        self.entries_count = facts.entries_count
        self.baskets_count = facts.baskets_count
        self.compressed_bytes = facts.compressed_bytes
        self.plain_bytes = facts.plain_bytes
        self.reason = facts.reason
        self.is_part = facts.is_part  # whether the parent's sizes include this branch

    def __repr__(self) -> str:
        return f"<Branch {self.path} {self.typename!r} of {self._tree.name}>"

    def __reduce__(self) -> tuple[object, ...]:
        return _branch_of, (self._tree, self._number)

    def __enter__(self) -> Branch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the branch can still be read."""
        self._tree.file.close()

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._tree.file.closed

    @property
    def description(self) -> str:
        """The title, for compatibility with RNTuples of uproot."""
        return self.title

    @property
    def aliases(self) -> dict[str, str]:
        """The aliases defined in the tree."""
        return self._tree.aliases

    @property
    def count_branch(self) -> Branch | None:
        """The branch with the number of elements per entry; None for a fixed length."""
        counter = self._tree.outline.counts[self._number]
        return None if counter is None else self._branch(counter)

    def _branch(self, index: int) -> Branch:
        return cast("Branch", self._tree.branch(index))

    @property
    def tree(self) -> TreeHandle:
        """The tree that contains this branch."""
        return self._tree

    @property
    def number(self) -> int:
        """Index of the branch in the tree, in depth-first order with parents first."""
        return self._number

    @property
    def index(self) -> int:
        """Index among the direct children of the parent."""
        return self._tree.outline.children(self._tree.outline.parents[self._number]).index(self._number)

    @property
    def file(self) -> FileHandle:
        """The file that contains this branch."""
        return self._tree.file

    @property
    def parent(self) -> BranchesHandle:
        """The parent branch, or the tree for a top-level branch."""
        parent = self._tree.outline.parents[self._number]
        return self._tree if parent is None else self._tree.branch(parent)

    @property
    def top_level(self) -> bool:
        """Whether the parent is the tree itself."""
        return self._tree.outline.parents[self._number] is None

    @property
    def object_path(self) -> str:
        """Path of the branch in the file, in uproot's notation."""
        return f"{self._tree.object_path}:{self._tree.outline.chain(self._number)}"

    @property
    def cache_key(self) -> str:
        """A globally unique key of the branch, in uproot's format."""
        parent = self._tree.outline.parents[self._number]
        above = f"{self._tree.cache_key}:" if parent is None else f"{self._tree.branch(parent).cache_key}/"
        return f"{above}{self.name}({self.index})"

    @property
    def num_entries(self) -> int:
        """Number of entries, for compatibility with uproot."""
        return self.entries_count

    @property
    def num_baskets(self) -> int:
        """Number of baskets, for compatibility with uproot."""
        return self.baskets_count

    @property
    def uncompressed_bytes(self) -> int:
        """Size after decompression, for compatibility with uproot."""
        return self.plain_bytes

    @property
    def compression_ratio(self) -> float:
        """Size after decompression divided by the size in the file; 1 for an empty branch."""
        return self.plain_bytes / self.compressed_bytes if self.compressed_bytes else 1.0

    @property
    def entry_offsets(self) -> list[int]:
        """The first entry of each basket, followed by the number of entries: shape (baskets + 1,). Raises BadFileError,
        StorageError.

            >>> branch.entry_offsets
            [0, 3]
        """
        return self._tree.entry_offsets(self._number)

    @property
    def readable(self) -> bool:
        """Whether the values can be read; if they cannot, ``reason`` explains why."""
        return self._facts.kind == "data"

    @property
    def is_group(self) -> bool:
        """Whether the branch only groups sub-branches and has no data of its own."""
        return self._facts.kind == "group"

    @property
    def codec(self) -> str | None:
        """The codec of the branch; None if the branch uses the codec of the file."""
        setting = self._facts.compress
        if setting < 0:
            return None
        if setting % 100 == 0:
            # uproot writes 0 for every codec, so only the sizes tell whether the data are compressed.
            return "none" if self.compressed_bytes >= self.plain_bytes else None
        return codec_of_setting(setting)

    @property
    def compression(self) -> Compression | None:
        """The compression setting of the branch, as in uproot; None if uncompressed."""
        return Compression.of(self._facts.compress)

    @property
    def interpretation(self) -> ak.types.Type | None:
        """The awkward type of an entry; None if the branch cannot be read."""
        return None if self.reason is not None else self.array(entry_stop=0).type.content

    def array(
        self,
        interpretation: object = None,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        *,
        decompression_executor: object = None,
        interpretation_executor: object = None,
        array_cache: object = "inherit",
        library: str = "ak",
        ak_add_doc: bool | Mapping[str, str] = False,
        virtual: bool = False,
        access_log: AccessLog | None = None,
        workers: int | None = None,
        memory_limit: int | str = "1 GiB",
    ) -> Any:
        """Read a range of entries (default: all) into one array of ``library``. A branch that only groups others
        becomes an array of records.

        ``library`` is "ak" (an awkward array), "np" (NumPy; an object array if entries differ in length), "pd" (a
        Series, or a DataFrame for records) or "arrow". With ``virtual``, the awkward array is read when a value is
        first accessed, and ``access_log`` records this access. ``interpretation`` must be equivalent to the branch's
        own. Executors and caches of uproot are accepted and ignored. Raises OptionError, UnsupportedBranchError,
        BadFileError, StorageError.

            >>> tree["Muon_pt"].array(entry_start=100, entry_stop=200, library="np")
        """
        del decompression_executor, interpretation_executor, array_cache
        request = ReadRequest.of(
            expressions=self.path,
            entry_start=entry_start,
            entry_stop=entry_stop,
            library=library,
            ak_add_doc=ak_add_doc,
            workers=workers,
            memory_limit=memory_limit,
        )
        if interpretation is not None:
            self._check_interpretation(interpretation)
        if virtual:
            check_virtual(request.library, None, None, None, None)
            chosen = Selector(self._tree).select(request)
            return next(iter(ak.unzip(read_lazily(self._tree, chosen, request, access_log))))
        if access_log is not None:
            raise OptionError("access_log cannot be used with 'virtual=False'", hint="give virtual=True")
        selection = Selector(self._tree).select(request)
        # A branch may have fewer entries than its tree.
        counts = [self._tree[path].entries_count for path in selection.paths()]
        start, stop = request.range_in(min(counts, default=self._tree.entries_count))
        limited = replace(request, entry_start=start, entry_stop=stop)
        return read(self._tree, selection, limited, self).single()

    def _check_interpretation(self, interpretation: object) -> None:
        if isinstance(interpretation, int | np.integer):
            raise OptionError(
                f"{interpretation} is not an interpretation",
                hint="to limit the entries, use entry_start=... and entry_stop=...",
            )
        wanted, own = dtype_of(interpretation), numpy_of(self._tree.shape.empty(self.path)).dtype
        if interpretation != self.interpretation and (wanted is None or wanted != own):
            raise OptionError(
                f"branch {self.path} cannot be read as {interpretation!r}",
                path=self._tree.file_path,
                hint=f"it holds {self.typename}; convert the array after reading it",
            )

    def __array__(self, *arguments: Any, **options: Any) -> np.ndarray:
        array: np.ndarray = self.array(library="np")
        return np.array(array, *arguments, **options) if arguments or options else array


def _branch_of(tree: TreeHandle, number: int) -> BranchHandle:
    """Unpickle a branch."""
    return tree.branch(number)


#: A function accepted as ``filter_branch``.
BranchFilter = Callable[[Branch], object]
