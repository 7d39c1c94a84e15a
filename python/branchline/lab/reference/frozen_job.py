"""The reference job: read the file from a storage element, check the values and the file, and repeat the work on a copy
in memory.

The repetition is the CPU benchmark. It tells a slow processor from a slow storage element.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import replace

from branchline._core import Store
from branchline.base.quantities import MIB
from branchline.errors import BranchlineError
from branchline.lab.reference.frozen_events import BRANCHES, TREE
from branchline.lab.reference.frozen_file import FrozenFile
from branchline.lab.reference.frozen_values import FrozenValues
from branchline.lab.reference.measures import ReferenceMeasures
from branchline.reading.access import PLANNED, ByteRange
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream

_BLOCK_BYTES, _BLOCKS_AT_ONCE = 8 * MIB, 4


def run_frozen_job(location: str, expected: FrozenFile) -> ReferenceMeasures:
    """Run the reference job on the file at ``location``.

    Raises BranchlineError if the file cannot be read, although its bytes are the expected ones.
    """
    failure: BranchlineError | None = None
    measured = ReferenceMeasures()
    try:
        measured = _analysed(location, expected)
    except BranchlineError as error:
        failure = error
    # A file in memory, which the kernel does not write to a disk while the benchmark runs (memfd_create(2)).
    copy = os.memfd_create(expected.name)
    try:
        wrong = _copied(location, copy, expected) or measured.wrong
        if failure is not None and not wrong:
            raise failure
        if wrong:
            return replace(measured, wrong=wrong)
        begin_cpu_s = time.process_time()
        benchmark = _analysed(f"/proc/self/fd/{copy}", expected)
        return replace(measured, benchmark_s=benchmark.read_s, benchmark_cpu_s=time.process_time() - begin_cpu_s)
    finally:
        os.close(copy)


def _analysed(location: str, expected: FrozenFile) -> ReferenceMeasures:
    """Read all branches with one thread, and analyse them."""
    begin_s, values = time.perf_counter(), FrozenValues()
    with ChunkStream([Source(location, TREE)], BRANCHES, threads=1, access=PLANNED) as stream:
        for chunk in stream:
            values.add({name: chunk.array(name) for name in BRANCHES})
            chunk.release()
        [file] = stream.records().files
    read_s = time.perf_counter() - begin_s
    wrong = "" if values.digest == expected.values else f"wrong values: {values.events} events, sums {values.sums}"
    return ReferenceMeasures(values.events, read_s, file.fetch_s, file.bytes_read, file.read_calls, wrong=wrong)


def _copied(location: str, copy: int, expected: FrozenFile) -> str:
    """Copy the whole file. Return how it differs from the expected file; empty if it does not."""
    store, digest = Store(location, PLANNED), hashlib.sha256()
    size = store.size_bytes
    if size != expected.size_bytes:
        return f"wrong file: {size} bytes instead of {expected.size_bytes}"
    ranges = [ByteRange(begin, min(_BLOCK_BYTES, size - begin)) for begin in range(0, size, _BLOCK_BYTES)]
    with open(copy, "wb", closefd=False) as file:
        for first in range(0, len(ranges), _BLOCKS_AT_ONCE):
            for content in store.read(ranges[first : first + _BLOCKS_AT_ONCE]).contents:
                digest.update(content)
                file.write(content)
    return "" if digest.hexdigest() == expected.sha256 else f"wrong file: its SHA-256 is {digest.hexdigest()}"
