"""All fields of an RNTuple on one core, by Branchline, uproot and ROOT's RNTupleReader.

Each reader has a process of its own that opens the file and reads it several times; the first pass, in which it warms
up and ROOT compiles, does not count. Branchline and uproot give arrays of all entries, ROOT an entry after the other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benches.conditions import machine_lines
from benches.rounds import Spread
from benches.tables import spread, table
from benches.worker import REPOSITORY

NAME = "ntuple"
CODECS = {"zstd": (5, 5), "LZ4": (4, 4)}
READERS = ("Branchline", "uproot", "ROOT")

# Numbers, vectors that one number counts, strings, vectors within vectors and arrays: 30 fields.
COLUMNS = {
    **{f"f{i}": f"float(r[{i}] * 100)" for i in range(8)},
    **{f"d{i}": f"r[{i + 8}] * 1e3" for i in range(4)},
    **{f"i{i}": f"int(r[{i + 12}] * 50)" for i in range(4)},
    "event": "(unsigned long long)rdfentry_",
    "is_good": "r[20] > 0.5",
    **{
        f"v{i}": f"ROOT::RVecF v(n); for (int k = 0; k < n; ++k) v[k] = r[{22 + i} + k] * 10; return v;"
        for i in range(6)
    },
    **{
        f"w{i}": f"ROOT::RVecI v(3 * n); for (int k = 0; k < 3 * n; ++k) v[k] = r[{22 + i} + k] * 100; return v;"
        for i in range(3)
    },
    "text": "std::string(size_t(r[40] * 12), 'a')",
    "lists": "std::vector<std::vector<float>> v(r[41] * 3); for (auto &x : v) x.assign(r[42] * 4, r[43]); return v;",
    "array": "std::array<float, 3>{float(r[1]), float(r[2]), float(r[3])}",
}


def make(path: Path, codec: str, events: int) -> None:
    """A file of so many events with random values."""
    import ROOT  # type: ignore[import-untyped]

    numbers = (
        "TRandom3 random(rdfentry_ + 1); std::vector<double> v(60); for (auto &x : v) x = random.Rndm(); return v;"
    )
    frame = ROOT.RDataFrame(events).Define("r", numbers).Define("n", "int(r[21] * 6)")
    for name, expression in COLUMNS.items():
        frame = frame.Define(name, expression)
    options = ROOT.RDF.RSnapshotOptions()
    options.fOutputFormat = ROOT.RDF.ESnapshotOutputFormat.kRNTuple
    options.fCompressionAlgorithm, options.fCompressionLevel = CODECS[codec]
    frame.Snapshot(NAME, str(path), list(COLUMNS), options)


def reading(reader: str, path: str) -> Callable[[], Any]:
    """What one pass of a reader does."""
    if reader == "Branchline":
        import branchline

        return lambda: branchline.open(path)[NAME].arrays(workers=1)
    if reader == "uproot":
        import uproot

        return lambda: uproot.open(path)[NAME].arrays()
    import ROOT

    ROOT.gInterpreter.Declare(
        "#include <ROOT/RNTupleReader.hxx>\n"
        "void readAll(const char *path) {"
        f'  auto reader = ROOT::RNTupleReader::Open("{NAME}", path);'
        "  for (auto entry : *reader) reader->LoadEntry(entry); }"
    )
    return lambda: ROOT.readAll(path)


def measure(reader: str, path: str, repeats: int) -> list[float]:
    """Seconds of each pass but the first."""
    work = reading(reader, path)
    seconds = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return seconds[1:]


def ntuple_page(cache: Path, events: int, repeats: int, say: Callable[[str], None]) -> tuple[str, list[dict[str, Any]]]:
    """Makes the files and measures, as a page and as rows."""
    cache.mkdir(parents=True, exist_ok=True)
    rows, found = [], []
    for codec in CODECS:
        path = cache / f"ntuple-{codec}-{events}.root"
        if not path.exists():
            say(f"makes {path.name}")
            run("make", str(path), codec, str(events))
        for reader in READERS:
            say(f"{reader} reads {path.name}")
            seconds = json.loads(run("measure", reader, str(path), str(repeats)))
            found.append({"codec": codec, "reader": reader, "events": events, "seconds": seconds})
            took = Spread.of(seconds)
            rows.append([f"{codec}, {reader}", spread(took, 1e3, 1), f"{events / took.median / 1e6:.2f}"])
    head = [f"{len(COLUMNS)} fields of {events} events", "ms, one core", "10^6 events/s"]
    lines = [
        "# Reading an RNTuple",
        "",
        f"All {len(COLUMNS)} fields of {events} events on one core, from the page cache: numbers, vectors, strings, "
        "vectors of vectors, and an array. Branchline (`arrays(workers=1)`) and uproot (`arrays()`) give arrays of all "
        "entries, ROOT (`RNTupleReader`, compiled) one entry after the other. Each reader opens and reads the file in "
        f"a process of its own; median, lowest and highest of {repeats} passes after one to warm up.",
        "",
        *machine_lines(repeats),
        "",
        table(head, rows),
        "",
    ]
    return "\n".join(lines), found


def run(*arguments: str) -> str:
    """This module as a process; what it prints last."""
    command = [sys.executable, "-m", "benches.ntuple", *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return (done.stdout.splitlines() or [""])[-1]


def main(task: str, *arguments: str) -> None:
    if task == "make":
        make(Path(arguments[0]), arguments[1], int(arguments[2]))
        return
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(json.dumps(measure(arguments[0], arguments[1], int(arguments[2]))))


if __name__ == "__main__":
    main(*sys.argv[1:])
