"""What workers of dask run: functions that read one partition, and know which columns it needs."""

from __future__ import annotations

import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import awkward as ak

from branchline.errors import NoSuchKeyError, OptionError, RecoveredFileWarning, warn
from branchline.reading.access import Access
from branchline.reading.arrays.libraries import numpy_of
from branchline.reading.dask.form import Mapped, StoredColumns, filled, joined
from branchline.reading.dask.partitions import Part
from branchline.reading.request import ONE_STEP, Step, StreamRequest
from branchline.reading.sources import Source, StreamRecords
from branchline.reading.trees.file import File
from branchline.reading.trees.stream import ChunkStream
from branchline.reading.trees.tree_steps import recovered

if TYPE_CHECKING:
    import numpy as np

ReaderT = TypeVar("ReaderT", bound="Reader")
#: Decoded values are the result of a partition, of which dask chooses the size: only what is read ahead is limited.
MEMORY_LIMIT_BYTES = 2**30


@dataclass(frozen=True)
class ReadPart:
    """An array of a partition, and what was read for it, under uproot's names."""

    array: ak.Array
    counters: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Reader(ABC):
    """Reads partitions as dask-awkward asks for it: the columns ``needed``, with the others as names.

    Errors of a class in ``caught`` give an empty array; with any of them a partition is a pair of an array and a
    report. With ``allow_missing`` a file without the tree is an empty partition.
    """

    form: ak.forms.Form
    mapped: Mapped
    needed: frozenset[str]
    access: Access
    allow_missing: bool = False
    caught: tuple[type[BaseException], ...] = ()

    @abstractmethod
    def read(self, source: Source) -> ReadPart:
        """The entries of a source. Raises what reading raises."""

    @abstractmethod
    def columns_named(self, names: frozenset[str]) -> frozenset[str]:
        """The columns that names of fields mean. Raises OptionError for unknown ones."""

    @property
    def return_report(self) -> bool:
        """Whether a partition is a pair of an array and a report."""
        return bool(self.caught)

    def __call__(self, part: Part) -> Any:
        if not self.caught:
            return self._read(part).array
        began, since = time.time_ns(), time.monotonic()
        try:
            done = self._read(part)
        except self.caught as error:
            return self.mock_empty("cpu"), _report(part, call_time=began, error=error)
        return done.array, _report(part, duration=time.monotonic() - since, counters=done.counters)

    def _read(self, part: Part) -> ReadPart:
        try:
            return self.read(part.source(self.access))
        except NoSuchKeyError:
            if not (self.allow_missing and _lacks_tree(part, self.access)):
                raise
            return ReadPart(self.mock_empty("cpu"), {})

    # What dask-awkward asks of a function that reads: arrays without values, and which columns their use needs.

    def mock(self) -> ak.Array:
        """An array of the right type without values."""
        return ak.typetracer.typetracer_from_form(self.form, highlevel=True, behavior=self.mapped.behavior)

    def mock_empty(self, backend: str = "cpu") -> ak.Array:
        """An array of the right type without entries."""
        empty = self.form.length_zero_array()
        return ak.to_backend(ak.Array(empty, behavior=self.mapped.behavior), backend)

    def prepare_for_projection(self) -> tuple[ak.Array, Any, Any]:
        """An array without values, the report of which buffers its use touches, and what that is to be read with."""
        from dask_awkward.lib.utils import trace_form_structure

        mapped = self.mapped
        meta, report = ak.typetracer.typetracer_with_report(
            self.form, highlevel=True, behavior=mapped.behavior, buffer_key=mapped.buffer_key
        )
        return meta, report, trace_form_structure(self.form, buffer_key=mapped.buffer_key)

    def necessary_columns(self, report: Any, state: Any) -> frozenset[str]:
        """The columns whose buffers were touched, or whose lengths are needed."""
        from dask_awkward.lib.utils import buffer_keys_required_to_compute_shapes

        shapes = buffer_keys_required_to_compute_shapes(
            self.mapped.parse_buffer_key,
            report.shape_touched,
            state["form_key_to_parent_form_key"],
            state["form_key_to_buffer_keys"],
        )
        return self.mapped.keys_for_buffer_keys(frozenset({*report.data_touched, *shapes})) & self.needed

    def project(self, report: Any, state: Any) -> Self:
        """The same for the columns that are needed."""
        return replace(self, needed=self.necessary_columns(report, state))

    def project_manually(self, columns: frozenset[str]) -> Self:
        """The same for columns that somebody names."""
        return replace(self, needed=self.columns_named(columns))


