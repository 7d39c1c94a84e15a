"""Streams of chunks of entries, prefetched by threads of the engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import groupby
from typing import Any

import awkward as ak

from branchline import _core
from branchline.errors import FILE_ERRORS, BranchlineError, NoSuchKeyError
from branchline.reading.access import Access, access_of
from branchline.reading.arrays.layouts import layout_of, record_of_columns
from branchline.reading.arrays.lazy import lazy_array
from branchline.reading.arrays.libraries import array_of, group_of
from branchline.reading.arrays.nesting import Shape
from branchline.reading.expressions.name_filters import near_names_hint, with_near_names
from branchline.reading.locations import is_parquet, shown
from branchline.reading.parquet.open_parquet import open_stream, opened
from branchline.reading.request import ChunkLength, StreamRequest, check_entries, positive_bytes
from branchline.reading.sources import Failure, FileReading, SkippedSource, Source, StreamRecords


class Chunk:
    """A range of entries of one tree, with the columns read for it."""

    def __init__(self, core: _core.Chunk, shape: Shape | None = None) -> None:
        self._core = core
        self._shape = shape
        self.source_index = core.source_index
        self.path = core.path
        # Number of keys that were recovered because the file was never closed.
        self.recovered_count = core.recovered_count
        self.tree_name = core.tree_path
        self.tree_entries = core.tree_entries
        self.entry_start = core.entry_start
        self.entry_stop = core.entry_stop
        self.branches = core.branches()
        self.late_branches: list[str] = []
        self._columns: dict[str, _core.Column] | None = None
        self._arrays: dict[tuple[str, str], Any] = {}

    def __len__(self) -> int:
        return self.entry_stop - self.entry_start

    def __repr__(self) -> str:
        return f"<Chunk {self.path}:{self.tree_name} entries {self.entry_start} to {self.entry_stop}>"

    @property
    def place(self) -> str:
        """The path of the file, with the path of a tree that is in a folder, for messages."""
        return f"{self.path}:{self.tree_name}" if "/" in self.tree_name else self.path

    @property
    def shape(self) -> Shape:
        """The shape of the tree: its branches and their types."""
        if self._shape is None:
            self._shape = Shape(self._core.tree())
        return self._shape

    def unreadable(self) -> list[str]:
        """Paths of the branches of the tree that cannot be read."""
        outline = self.shape.outline
        return [path for path, kind in zip(outline.paths, outline.kinds, strict=True) if kind == "unreadable"]

    def group(self, name: str, column: Callable[[str], ak.Array] | None = None) -> ak.Array | None:
        """Branches with a common prefix as a lazy record array, such as ``Muon`` from ``Muon_pt`` and ``Muon_eta``;
        None if the name is not a group. A branch is read when one of its values is first accessed.

        ``column`` returns the column of a branch path; the default is this chunk's ``array``.
        """
        group = self.shape.group(name)
        if group is None:
            return None
        given = self.array if column is None else column
        whole = lazy_array({name: group}, len(self), self.shape.empty, lambda path: given(path).layout)
        return whole[name]

    def own_names(self) -> list[str]:
        """Names of the branches that were read, without their parents' names; a name may contain a slash."""
        outline = self.shape.outline
        return [outline.names[outline.index_by_path[path]] for path in self.branches]

    @property
    def all_branches(self) -> list[str]:
        """Paths of all readable branches of the tree."""
        return self._core.tree().readable()

    def column(self, name: str) -> _core.Column:
        """The values of a branch as buffers; a branch that is not in the chunk yet is read now.

        Raises NoSuchKeyError, UnsupportedBranchError, BadFileError, StorageError.
        """
        if self._columns is None:
            self._columns = dict(zip(self.branches, self._core.take_columns(), strict=True))
        if name not in self._columns:
            path = self.path_of(name)
            if path not in self._columns:
                self._columns[path] = self._core.read_late(path)
                self.late_branches.append(path)
            self._columns[name] = self._columns[path]
        return self._columns[name]

    def path_of(self, name: str) -> str:
        """Resolve a name to the path of a branch. Raises NoSuchKeyError with the nearest names."""
        tree = self._core.tree()
        with with_near_names(name, tree.readable):
            path: str = tree.branch(tree.find(name)).path
        return path

    def array(self, name: str, library: str = "ak") -> Any:
        """A branch as an array of length ``len(chunk)``, cached."""
        key = (name, library)
        if key not in self._arrays:
            self._arrays[key] = array_of(layout_of(self.column(name)), library)
        return self._arrays[key]

    def arrays(self, library: str = "ak", names: Sequence[str] | None = None) -> Any:
        """Several branches together (by default all that were read)."""
        wanted = self.branches if names is None else names
        return group_of(record_of_columns({name: self.column(name) for name in wanted}, len(self)), library)

    def release(self) -> None:
        """Free the columns; arrays that are still referenced stay valid."""
        self._columns = {}
        self._arrays = {}


