"""The eight queries of the ADL benchmark on made NanoAOD: Branchline, coffea and RDataFrame, on one core and two.

Each reader has a process of its own for a query and a number of cores. It runs the query once to warm up and is then
asked for a pass at a time, in turn with the others, so that what slows the machine slows all of a round.
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
# Values of ten bits lie on edges of bins now and then, where libraries differ in the last bit of the bin's number, as
# arrays in single precision and C++ in double do in that of the value.
DIFFERENT_MAX = 1e-3


class UnequalHistogramsError(RuntimeError):
    """Two readers of a query do not have the same histogram."""


@dataclass(frozen=True)
class QueryPass:
    """One pass of a reader: wall and CPU seconds, the latter of all of its processes, and the bins of the histogram
    with those below and above."""

    query: str
    reader: str
    cores: int
    seconds: float
    cpu_seconds: float
    bins: list[float]


def with_branchline(query: str, files: list[str], cores: int) -> Callable[[], list[float]]:
    import branchline

    def wagon(events: Any) -> Any:
        return filled(query, events)

    def run() -> list[float]:
        # On one core in this process, as coffea's executor and RDataFrame are; else in as many as there are cores.
        workers = 0 if cores == 1 else cores
        results = branchline.run(wagon, [f"{path}:{TREE}" for path in files], workers=workers)
        return [float(one) for one in results.outputs["wagon"].values(flow=True)]

    return run


def with_coffea(query: str, files: list[str], cores: int) -> Callable[[], list[float]]:
    from coffea import processor
    from coffea.nanoevents import BaseSchema

    class Query(processor.ProcessorABC):  # type: ignore[misc]
        def process(self, events: Any) -> Any:
            return {"x": filled(query, events)}

        def postprocess(self, accumulator: Any) -> Any:
            return accumulator

    def run() -> list[float]:
        executor = (
            processor.IterativeExecutor(status=False)
            if cores == 1
            else processor.FuturesExecutor(workers=cores, status=False)
        )
        runner = processor.Runner(executor=executor, schema=BaseSchema, savemetrics=False)
        results = runner({"made": {"files": dict.fromkeys(files, TREE)}}, Query())
        return [float(one) for one in results["x"].values(flow=True)]

    return run


def with_root(query: str, files: list[str], cores: int, cache: Path) -> Callable[[], list[float]]:
    root = compile_headers(cache, "queries", [HEADER])
    if cores > 1:
        root.EnableImplicitMT(cores)
    names = root.std.vector["std::string"](files)
    return lambda: [float(one) for one in getattr(root, query)(names)]


def prepared(reader: str, query: str, cores: int, cache: Path, files: list[str]) -> Ask:
    """A pass of a reader at each call, in this process."""
    if reader == "RDataFrame":
        run = with_root(query, files, cores, cache)
    else:
        run = (with_branchline if reader == "Branchline" else with_coffea)(query, files, cores)

    def one_pass() -> dict[str, Any]:
        cpu, began = cpu_seconds(), time.perf_counter()
        bins = run()
        return asdict(QueryPass(query, reader, cores, time.perf_counter() - began, cpu_seconds() - cpu, bins))

    return one_pass


def measure(query: str, cores: int, cache: Path, files: list[Path], repeats: int) -> list[QueryPass]:
    """Passes of all readers but those that warm up; the histograms of each round are compared."""
    passes = []
    readers = [[reader, query, str(cores), str(cache), *map(str, files)] for reader in READERS]
    for number, said in enumerate(rounds("benches.queries", readers, repeats)):
        done = [QueryPass(**one) for one in said]
        check_equal(done)
        passes += done if number > 0 else []
    return passes


def check_equal(passes: list[QueryPass]) -> None:
    """Raises UnequalHistogramsError unless the histograms have the same entries, but for few at the edge of a bin or
    of a selection."""
    ours = passes[0].bins
    for one in passes[1:]:
        moved = sum(abs(a - b) for a, b in zip(ours, one.bins, strict=True))
        if moved > DIFFERENT_MAX * sum(ours) + 2:
            msg = f"{one.query}: {one.reader} has {sum(one.bins):.0f} entries, {passes[0].reader} {sum(ours):.0f}"
            raise UnequalHistogramsError(f"{msg}; {moved:.0f} of them in other bins")


def queries_page(
    cache: Path, events: int, repeats: int, say: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Makes the files and measures, as a page and as rows."""
    files = make(cache, events, say)
    rows, found = [], []
    for query in QUERIES:
        for cores in (1, 2):
            say(f"{query} on {cores} cores")
            passes = measure(query, cores, cache, files, repeats)
            found += [asdict(one) for one in passes]
            rows.append([query, str(cores), *cells(passes, events)])
    head = ["query", "cores", "Branchline s", "10^6 events/s", "CPU s"]
    head += ["coffea s", "CPU s", "x coffea", "RDataFrame s", "CPU s", "x RDataFrame"]
    size = sum(path.stat().st_size for path in files)
    lines = [
        "# The queries of the ADL benchmark",
        "",
        f"{events} made events in NanoAOD's manner, {size / 1e6:.0f} MB in {len(files)} files that ROOT wrote "
        "(zstd of level 5, its own layout), from the page cache. **x** is how many times Branchline's seconds the peer "
        "took, pair by pair within a round. The whole process is bound to its cores.",
        "",
        "- **Branchline**: `branchline.run(wagon, files, workers=0)`, and `workers=2` on two cores: both are forked "
        "within the pass, from a process of the first pass, as in a notebook (to start that takes 0.6 s of CPU time)",
        "- **coffea**: `Runner` with `BaseSchema` and the same array functions; `IterativeExecutor`, and "
        "`FuturesExecutor` on two cores, whose processes start within the pass",
        "- **RDataFrame**: C++ compiled with optimisation, nothing jitted; implicit threads on two cores",
        "",
        "Histograms are compared in each round: at most 1 of 1000 entries is elsewhere, since values lie on edges of "
        "bins and of selections, and arrays calculate in single precision. In arrays Q6 takes the events of each "
        "number of jets as a table, for which it needs half the time of `ak.combinations`.",
        "",
        *(f"- {query}: {TITLES[query]}" for query in QUERIES),
        "",
        *machine_lines(repeats),
        "",
        table(head, rows),
        "",
    ]
    return "\n".join(lines), found


def cells(passes: list[QueryPass], events: int) -> list[str]:
    """Of a row: seconds and CPU seconds of each reader, and how many times Branchline's a peer's are."""
    by_reader = {reader: [one for one in passes if one.reader == reader] for reader in READERS}
    row = []
    ours = by_reader["Branchline"]
    for reader, theirs in by_reader.items():
        took = Spread.of([one.seconds for one in theirs])
        row.append(spread(took))
        if reader == "Branchline":
            row.append(f"{events / took.median / 1e6:.2f}")
        row.append(f"{Spread.of([one.cpu_seconds for one in theirs]).median:.2f}")
        if reader != "Branchline":
            row.append(spread(Spread.of([b.seconds / a.seconds for a, b in zip(ours, theirs, strict=True)])))
    return row


def main(reader: str, query: str, cores: str, cache: str, *files: str) -> None:
    serve(int(cores), lambda: prepared(reader, query, int(cores), Path(cache), list(files)))


if __name__ == "__main__":
    main(*sys.argv[1:])
