"""Branch: one column of a tree, or a group of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableSequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import awkward as ak
import numpy as np

from branchline.errors import OptionError
from branchline.reading.arrays.libraries import numpy_of
from branchline.reading.request import ReadRequest, check_virtual, dtype_of
from branchline.reading.trees.branches import Branches
from branchline.reading.trees.compression import CODECS, Compression
from branchline.reading.trees.selection import Selector
from branchline.reading.trees.tree_reader import read, read_lazily

if TYPE_CHECKING:
    from branchline._core import BranchFacts
    from branchline.reading.trees.handles import BranchesHandle, BranchHandle, FileHandle, TreeHandle


class Branch(Branches["Branch"]):
    """A column of a tree, or a group of columns. As a mapping it holds the branches below it.

    ``typename`` is its C++ type. ``compressed_bytes`` are its bytes in the file, ``plain_bytes`` those after
    decompression. ``reason`` says why it cannot be read, None if it can. Entries are numbered from 0 in the tree.

    Reading raises UnsupportedBranchError for a kind of value that is not read, BadFileError for damaged baskets, and
    StorageError where the storage fails; each names the file and the branch.

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
        self.is_part = facts.is_part  # whether its bytes are among those of the branch that it belongs to

    def __repr__(self) -> str:
        return f"<Branch {self.path} {self.typename!r} of {self._tree.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _branch_of, (self._tree, self._number)

    def __enter__(self) -> Branch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; the branch can still be read."""
        self._tree.file.close()

    @property
    def closed(self) -> bool:
        """Whether the file was closed."""
        return self._tree.file.closed

    @property
    def description(self) -> str:
        """Its title, under the name that uproot has for it in an RNTuple."""
        return self.title

    @property
    def aliases(self) -> dict[str, str]:
        """The aliases of its tree."""
        return self._tree.aliases

    @property
    def count_branch(self) -> Branch | None:
        """The branch that says how many elements each of its entries has; None if there is none."""
        counter = self._tree.outline.counts[self._number]
        return None if counter is None else self._branch(counter)

    def _branch(self, index: int) -> Branch:
        return cast("Branch", self._tree.branch(index))

    @property
    def tree(self) -> TreeHandle:
        """The tree that it belongs to."""
        return self._tree

    @property
    def number(self) -> int:
        """Its number in the tree, a parent before its children."""
        return self._number

    @property
    def index(self) -> int:
        """Its position among the branches right below its parent."""
        return self._tree.outline.children(self._tree.outline.parents[self._number]).index(self._number)

    @property
    def file(self) -> FileHandle:
        """The file that it is in."""
        return self._tree.file

    @property
    def parent(self) -> BranchesHandle:
        """The branch that it is right below, or the tree."""
        parent = self._tree.outline.parents[self._number]
        return self._tree if parent is None else self._tree.branch(parent)

    @property
    def top_level(self) -> bool:
        """Whether no other branch is above it."""
        return self._tree.outline.parents[self._number] is None

    @property
    def object_path(self) -> str:
        """Where it is in the file, as uproot writes it."""
        return f"{self._tree.object_path}:{self._tree.outline.chain(self._number)}"

    @property
    def cache_key(self) -> str:
        """A text that no other branch of any file has, as uproot makes it."""
        parent = self._tree.outline.parents[self._number]
        above = f"{self._tree.cache_key}:" if parent is None else f"{self._tree.branch(parent).cache_key}/"
        return f"{above}{self.name}({self.index})"

    @property
    def num_entries(self) -> int:
        """Entries, under uproot's name."""
        return self.entries_count

    @property
    def num_baskets(self) -> int:
        """Baskets, under uproot's name."""
        return self.baskets_count

    @property
    def uncompressed_bytes(self) -> int:
        """Bytes after decompression, under uproot's name."""
        return self.plain_bytes

    @property
    def compression_ratio(self) -> float:
        """Bytes after decompression for each byte in the file; 1 if there are none."""
        return self.plain_bytes / self.compressed_bytes if self.compressed_bytes else 1.0

    @property
    def entry_offsets(self) -> list[int]:
        """Entries at which its baskets begin, and its end: one number more than there are baskets. Raises BadFileError,
        StorageError.

            >>> branch.entry_offsets
            [0, 3]
        """
        return self._tree.entry_offsets(self._number)

    @property
    def readable(self) -> bool:
        """Whether its values can be read; ``reason`` says why not."""
        return self._facts.kind == "data"

    @property
    def is_group(self) -> bool:
        """Whether it only groups the branches below it."""
        return self._facts.kind == "group"

    @property
    def codec(self) -> str | None:
        """The codec that it was set to be written with; None if it uses that of the file."""
        setting = self._facts.compress
        if setting < 0:
            return None
        if setting % 100 == 0:
            # uproot writes 0 for every codec.
            return "none" if self.compressed_bytes >= self.plain_bytes else None
        return CODECS.get(setting // 100, "zlib")

    @property
    def compression(self) -> Compression | None:
        """The setting that it was written with, as uproot has it; None for no compression."""
        return Compression.of(self._facts.compress)

    @property
    def interpretation(self) -> ak.types.Type | None:
        """What each of its entries becomes, as a type of awkward; None if it cannot be read."""
        return None if self.reason is not None else self.array(entry_stop=0).type.content

    def array(
        self,
        interpretation: Any = None,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        *,
        decompression_executor: Any = None,
        interpretation_executor: Any = None,
        array_cache: Any = "inherit",
        library: str = "ak",
        ak_add_doc: bool | Mapping[str, str] = False,
        virtual: bool = False,
        access_log: MutableSequence[Any] | None = None,
        workers: int | None = None,
        memory_limit: int | str = "1 GiB",
    ) -> Any:
        """The values of a range of entries (all of them): one array of ``library``, with an element for each entry. A
        branch that only groups others gives records of these.

        ``library`` is "ak" (an awkward array), "np" (NumPy; an array of objects where entries differ in length), "pd"
        (a Series, or a frame for records) or "arrow". A ``virtual`` awkward array is read when one of its values is
        wanted, and adds that to ``access_log``. The ``interpretation`` is always its own, which may be given.
        Executors and caches of uproot are accepted and not used. Raises OptionError, UnsupportedBranchError,
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
            return self._virtual(request, access_log)
        if access_log is not None:
            raise OptionError("access_log cannot be used with 'virtual=False'", hint="give virtual=True")
        selection = Selector(self._tree).select(request)
        # A branch may end before its tree.
        counts = [self._tree[path].entries_count for path in selection.paths()]
        start, stop = request.range_in(min(counts, default=self._tree.entries_count))
        limited = replace(request, entry_start=start, entry_stop=stop)
        return read(self._tree, selection, limited, self).single()

    def _virtual(self, request: ReadRequest, access_log: MutableSequence[Any] | None) -> Any:
        """The values, read when one of them is wanted."""
        check_virtual(request.library, None, None, None, None)
        selection = Selector(self._tree).select(request)
        return next(iter(ak.unzip(read_lazily(self._tree, selection, request, access_log))))

    def _check_interpretation(self, interpretation: Any) -> None:
        if isinstance(interpretation, int | np.integer):
            raise OptionError(
                f"{interpretation} is no interpretation",
                hint="entries are limited by entry_start=... and entry_stop=...",
            )
        wanted, own = dtype_of(interpretation), numpy_of(self._tree.shape.empty(self.path)).dtype
        if interpretation != self.interpretation and (wanted is None or wanted != own):
            raise OptionError(
                f"branch {self.path} cannot be read as {interpretation!r}",
                path=self._tree.file_path,
                hint=f"it holds {self.typename}; convert the array that is read",
            )

    def __array__(self, *arguments: Any, **options: Any) -> np.ndarray[Any, Any]:
        array: np.ndarray[Any, Any] = self.array(library="np")
        return np.array(array, *arguments, **options) if arguments or options else array


def _branch_of(tree: TreeHandle, number: int) -> BranchHandle:
    """What unpickling a branch gives."""
    return tree.branch(number)


#: What ``filter_branch`` takes.
BranchFilter = Callable[[Branch], object]
