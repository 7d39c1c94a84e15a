"""Callables that dask workers run: each reads the needed columns of a partition."""

from __future__ import annotations

import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import awkward as ak

from branchline.base.quantities import GIB
from branchline.errors import NoSuchKeyError, OptionError, RecoveredFileWarning, warn
from branchline.reading.access import Access
from branchline.reading.arrays.libraries import numpy_of
from branchline.reading.dask.form import MappedForm, StoredColumns, filled, joined
from branchline.reading.dask.partitions import Part
from branchline.reading.request import ONE_STEP, ChunkLength, StreamRequest
from branchline.reading.sources import Source, StreamRecords
from branchline.reading.trees.file import File
from branchline.reading.trees.stream import ChunkStream
from branchline.reading.trees.tree_steps import recovered

if TYPE_CHECKING:
    import numpy as np

ReaderT = TypeVar("ReaderT", bound="Reader")
#: Memory limit for prefetching. It does not limit the size of partitions, which dask and the user choose.
MEMORY_LIMIT_BYTES = GIB


@dataclass(frozen=True)
class ReadPart:
    """A partition's array, and the performance counters of the read, which have uproot's names."""

    array: ak.Array
    counters: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Reader(ABC):
    """Reads partitions with the interface that dask-awkward expects.

    The columns ``needed`` are read; all other columns become placeholders. If ``caught`` is not empty, each partition
    is a pair of an array and a report, and exceptions of these types result in an empty array. With ``allow_missing``,
    a file without the tree is an empty partition.
    """

    form: ak.forms.Form
    mapped: MappedForm
    needed: frozenset[str]
    access: Access
    allow_missing: bool = False
    caught: tuple[type[BaseException], ...] = ()

    @abstractmethod
    def read(self, source: Source) -> ReadPart:
        """Read the entries of a source. Raises the errors of reading."""

    @abstractmethod
    def columns_named(self, names: frozenset[str]) -> frozenset[str]:
        """Return the columns of the fields with these names. Raises OptionError for unknown names."""

    @property
    def return_report(self) -> bool:
        """Whether each partition is a pair of an array and a report."""
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

    # The interface that dask-awkward expects: arrays without data, and column projection.

    def mock(self) -> ak.Array:
        """Return a typetracer array with the form of the partitions."""
        return ak.typetracer.typetracer_from_form(self.form, highlevel=True, behavior=self.mapped.behavior)

    def mock_empty(self, backend: str = "cpu") -> ak.Array:
        """Return an array with the form of the partitions and zero entries."""
        empty = self.form.length_zero_array()
        return ak.to_backend(ak.Array(empty, behavior=self.mapped.behavior), backend)

    def prepare_for_projection(self) -> tuple[ak.Array, Any, Any]:
        """Return a typetracer array, a report of the buffers touched through this array, and the projection state."""
        from dask_awkward.lib.utils import trace_form_structure

        mapped = self.mapped
        meta, report = ak.typetracer.typetracer_with_report(
            self.form, highlevel=True, behavior=mapped.behavior, buffer_key=mapped.buffer_key
        )
        return meta, report, trace_form_structure(self.form, buffer_key=mapped.buffer_key)

    def necessary_columns(self, report: Any, state: Any) -> frozenset[str]:
        """Return the columns whose data or shapes were touched according to the report."""
        from dask_awkward.lib.utils import buffer_keys_required_to_compute_shapes

        shapes = buffer_keys_required_to_compute_shapes(
            self.mapped.parse_buffer_key,
            report.shape_touched,
            state["form_key_to_parent_form_key"],
            state["form_key_to_buffer_keys"],
        )
        return self.mapped.keys_for_buffer_keys(frozenset({*report.data_touched, *shapes})) & self.needed

    def project(self, report: object, state: object) -> Self:
        """Return a copy that reads only the necessary columns."""
        return replace(self, needed=self.necessary_columns(report, state))

    def project_manually(self, columns: frozenset[str]) -> Self:
        """Return a copy that reads only the given columns."""
        return replace(self, needed=self.columns_named(columns))


