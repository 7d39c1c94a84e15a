"""A process that holds one writer and writes a tree of arrays in memory for each line of JSON.

Imports, ROOT's compilation and the creation of the arrays are not measured. The process is bound to its cores before it
imports anything that counts them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from benches.worker import bind_to_cores

TREE = "events"
SEED = 1


@dataclass(frozen=True)
class Order:
    """A file to write. If ``syncs``, it must be on the disk at the end. ``code`` is ROOT's number of the codec, with
    the level on the writer's own scale.
    """

    path: str
    kind: str
    shape: str
    entries: int
    codec: str
    code: int
    syncs: bool


@dataclass(frozen=True)
class Arrays:
    """The data to write: numbers by name, or lists of numbers with common lengths."""

    flat: dict[str, Any]
    lists: dict[str, Any]
    lengths: Any

    def columns(self, kind: str) -> dict[str, Any]:
        """Return the columns for Branchline and uproot. Lists of a TTree are lists of records, which share a counter as
        in ROOT's files.
        """
        import awkward as ak

        if kind == "TTree" and self.lists:
            return self.flat | {"v": ak.unflatten(ak.zip(self.lists), self.lengths)}
        return self.flat | {f"v_{name}": ak.unflatten(values, self.lengths) for name, values in self.lists.items()}


@cache
def arrays_of(shape: str, entries: int) -> Arrays:
    """Return the same arrays in every process: floats with half of their digits random."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    if shape == "fixed":
        flat = {f"x{number}": np.round(rng.normal(size=entries), 3).astype("f4") for number in range(12)}
        return Arrays(flat, {}, np.zeros(entries, "i8"))
    lengths = rng.integers(0, 8, entries)
    count = int(lengths.sum())
    lists = {str(number): np.round(rng.exponential(30, count), 2).astype("f4") for number in range(4)}
    return Arrays({}, lists, lengths)


@cache
def _columns(kind: str, shape: str, entries: int) -> dict[str, Any]:
    return arrays_of(shape, entries).columns(kind)


def branchline_writer(_cores: int) -> Callable[[Order], Callable[[], None]]:
    """Return Branchline's writer, which uses the cores of the process."""
    import branchline

    def prepared(order: Order) -> Callable[[], None]:
        columns = _columns(order.kind, order.shape, order.entries)

        def write() -> None:
            with branchline.recreate(order.path, compression=order.codec) as file:
                if order.kind == "TTree":
                    file.mktree(TREE, columns)
                else:
                    file.mkrntuple(TREE, columns)

        return write

    return prepared


def uproot_writer(_cores: int) -> Callable[[Order], Callable[[], None]]:
    """Return uproot's writer, which has one thread."""
    import uproot

    def prepared(order: Order) -> Callable[[], None]:
        columns = _columns(order.kind, order.shape, order.entries)
        setting = uproot.compression.Compression.from_code_pair(*divmod(order.code, 100)) if order.code else None

        def write() -> None:
            with uproot.recreate(order.path, compression=setting) as file:
                # `file[TREE] = columns` creates an RNTuple since uproot 5.7.
                make = file.mktree if order.kind == "TTree" else file.mkrntuple
                make(TREE, columns)

        return write

    return prepared


def root_writer(cores: int) -> Callable[[Order], Callable[[], None]]:
    """Return ROOT's compiled loops over entries."""
    import numpy as np
    import ROOT

    with open("benches/writing_root.h") as header:
        ROOT.gInterpreter.Declare(header.read())
    if cores > 1:
        ROOT.EnableImplicitMT(cores)

    @cache
    def given(shape: str, entries: int) -> tuple[Any, Any]:
        arrays = arrays_of(shape, entries)
        columns = ROOT.Columns()
        for values in arrays.flat.values():
            ROOT.add(columns.flat, values)
        for values in arrays.lists.values():
            ROOT.add(columns.lists, values)
        starts = np.concatenate([[0], np.cumsum(arrays.lengths)]).astype("i8")
        columns.starts = starts
        return columns, starts  # keep the arrays alive, since the columns point to their memory

    def prepared(order: Order) -> Callable[[], None]:
        columns, _starts = given(order.shape, order.entries)
        function = ROOT.write_tree if order.kind == "TTree" else ROOT.write_ntuple
        return lambda: function(order.path, order.code, columns, order.entries, cores)

    return prepared


def _sync(path: str) -> None:
    """Wait until a file is on the disk, as Branchline does itself."""
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.close(file)


BRANCHLINE = "Branchline"
WRITERS = {BRANCHLINE: branchline_writer, "uproot": uproot_writer, "ROOT": root_writer}


def serve(writer: str, cores: int) -> None:
    """Answer each order with its wall and CPU seconds. Answers use a separate channel instead of standard output."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    bind_to_cores(cores)
    prepared = WRITERS[writer](cores)
    for line in sys.stdin:
        order = Order(**json.loads(line))
        write = prepared(order)
        begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
        write()
        if order.syncs and writer != BRANCHLINE:
            _sync(order.path)
        took = [time.perf_counter() - begin_s, time.process_time() - begin_cpu_s]
        channel.write(json.dumps(took) + "\n")
        channel.flush()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
