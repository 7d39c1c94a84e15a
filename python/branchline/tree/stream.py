"""Chunks of events, read ahead of the one in use by threads of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import awkward as ak
import numpy as np

from branchline._core import Stream
from branchline.access import Access, access_of
from branchline.errors import BAD_FILE_ERRORS, FILE_ERRORS, BranchlineError, NoSuchKeyError
from branchline.limits import parse_bytes
from branchline.locations import shown
from branchline.tree.arrays import layout_of, record_of
from branchline.tree.lazy import lazy_array
from branchline.tree.libraries import array_of, group_of
from branchline.tree.names import with_near_names
from branchline.tree.shape import Shape


@dataclass(frozen=True)
class Source:
    """A range of entries of a tree in a file; ``tree`` None is the only tree, ``entry_stop`` None its end.

    ``open_tree`` is a Tree that is open already and need not be opened again.
    """

    path: str
    tree: str | None = None
    entry_start: int = 0
    entry_stop: int | None = None
    open_tree: Any = None

    def _for_core(self) -> tuple[Any, int, int | None]:
        tree = (self.path, self.tree) if self.open_tree is None else self.open_tree.core
        return tree, self.entry_start, self.entry_stop


@dataclass(frozen=True)
class SkippedFile:
    """A file that was left out, or out from some entry on. ``entries_lost`` is None when nobody can know it."""

    path: str
    entries_lost: int | None
    error: str
    #: Which of the sources of its stream it was.
    source_index: int = 0


class Chunk:
    """A range of entries of one tree, with the columns that were read for it."""

    def __init__(self, core: Any, shape: Shape | None = None) -> None:
        self._core = core
        self._shape = shape
        self.source_index: int = core.source_index
        self.path: str = core.path
        # Keys of the file that had to be found again, as it was never closed.
        self.recovered_count: int = core.recovered_count
        self.tree_name: str = core.tree_path
        self.tree_entries: int = core.tree_entries
        self.entry_start: int = core.entry_start
        self.entry_stop: int = core.entry_stop
        self.branches: list[str] = core.branches()
        self.late_branches: list[str] = []
        self._columns: dict[str, Any] | None = None
        self._arrays: dict[tuple[str, str], Any] = {}

    def __len__(self) -> int:
        return self.entry_stop - self.entry_start

    def __repr__(self) -> str:
        return f"<Chunk {self.path}:{self.tree_name} entries {self.entry_start} to {self.entry_stop}>"

    @property
    def shape(self) -> Shape:
        """What the branches of the tree look like."""
        if self._shape is None:
            self._shape = Shape(self._core.tree())
        return self._shape

    def unreadable(self) -> list[str]:
        """Paths of the branches of the tree that cannot be read."""
        outline = self.shape.outline
        return [path for path, kind in zip(outline.paths, outline.kinds, strict=True) if kind == "unsupported"]

    def group(self, name: str, column: Callable[[str], ak.Array] | None = None) -> ak.Array | None:
        """Branches that belong together under a name, as ``Muon_pt`` and ``Muon_eta`` under ``Muon``: a record array,
        of which a branch is read when one of its values is wanted; None if the name stands for one branch or for none.

        ``column`` gives the columns by the paths of branches, if not this chunk itself.
        """
        group = self.shape.group(name)
        if group is None:
            return None
        given = self.array if column is None else column
        whole = lazy_array({name: group}, len(self), self.shape.empty, lambda path: given(path).layout)
        return whole[name]

    def own_names(self) -> list[str]:
        """Names of the branches that were read, without those above them; a slash may be in a name."""
        outline = self.shape.outline
        return [outline.names[outline.index_by_path[path]] for path in self.branches]

    @property
    def all_branches(self) -> list[str]:
        """Names of all branches of the tree that can be read."""
        names: list[str] = self._core.tree().readable()
        return names

    def column(self, name: str) -> Any:
        """Buffers of a branch as `branchline.tree.arrays` describes them; a branch that was not read is read now.

        Raises NoSuchKeyError, UnsupportedBranchError, BadFileError, StorageError.
        """
        if self._columns is None:
            self._columns = dict(zip(self.branches, self._core.take_columns(), strict=True))
        if name not in self._columns:
            path = self._path_of(name)
            if path not in self._columns:
                self._columns[path] = self._core.read_late(path)
                self.late_branches.append(path)
            self._columns[name] = self._columns[path]
        return self._columns[name]

    def _path_of(self, name: str) -> str:
        tree = self._core.tree()
        with with_near_names(name, tree.readable):
            path: str = tree.branch(tree.find(name))["path"]
        return path

    def array(self, name: str, library: str = "ak") -> Any:
        """A branch as an array of ``len(chunk)`` entries, made once."""
        key = (name, library)
        if key not in self._arrays:
            self._arrays[key] = array_of(layout_of(self.column(name)), library)
        return self._arrays[key]

    def arrays(self, library: str = "ak", names: Sequence[str] | None = None) -> Any:
        """Several branches together (those that were read, if none are named)."""
        wanted = self.branches if names is None else names
        return group_of(record_of({name: self.column(name) for name in wanted}, len(self)), library)

    def release(self) -> None:
        """Lets go of the columns; arrays that somebody still holds stay valid."""
        self._columns = {}
        self._arrays = {}


class ChunkStream:
    """Chunks of many files in their order; files are opened, fetched and decoded ahead by threads of the engine.

    ``branches`` None means all that can be read; those of them that are ``optional`` are left out of the chunks of
    trees that do not have them, or not in a form that can be read. ``step_size`` is bytes after decompression
    ("100 MB") or entries (an int), ``memory_limit`` what reading takes with the chunk in use and the one before, and
    what is decoded ahead of them; MemoryLimitError where that is too little. ``memory_parts`` streams share it. With
    ``keeps_values`` the values are the caller's result and do not count. Files that are not open yet are read as
    ``access`` says, open ones as they were opened. Errors of a source raise at its place in the
    order; with ``skip_bad_files`` a file that is missing or damaged is noted in ``skipped`` instead, with
    ``allow_missing`` one without the tree or a branch.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        branches: Sequence[str] | None,
        *,
        optional: Sequence[str] = (),
        step_size: int | str = "100 MB",
        threads: int = 1,
        memory_limit: int | str = "1 GiB",
        skip_bad_files: bool = False,
        allow_missing: bool = False,
        memory_parts: int = 1,
        keeps_values: bool = False,
        access: Access | str | None = None,
    ) -> None:
        self._sources = list(sources)
        self._access = access_of(access)
        self._wanted = list(branches or ())
        self._skippable = (BAD_FILE_ERRORS if skip_bad_files else ()) + ((NoSuchKeyError,) if allow_missing else ())
        self.skipped: list[SkippedFile] = []
        self._shape: tuple[int, Shape] | None = None
        # NumPy's integers are entries too.
        step_entries = int(step_size) if isinstance(step_size, int | np.integer) else None
        step_bytes = positive_bytes("step_size", "100 MB" if step_entries is not None else step_size)
        if step_entries is not None and step_entries < 1:
            raise BranchlineError(f"steps of {step_size} entries never end", hint="give 1 or more")
        self._core = Stream(
            [one._for_core() for one in self._sources],
            (None if branches is None else list(branches), list(optional)),
            access=self._access,
            step=(step_bytes, step_entries),
            threads=threads,
            memory=(positive_bytes("memory_limit", memory_limit), memory_parts, keeps_values),
        )

    def __iter__(self) -> Iterator[Chunk]:
        return self

    def __next__(self) -> Chunk:
        while True:
            item = self._core.next()
            if item is None:
                raise StopIteration
            if not isinstance(item, tuple):
                if self._shape is None or self._shape[0] != item.source_index:
                    self._shape = (item.source_index, Shape(item.tree()))
                return Chunk(item, self._shape[1])
            self._failed(*item)

    def _failed(self, source_index: int, error: BaseException, chunk: Any) -> None:
        source = self._sources[source_index]
        if isinstance(error, NoSuchKeyError) and error.hint is None:
            error.hint = _hint_for(source, self._wanted, self._access)
        if not isinstance(error, self._skippable):
            self.close()
            raise error
        if chunk is None:
            lost = entries_in(source, self._access)
        else:
            stop = chunk.tree_entries if source.entry_stop is None else min(source.entry_stop, chunk.tree_entries)
            lost = stop - chunk.entry_start
        self.skipped.append(SkippedFile(shown(source.path), lost, error.reason, source_index))

    def records(self) -> dict[str, Any]:
        """What was read so far and what it cost: ``files``, ``branches``, ``consumer``, ``threads``."""
        records: dict[str, Any] = self._core.records()
        return records

    def close(self) -> None:
        """Stops reading ahead."""
        self._core.close()

    def __enter__(self) -> ChunkStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def entries_in(source: Source, access: Access) -> int | None:
    """The entries of a source that cannot be read, where its file still tells their number."""
    from branchline.tree.file import File  # A file's trees are read in turn by streams.

    try:
        entries_count = File(source.path, access).tree(source.tree).entries_count
    except FILE_ERRORS:
        return None
    start, stop = check_entries(source.entry_start, source.entry_stop, entries_count)
    return stop - start


