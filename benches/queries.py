"""The eight queries of the ADL benchmark on generated NanoAOD: Branchline, coffea and RDataFrame, on one core and two.

Each reader has a separate process for each query and number of cores. After a warm-up, the readers make one pass per
round in turn, so that a slowdown of the machine affects all readers of a round.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benches.conditions import machine_lines
from benches.data import TREE
from benches.passes import Ask, cpu_seconds, rounds, serve
from benches.queries_arrays import QUERIES, TITLES, filled
from benches.queries_data import make
from benches.root_loops import compile_headers
from benches.rounds import Spread
from benches.tables import spread, table

READERS = ("Branchline", "coffea", "RDataFrame")
HEADER = Path(__file__).with_name("queries_root.h")
# Values of ten bits sometimes lie exactly on the edge of a bin, where libraries round differently. Arrays use single
# precision and C++ double.
DIFFERENT_MAX = 1e-3
# Candidate chunk sizes for coffea, from its default to a whole file.
COFFEA_CHUNKS = (100_000, 312_500, 1_250_000)


class UnequalHistogramsError(RuntimeError):
    """Two readers of a query have different histograms."""


@dataclass(frozen=True)
class QueryPass:
    """One pass of a reader: wall seconds, CPU seconds of all its processes, the number of chunks (0 if unknown), and
    the bin contents including underflow and overflow.
    """

    query: str
    reader: str
    cores: int
    seconds: float
    cpu_seconds: float
    chunks: int
    bins: list[float]


# A run returns the number of chunks and the bin contents.
Run = Callable[[], tuple[int, list[float]]]


def with_branchline(query: str, files: list[str], cores: int) -> Run:
    import branchline

    def wagon(events: Any) -> Any:
        return filled(query, events)

    def run() -> tuple[int, list[float]]:
        # On one core, run in this process like coffea's executor and RDataFrame; otherwise use a worker per core.
        workers = 0 if cores == 1 else cores
        results = branchline.run(wagon, [f"{path}:{TREE}" for path in files], workers=workers)
        bins = [float(one) for one in results.outputs["wagon"].values(flow=True)]
        return results.record.wagons[0].chunks, bins

    return run


def with_coffea(query: str, files: list[str], cores: int) -> Run:
    """Return a run with the chunk size that needs the least CPU time in one pass."""
    runs = [with_coffea_chunks(query, files, cores, chunksize) for chunksize in COFFEA_CHUNKS]
    runs[0]()  # Warm up imports and metadata caches.
    tried = {}
    for run in runs:
        before_s = cpu_seconds()
        run()
        tried[cpu_seconds() - before_s] = run
    return tried[min(tried)]


def with_coffea_chunks(query: str, files: list[str], cores: int, chunksize: int) -> Run:
    from coffea import processor
    from coffea.nanoevents import BaseSchema

    class Query(processor.ProcessorABC):  # type: ignore[misc]
        def process(self, events: Any) -> Any:
            return {"x": filled(query, events), "chunks": 1}

        def postprocess(self, accumulator: Any) -> Any:
            return accumulator

    def run() -> tuple[int, list[float]]:
        executor = (
            processor.IterativeExecutor(status=False)
            if cores == 1
            else processor.FuturesExecutor(workers=cores, status=False)
        )
        runner = processor.Runner(executor=executor, schema=BaseSchema, chunksize=chunksize, savemetrics=False)
        results = runner({"made": {"files": dict.fromkeys(files, TREE)}}, Query())
        return results["chunks"], [float(one) for one in results["x"].values(flow=True)]

    return run


def with_root(query: str, files: list[str], cores: int, cache: Path) -> Run:
    root = compile_headers(cache, "queries", [HEADER])
    if cores > 1:
        root.EnableImplicitMT(cores)
    names = root.std.vector["std::string"](files)
    return lambda: (0, [float(one) for one in getattr(root, query)(names)])


def prepared(reader: str, query: str, cores: int, cache: Path, files: list[str]) -> Ask:
    """Return a function that runs a pass of a reader in this process."""
    if reader == "RDataFrame":
        run = with_root(query, files, cores, cache)
    else:
        run = (with_branchline if reader == "Branchline" else with_coffea)(query, files, cores)

    def one_pass() -> dict[str, Any]:
        cpu, began = cpu_seconds(), time.perf_counter()
        chunks, bins = run()
        return asdict(QueryPass(query, reader, cores, time.perf_counter() - began, cpu_seconds() - cpu, chunks, bins))

    return one_pass


def measure(query: str, cores: int, cache: Path, files: list[Path], repeats: int) -> list[QueryPass]:
    """Return the passes of all readers without the warm-up, after comparing the histograms of each round."""
    passes = []
    readers = [[reader, query, str(cores), str(cache), *map(str, files)] for reader in READERS]
    for number, said in enumerate(rounds("benches.queries", readers, repeats)):
        done = [QueryPass(**one) for one in said]
        check_equal(done)
        passes += done if number > 0 else []
    return passes


def check_equal(passes: list[QueryPass]) -> None:
    """Raise UnequalHistogramsError if the histograms differ in more than a few entries at the edge of a bin or a
    selection.
    """
    ours = passes[0].bins
    for one in passes[1:]:
        moved = sum(abs(a - b) for a, b in zip(ours, one.bins, strict=True))
        if moved > DIFFERENT_MAX * sum(ours) + 2:
            msg = f"{one.query}: {one.reader} has {sum(one.bins):.0f} entries, {passes[0].reader} {sum(ours):.0f}"
            raise UnequalHistogramsError(f"{msg}; {moved:.0f} of them in other bins")


def queries_page(
    cache: Path, events: int, repeats: int, say: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Create the files, measure, and return the page and its rows."""
    files = make(cache, events, say)
    rows, found = [], []
    for query in QUERIES:
        for cores in (1, 2):
            say(f"{query} on {cores} cores")
            passes = measure(query, cores, cache, files, repeats)
            found += [asdict(one) for one in passes]
            rows.append([query, str(cores), *cells(passes)])
    head = ["query", "cores", "Branchline CPU s", "s", "chunks", "coffea CPU s", "s", "chunks", "CPU / coffea's"]
    head += ["RDataFrame CPU s", "s", "CPU / RDataFrame's"]
    size = sum(path.stat().st_size for path in files)
    lines = [
        "# The queries of the ADL benchmark",
        "",
        f"{events} generated events named as in NanoAOD, {size / 1e6:.0f} MB in {len(files)} files written by ROOT "
        "(zstd level 5, default layout), from the page cache. CPU seconds include all processes of a reader; the last "
        "column of a peer is Branchline's CPU time divided by the peer's, pair by pair within a round. The whole "
        "process is bound to its cores.",
        "",
        "- **Branchline**: `branchline.run(wagon, files, workers=0)`, and `workers=2` on two cores: both workers are "
        "forked within the pass from a fork server that the first pass started, as in a notebook (starting it takes "
        "0.6 s of CPU time)",
        "- **coffea**: `Runner` with `BaseSchema` and the same array functions; `IterativeExecutor`, and "
        "`FuturesExecutor` on two cores, whose processes start within the pass; the `chunksize` is the best of "
        f"{', '.join(map(str, COFFEA_CHUNKS))} for each query",
        "- **RDataFrame**: C++ compiled with optimisation, nothing jitted; implicit threads on two cores",
        "",
        "Histograms are compared in each round: at most 1 in 1000 entries differs, since some values lie on edges of "
        "bins and selections, and arrays use single precision. With arrays, Q6 groups events by their number of jets, "
        "which takes half the time of `ak.combinations`.",
        "",
        *(f"- {query}: {TITLES[query]}" for query in QUERIES),
        "",
        *machine_lines(repeats),
        "",
        table(head, rows),
        "",
    ]
    return "\n".join(lines), found


def cells(passes: list[QueryPass]) -> list[str]:
    """Return the cells of a row: CPU and wall seconds and chunks of each reader, and the ratios of CPU seconds."""
    by_reader = {reader: [one for one in passes if one.reader == reader] for reader in READERS}
    row = []
    ours = by_reader["Branchline"]
    for reader, theirs in by_reader.items():
        row.append(spread(Spread.of([one.cpu_seconds for one in theirs])))
        row.append(f"{Spread.of([one.seconds for one in theirs]).median:.2f}")
        if reader != "RDataFrame":
            row.append(str(theirs[0].chunks))
        if reader != "Branchline":
            row.append(spread(Spread.of([a.cpu_seconds / b.cpu_seconds for a, b in zip(ours, theirs, strict=True)])))
    return row


def main(reader: str, query: str, cores: str, cache: str, *files: str) -> None:
    serve(int(cores), lambda: prepared(reader, query, int(cores), Path(cache), list(files)))


if __name__ == "__main__":
    main(*sys.argv[1:])