@dataclass(frozen=True, kw_only=True)
class BranchReader(Reader):
    """Reads the branches of a form that is as the file has it."""

    mapped: StoredColumns

    def columns_named(self, names: frozenset[str]) -> frozenset[str]:
        """The branches that names of columns mean."""
        return self.mapped.branches(names)

    def read(self, source: Source) -> ReadPart:
        """The entries of a source."""
        count = _entries_in(source)
        paths = sorted(self.needed)
        if not paths or not count:
            found = self.mapped.buffers({path: self.mapped.empty(path) for path in paths}, source.path)
            return ReadPart(self.mapped.filled(count, self.needed, found), {})
        layouts, records = read_columns(source, paths, self.access)
        found = self.mapped.buffers(layouts, source.path)
        return ReadPart(self.mapped.filled(count, self.needed, found), _counters(records))


@dataclass(frozen=True, kw_only=True)
class MappedReader(Reader):
    """Reads for a form mapping, which fetches the buffers itself out of a tree.

    ``options`` are those that uproot gives to it.
    """

    mapped: Any
    options: Mapping[str, Any] = field(default_factory=dict)

    def columns_named(self, names: frozenset[str]) -> frozenset[str]:
        """The columns as they are named: only the mapping knows them."""
        return names

    def read(self, source: Source) -> ReadPart:
        """The entries of a source."""
        tree = File(source.path, self.access).tree(source.tree)
        stop = source.entry_start + _entries_in(source)
        found = self.mapped.load_buffers(tree, self.needed, source.entry_start, stop, None, None, dict(self.options))
        return ReadPart(filled(self.mapped, self.form, stop - source.entry_start, self.needed, found), {})


@dataclass(frozen=True)
class NumpyReader:
    """Reads a column of a partition as an array of NumPy."""

    path: str
    typename: str
    access: Access

    def __call__(self, part: Part) -> np.ndarray[Any, Any]:
        source = part.source(self.access)
        layouts, _ = read_columns(source, [self.path], self.access)
        return numpy_of(layouts[self.path], self.typename)


def read_columns(
    source: Source, paths: list[str], access: Access
) -> tuple[dict[str, ak.contents.Content], StreamRecords]:
    """The columns of branches for the entries of a source, and what reading them cost.

    Raises OptionError if the tree does not have all of the entries, and what reading raises.
    """
    request = StreamRequest(
        branches=tuple(paths),
        step=Step.of(ONE_STEP),
        memory_limit_bytes=MEMORY_LIMIT_BYTES,
        access=access,
        keeps_values=True,
    )
    with ChunkStream.of([source], request) as stream:
        chunks = list(stream)
        if chunks and chunks[0].recovered_count:
            warn(recovered(source.path, chunks[0].recovered_count), RecoveredFileWarning)
        if sum(map(len, chunks)) != _entries_in(source):
            what = f"the tree has not all entries from {source.entry_start} to {source.entry_stop}"
            raise OptionError(what, path=source.path, hint="give steps within the tree, or open_files=True")
        return joined(chunks, paths), stream.records()


def _entries_in(source: Source) -> int:
    """Entries of a source whose range is given."""
    assert source.entry_stop is not None
    return source.entry_stop - source.entry_start


def _lacks_tree(part: Part, access: Access) -> bool:
    try:
        File(part.path, access).tree(part.tree)
    except NoSuchKeyError:
        return True
    return False


def _counters(records: StreamRecords) -> dict[str, int]:
    """What was read, under uproot's names."""
    return {
        "num_requested_bytes": sum(one.bytes_read for one in records.files),
        "num_requests": sum(one.read_calls for one in records.files),
        "num_requested_chunks": sum(one.baskets for one in records.files),
    }


def _report(
    part: Part,
    *,
    call_time: int | None = None,
    duration: float | None = None,
    counters: Mapping[str, int] | None = None,
    error: BaseException | None = None,
) -> ak.Array:
    """How reading a partition went, with the fields of uproot's reports."""
    failed = error is not None
    return ak.Array(
        [
            {
                "call_time": call_time,
                "duration": duration,
                "performance_counters": dict(counters) if counters else None,
                "args": [repr(part)],
                "kwargs": [],
                "exception": type(error).__name__ if failed else None,
                "message": str(error) if failed else None,
                "fqdn": socket.getfqdn() if failed else None,
                "hostname": socket.gethostname() if failed else None,
            }
        ]
    )
