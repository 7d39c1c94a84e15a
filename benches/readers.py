"""One measured pass of each reader over a list of files. All requested values end as arrays in memory.

A reader is created once in a separate process and keeps state between passes (compiled loops, thread pools). A pass
only opens and reads the files. Passes count entries and values; passes with different counts are not compared.
"""

from __future__ import annotations

import importlib
import os
import pickle
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from math import prod
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benches.root_loops import Column, compile_loops

STEP_SIZE = "100 MB"
# Number of openings in a pass, so that it is long enough for the clock.
OPENINGS = 10
IMPORTED_BY_OPENING = (
    "branchline.reading.datasets.dataset",
    "branchline.reading.trees.branch",
    "branchline.reading.trees.file",
    "fsspec",
)


@dataclass(frozen=True)
class Request:
    """The files, tree and branches (None: all) of a pass. Readers of split objects also take a range of entries of each
    file; -1 as its stop is the end of the file.
    """

    files: list[str]
    tree: str
    branches: list[str] | None
    entries: tuple[int, int] = (0, -1)


@dataclass
class Pass:
    """The result of a pass. `seconds` is wall time; `values` counts numbers, or is None if the reader does not know."""

    seconds: float
    entries: int | None
    values: int | None
    extra: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Setup:
    """Data that a reader needs before its first pass: a folder for compiled code, and the columns of each selection."""

    cache: str
    columns: dict[str, list[Column]]


Reader = Callable[[Request], Pass]
Options = dict[str, Any]


def values_in(layout: Any) -> int:
    """Return the number of values in an awkward layout, from its offsets, which takes little time."""
    if layout.is_list and hasattr(layout, "offsets"):
        offsets = layout.offsets.data
        if layout.content.is_numpy:
            return int(offsets[-1] - offsets[0]) * prod(layout.content.data.shape[1:])
        return values_in(layout.content[int(offsets[0]) : int(offsets[-1])])
    if layout.is_list:
        return values_in(layout.to_ListOffsetArray64(True))
    if layout.is_record:
        return sum(map(values_in, layout.contents))
    return int(layout.data.size) if layout.is_numpy else int(layout.length)


def count_chunk(chunk: Any, library: str) -> tuple[int, int]:
    """Return the entries and values of a chunk from iterate."""
    if library == "ak":
        return len(chunk), values_in(chunk.layout)
    arrays = list(chunk.values())
    return len(arrays[0]), sum(sum(map(len, a)) if a.dtype == object else a.size for a in arrays)


def sources(request: Request) -> list[str]:
    return [f"{path}:{request.tree}" for path in request.files]


def make_branchline(options: Options, cores: int, _setup: Setup) -> Reader:
    import branchline

    library = options.get("library", "ak")

    def read(request: Request) -> Pass:
        entries = values = 0
        start = time.perf_counter()
        chunks = branchline.iterate(
            sources(request), request.branches, step_size=STEP_SIZE, library=library, workers=cores
        )
        for chunk in chunks:
            more_entries, more_values = count_chunk(chunk, library)
            entries += more_entries
            values += more_values
        return Pass(time.perf_counter() - start, entries, values)

    return read


def make_limit(_options: Options, cores: int, _setup: Setup) -> Reader:
    from branchline import _core

    def read(request: Request) -> Pass:
        done = _core.decompress_all(request.files, request.tree, request.branches, cores)
        extra = {key: float(getattr(done, key)) for key in ("plain_bytes", "compressed_bytes", "baskets")}
        return Pass(done.seconds, None, None, extra)

    return read


def uproot_pass(request: Request, library: str, threads: int) -> Pass:
    """Run one pass of uproot.iterate, with memory-mapped files, its fastest source for local files."""
    import uproot

    more: dict[str, Any] = {}
    if threads > 1:
        more["decompression_executor"] = uproot.ThreadPoolExecutor(threads)
        more["interpretation_executor"] = uproot.ThreadPoolExecutor(threads)
    entries = values = 0
    start = time.perf_counter()
    for chunk in uproot.iterate(
        sources(request),
        request.branches,
        step_size=STEP_SIZE,
        library=library,
        handler=uproot.source.file.MemmapSource,
        **more,
    ):
        more_entries, more_values = count_chunk(chunk, library)
        entries += more_entries
        values += more_values
    return Pass(time.perf_counter() - start, entries, values)


def make_uproot(options: Options, _cores: int, _setup: Setup) -> Reader:
    library, threads, processes = options["library"], options.get("threads", 1), options.get("processes", 1)
    if processes == 1:
        return lambda request: uproot_pass(request, library, threads)
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))

    def read(request: Request) -> Pass:
        parts = [Request(request.files[i::processes], request.tree, request.branches) for i in range(processes)]
        start = time.perf_counter()
        done = list(pool.map(uproot_pass, parts, [library] * processes, [threads] * processes))
        seconds = time.perf_counter() - start
        return Pass(seconds, sum(p.entries or 0 for p in done), sum(p.values or 0 for p in done))

    return read


def make_branchline_split(options: Options, cores: int, _setup: Setup) -> Reader:
    from branchline.reading.sources import Source
    from branchline.reading.trees.stream import ChunkStream

    def read(request: Request) -> Pass:
        first, stop = request.entries
        entries = 0
        start = time.perf_counter()
        wanted = [Source(path, request.tree, first, None if stop < 0 else stop) for path in request.files]
        stream = ChunkStream(wanted, request.branches, threads=options.get("threads", cores))
        for chunk in stream:
            entries += len(chunk.arrays())
        seconds = time.perf_counter() - start
        files = stream.records().files
        stream.close()
        extra = {name: float(sum(getattr(file, name) for file in files)) for name in ("read_calls", "bytes_read")}
        return Pass(seconds, entries, None, extra)

    return read