def _hint_for(source: Source, branches: Sequence[str], access: Access) -> str | None:
    """The nearest names for a source whose tree, or one of whose branches, is not there."""
    from branchline.tree.file import File  # A file's trees are read in turn by streams.

    try:
        file = File(source.path, access)
        tree = file[source.tree if source.tree is not None else file.trees()[0]]
        for name in branches:
            tree[name]
    except NoSuchKeyError as error:
        return error.hint
    except (BranchlineError, IndexError):
        return None
    return None


def check_entries(entry_start: int | None, entry_stop: int | None, entries_count: int) -> tuple[int, int]:
    """A range of entries within a tree, from limits that may be None or negative as in a slice."""
    start, stop, _ = slice(entry_start, entry_stop).indices(entries_count)
    return start, max(start, stop)


def positive_bytes(what: str, size: object) -> int:
    """A size that something can be read with. Raises BranchlineError for none, for less, and for what is no size."""
    if not isinstance(size, int | str) or parse_bytes(size) < 1:
        raise BranchlineError(f"a {what} of {size!r} is impossible", hint='give a size such as "100 MB"')
    return parse_bytes(size)


def check_workers(workers: int | None) -> int:
    """Decoding threads for a number of workers; None is one. Raises BranchlineError for a number below one."""
    count = 1 if workers is None else int(workers)
    if count < 1:
        raise BranchlineError(f"{workers} workers cannot read anything", hint="give 1 or more")
    return count