@dataclass(frozen=True, kw_only=True)
class BranchReader(Reader):
    """Reads branches with the form of the stored data."""

    mapped: StoredColumns

    def columns_named(self, names: frozenset[str]) -> frozenset[str]:
        """Return the branches of the given columns."""
        return self.mapped.branches(names)

    def read(self, source: Source) -> ReadPart:
        """Read the entries of a source."""
        count = _entries_in(source)
        paths = sorted(self.needed)
        if not paths or not count:
            found = self.mapped.buffers({path: self.mapped.empty(path) for path in paths}, source.path)
            return ReadPart(self.mapped.filled(count, self.needed, found), {})
        layouts, records = read_columns(source, paths, self.access)
        found = self.mapped.buffers(layouts, source.path)
        # Performance counters, which have the same names as in uproot.
        counters = {
            "num_requested_bytes": sum(one.bytes_read for one in records.files),
            "num_requests": sum(one.read_calls for one in records.files),
            "num_requested_chunks": sum(one.baskets for one in records.files),
        }
        return ReadPart(self.mapped.filled(count, self.needed, found), counters)


@dataclass(frozen=True, kw_only=True)
class MappedReader(Reader):
    """Reads partitions with a form mapping, which loads buffers from a tree.

    ``options`` are passed to the form mapping in the same way as by uproot.
    """

    mapped: Any
    options: Mapping[str, Any] = field(default_factory=dict)

    def columns_named(self, names: frozenset[str]) -> frozenset[str]:
        """Return the names unchanged, because only the form mapping can interpret them."""
        return names

    def read(self, source: Source) -> ReadPart:
        """Read the entries of a source."""
        tree = File(source.path, self.access).tree(source.tree)
        stop = source.entry_start + _entries_in(source)
        found = self.mapped.load_buffers(tree, self.needed, source.entry_start, stop, None, None, dict(self.options))
        return ReadPart(filled(self.mapped, self.form, stop - source.entry_start, self.needed, found), {})


@dataclass(frozen=True)
class NumpyReader:
    """Reads a branch of a partition as a NumPy array."""

    path: str
    typename: str
    access: Access

    def __call__(self, part: Part) -> np.ndarray:
        source = part.source(self.access)
        layouts, _ = read_columns(source, [self.path], self.access)
        return numpy_of(layouts[self.path], self.typename)


def read_columns(
    source: Source, paths: list[str], access: Access
) -> tuple[dict[str, ak.contents.Content], StreamRecords]:
    """Read branches for the entries of a source; return the columns by path, and the statistics of the read.

    Raises OptionError if the source has entries that the tree does not have, and read errors.
    """
    request = StreamRequest(
        branches=tuple(paths),
        step=ChunkLength.of(ONE_STEP),
        memory_limit_bytes=MEMORY_LIMIT_BYTES,
        access=access,
        keeps_values=True,
    )
    with ChunkStream.of([source], request) as stream:
        chunks = list(stream)
        if chunks and chunks[0].recovered_count:
            warn(recovered(source.path, chunks[0].recovered_count), RecoveredFileWarning)
        if sum(map(len, chunks)) != _entries_in(source):
            what = f"the tree does not have all entries from {source.entry_start} to {source.entry_stop}"
            raise OptionError(what, path=source.path, hint="give steps within the tree, or open_files=True")
        return joined(chunks, paths), stream.records()


def _entries_in(source: Source) -> int:
    """Return the number of entries of a source with an explicit entry range."""
    assert source.entry_stop is not None
    return source.entry_stop - source.entry_start


def _lacks_tree(part: Part, access: Access) -> bool:
    try:
        File(part.path, access).tree(part.tree)
    except NoSuchKeyError:
        return True
    return False


def _report(
    part: Part,
    *,
    call_time: int | None = None,
    duration: float | None = None,
    counters: Mapping[str, int] | None = None,
    error: BaseException | None = None,
) -> ak.Array:
    """Return a report on a partition's read, with the fields of uproot's reports."""
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