def readable_by_uproot(request: Request) -> set[str]:
    """Return the requested branches that uproot reads in the first file."""
    import uproot

    readable = set()
    with uproot.open(request.files[0]) as file:
        for name, branch in file[request.tree].iteritems(full_paths=True):
            if name in (request.branches or []):
                try:
                    branch.array(library="ak")
                except Exception:  # noqa: BLE001 - whatever it is, uproot does not read this branch
                    continue
                readable.add(name)
    return readable


def make_uproot_split(options: Options, _cores: int, _setup: Setup) -> Reader:
    import uproot

    library = options["library"]
    known: dict[str, set[str]] = {}

    def read(request: Request) -> Pass:
        readable = known.setdefault(request.files[0], set())
        if not readable:
            readable.update(readable_by_uproot(request))
        entries = calls = 0
        start = time.perf_counter()
        for path in request.files:
            with uproot.open(path, handler=uproot.source.file.MemmapSource) as file:
                tree = file[request.tree]
                # With hundreds of branches, a single call of arrays() takes uproot eight times as long.
                arrays = [b.array(library=library) for n, b in tree.iteritems(full_paths=True) if n in readable]
                assert len(arrays) == len(readable)
                entries += tree.num_entries
                calls += file.file.source.num_requested_chunks
        seconds = time.perf_counter() - start
        return Pass(seconds, entries, None, {"branches": float(len(readable)), "read_calls": float(calls)})

    return read


def selection_name(branches: list[str] | None) -> str:
    """Return the name of the compiled RDataFrame loop for a selection."""
    return "DataFrameAll" if branches is None else f"DataFrame{len(branches)}"


def make_get_entry(options: Options, _cores: int, setup: Setup, function: str = "GetEntryPass") -> Reader:
    root = compile_loops(Path(setup.cache), setup.columns)
    how = root.PassOptions()
    how.cache_bytes = options.get("cache_bytes", -1)
    how.threads = options.get("threads", 1)
    how.implicit_threads = "implicit_threads" in options
    if how.threads > 1:
        root.ROOT.EnableThreadSafety()
    if how.implicit_threads:
        root.ROOT.EnableImplicitMT(options["implicit_threads"])
    loop = getattr(root, function)

    def read(request: Request) -> Pass:
        paths = root.std.vector("string")(request.files)
        branches = root.std.vector("string")(request.branches or [])
        how.entry_start, how.entry_stop = request.entries
        start = time.perf_counter()
        done = loop(paths, request.tree, branches, how)
        seconds = time.perf_counter() - start
        extra = {"read_calls": float(done.read_calls), "bytes_read": float(done.bytes_read)}
        return Pass(seconds, int(done.entries), int(done.values), extra)

    return read


def make_get_split_entry(options: Options, cores: int, setup: Setup) -> Reader:
    read_counted = make_get_entry(options, cores, setup, "SplitPass")

    def read(request: Request) -> Pass:
        done = read_counted(request)
        done.values = None  # the number of values in ROOT's objects is unknown
        return done

    return read


def make_data_frame(options: Options, _cores: int, setup: Setup) -> Reader:
    root = compile_loops(Path(setup.cache), setup.columns)
    if "implicit_threads" in options:
        root.ROOT.EnableImplicitMT(options["implicit_threads"])

    def read(request: Request) -> Pass:
        paths = root.std.vector("string")(request.files)
        loop = getattr(root, selection_name(request.branches))
        start = time.perf_counter()
        done = loop(paths, request.tree)
        return Pass(time.perf_counter() - start, int(done.entries), int(done.values))

    return read


def opened(open_file: Callable[[], object], *, is_first: bool) -> float:
    """Return the CPU seconds of opening a file in a new process or in this one."""
    if not is_first:
        open_file()
        start = time.process_time()
        for _ in range(OPENINGS):
            open_file()
        return (time.process_time() - start) / OPENINGS
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        start = time.process_time()
        open_file()
        os.write(writing, pickle.dumps(time.process_time() - start))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        seconds: float = pickle.load(pipe)
    os.waitpid(child, 0)
    return seconds


def make_branchline_open(options: Options, _cores: int, _setup: Setup) -> Reader:
    import branchline

    # Import modules that other readers have already imported, such as awkward.
    for module in IMPORTED_BY_OPENING:
        importlib.import_module(module)

    def read(request: Request) -> Pass:
        (source,) = sources(request)
        return Pass(opened(lambda: branchline.open(source), is_first=options["is_first"]), None, None)

    return read


def make_uproot_open(options: Options, _cores: int, _setup: Setup) -> Reader:
    import uproot

    def open_tree(request: Request) -> None:
        with uproot.open(request.files[0], handler=uproot.source.file.MemmapSource) as file:
            assert len(file[request.tree]) > 0

    def read(request: Request) -> Pass:
        return Pass(opened(lambda: open_tree(request), is_first=options["is_first"]), None, None)

    return read


MAKERS: dict[str, Callable[[Options, int, Setup], Reader]] = {
    "branchline": make_branchline,
    "limit": make_limit,
    "uproot": make_uproot,
    "get_entry": make_get_entry,
    "branchline_split": make_branchline_split,
    "uproot_split": make_uproot_split,
    "get_split_entry": make_get_split_entry,
    "data_frame": make_data_frame,
    "branchline_open": make_branchline_open,
    "uproot_open": make_uproot_open,
}