class ChunkStream:
    """Chunks of many files, in order. Engine threads prefetch: while one chunk is in use they open files and fetch and
    decode baskets for the next ones.

    The keywords are the fields of a StreamRequest, except that ``step_size`` is bytes after decompression ("100 MB"), a
    number of entries (int) or a ChunkLength, and ``memory_limit`` may be text such as "1 GiB". Raises MemoryLimitError
    if the limit is too small for the chunk in use, the previous one and the next ones. The errors of a source are
    raised at its position in the order; with ``skip_bad_files`` and ``allow_missing`` they are recorded in ``skipped``
    instead.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        branches: Sequence[str] | None,
        *,
        optional: Sequence[str] = (),
        step_size: int | str | ChunkLength = "100 MB",
        threads: int = 1,
        memory_limit: int | str = "1 GiB",
        access: Access | str | None = None,
        **others: Any,
    ) -> None:
        request = StreamRequest(
            branches=None if branches is None else tuple(branches),
            optional=tuple(optional),
            step=step_size if isinstance(step_size, ChunkLength) else ChunkLength.of(step_size),
            threads=threads,
            memory_limit_bytes=positive_bytes("memory_limit", memory_limit),
            access=access_of(access),
            **others,
        )
        self._begin(sources, request)

    @classmethod
    def of(cls, sources: Sequence[Source], request: StreamRequest) -> ChunkStream:
        """The stream of a request."""
        stream = cls.__new__(cls)
        stream._begin(sources, request)
        return stream

    def _begin(self, sources: Sequence[Source], request: StreamRequest) -> None:
        self._sources = list(sources)
        self._request = request
        self.skipped: list[SkippedSource] = []
        self._shape: tuple[int, Shape] | None = None
        # Consecutive sources of the same format share a stream, and so do several trees of a file; the next stream is
        # opened when the previous one has ended.
        self._runs = _runs_of(self._sources)
        self._first_source = 0
        self._over: list[StreamRecords] = []
        self._core = self._first_run()

    def _first_run(self) -> _core.Stream:
        """Open a stream over the first of the remaining runs."""
        sources = self._runs[0] if self._runs else []
        self._shared: frozenset[int] = frozenset()
        if sources and is_parquet(sources[0].path):
            return open_stream(sources, self._request)
        if _is_one_file(sources):
            sources, self._shared = _opened_once(sources, self._request.access)
        return _core.Stream(sources, self._request)

    def _goes_on(self) -> bool:
        """Switch to the next run of sources; return False at the end."""
        if len(self._runs) < 2:
            return False
        self._over.append(self._records_of_run())
        self._core.close()
        self._first_source += len(self._runs.pop(0))
        self._core = self._first_run()
        return True

    def __iter__(self) -> Iterator[Chunk]:
        return self

    def __next__(self) -> Chunk:
        while True:
            item = self._core.next()
            if item is None:
                if self._goes_on():
                    continue
                raise StopIteration
            index = self._first_source + item.source_index
            if not isinstance(item, _core.FailedSource | Failure):
                if self._shape is None or self._shape[0] != index:
                    self._shape = (index, Shape(item.tree()))
                chunk = Chunk(item, self._shape[1])
                chunk.source_index = index
                return chunk
            self._failed(index, item.error, item.chunk)

    def _failed(self, source_index: int, error: BaseException, chunk: _core.Chunk | None) -> None:
        source = self._sources[source_index]
        if isinstance(error, NoSuchKeyError) and error.hint is None:
            error.hint = _hint_for(source, self._request.branches or (), self._request.access)
        if not isinstance(error, self._request.skippable):
            self.close()
            raise error
        if chunk is None:
            lost = _entries_in(source, self._request.access)
        else:
            stop = chunk.tree_entries if source.entry_stop is None else min(source.entry_stop, chunk.tree_entries)
            lost = stop - chunk.entry_start
        self.skipped.append(SkippedSource(shown(source.path), lost, error.reason, source_index))

    def records(self) -> StreamRecords:
        """Records of the data read until now, and of the cost."""
        return reduce(StreamRecords.plus, [*self._over, self._records_of_run()])

    def _records_of_run(self) -> StreamRecords:
        read = self._core.records()
        if self._shared:
            read = replace(read, files=_as_one_file(read.files, self._shared))
        return _counted_from(read, self._first_source)

    def close(self) -> None:
        """Stop prefetching."""
        self._core.close()

    def __enter__(self) -> ChunkStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _runs_of(sources: Sequence[Source]) -> list[list[Source]]:
    """Split sources into runs that share a stream. Several trees of a file are a run of their own."""
    runs: list[list[Source]] = []
    for is_of_parquet, same_format in groupby(sources, lambda one: is_parquet(one.path)):
        begins = True
        for _, same_file in groupby(same_format, lambda one: one.path):
            run = list(same_file)
            is_alone = not is_of_parquet and _is_one_file(run)
            if begins or is_alone:
                runs.append(run)
            else:
                runs[-1] += run
            begins = is_alone
    return runs


def _is_one_file(run: Sequence[Source]) -> bool:
    """Whether a run has several trees of one file that are not open yet."""
    closed = {one.tree for one in run if one.open_tree is None}
    return len({one.path for one in run}) == 1 and None not in closed and len(closed) > 1


def _opened_once(run: Sequence[Source], access: Access) -> tuple[list[Source], frozenset[int]]:
    """Open the file of a run once for all of its trees. Also return the indices of the sources that now share it.

    A tree that cannot be opened stays closed, so that the stream raises its error at its position.
    """
    try:
        file = opened(run[0].path, access)
    except BranchlineError:
        return list(run), frozenset()

    def with_tree(one: Source) -> Source:
        if one.open_tree is not None:
            return one
        try:
            return replace(one, open_tree=Shape(file.tree(one.tree)))
        except BranchlineError:
            return one

    if file.is_near:
        sources = [with_tree(one) for one in run]
    else:
        # Imported lazily, because local files do not need this module.
        from branchline.reading.datasets.server_files import in_threads

        sources = in_threads(with_tree, run)
    pairs = enumerate(zip(run, sources, strict=True))
    return sources, frozenset(index for index, (one, other) in pairs if one is not other)


def _as_one_file(files: Sequence[FileReading], shared: Collection[int]) -> list[FileReading]:
    """Return a single record for the trees that share a file: their reads are counted together. Other records are
    returned unchanged.
    """
    own = {one.path for one in files[-1:]}
    same = [one for one in files if one.source_index in shared and one.path in own]
    others = [one for one in files if one.source_index not in shared or one.path not in own]
    if not same:
        return others
    codec = next((one.codec for one in reversed(same) if one.codec), None)
    return [replace(same[0], entries=sum(one.entries for one in same), codec=codec), *others]


def _counted_from(read: StreamRecords, first: int) -> StreamRecords:
    """Return the records with source indices that count across all runs."""
    if first == 0:
        return read
    return replace(read, files=[replace(one, source_index=one.source_index + first) for one in read.files])


def _entries_in(source: Source, access: Access) -> int | None:
    """Return the number of entries of a source that cannot be read; None if its tree cannot be opened."""
    try:
        entries_count = opened(source.path, access).tree(source.tree).entries_count
    except FILE_ERRORS:
        return None
    start, stop = check_entries(source.entry_start, source.entry_stop, entries_count)
    return stop - start


def _hint_for(source: Source, branches: Sequence[str], access: Access) -> str | None:
    """Return a hint with similar names for a source that lacks the tree or one of the branches."""
    try:
        file = opened(source.path, access)
        trees = [key.path for key in file.keys_below("") if key.is_tree]
        try:
            tree = file.tree(source.tree)
        except NoSuchKeyError as error:
            return error.hint or near_names_hint(source.tree or "", list(dict.fromkeys(trees)))
        for name in branches:
            try:
                tree.find(name)
            except NoSuchKeyError as error:
                return error.hint or near_names_hint(name, tree.paths())
    except BranchlineError:
        return None
    return None
