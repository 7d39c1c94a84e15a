"""Reads an RNTuple on one core, all fields or a few, with Branchline, uproot, ROOT's RNTupleReader and RDataFrame.

Branchline and uproot return arrays of all entries, ROOT one entry after the other.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benches.conditions import machine_lines
from benches.passes import Ask, cpu_seconds, rounds, serve
from benches.root_loops import compile_headers, import_root
from benches.rounds import Spread
from benches.tables import spread, table
from benches.worker import REPOSITORY

NAME = "ntuple"
#: ROOT's numbers for the algorithm and the level of each codec.
CODECS = {"zstd": (5, 5), "LZ4": (4, 4), "zlib": (1, 1), "LZMA": (2, 1)}
READERS = ("Branchline", "uproot", "RNTupleReader", "RDataFrame")
ALL, FEW = "all", ("f0", "event", "v0")

# 30 fields: numbers, vectors with a common counter, strings, nested vectors and arrays.
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
    """Write a file of random events."""
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


def reading(reader: str, cache: Path, path: str, *, is_few: bool) -> Callable[[], int]:
    """Return a function for one pass of a reader. It returns the number of entries read."""
    if reader == "Branchline":
        import branchline

        chosen = list(FEW) if is_few else None
        return lambda: len(branchline.open(path)[NAME].arrays(chosen, workers=1))
    if reader == "uproot":
        import uproot

        # Select by names, since a filter makes uproot check each field.
        return lambda: len(uproot.open(path)[NAME].arrays(list(FEW) if is_few else None))
    root = compile_headers(cache, "ntuple", [], functions_of_root(path))
    named = f"{reader}_few" if is_few else f"{reader}_all"
    return lambda: int(getattr(root, named)(path))


def functions_of_root(path: str) -> str:
    """Return C++ functions for a pass of the RNTupleReader and of RDataFrame, over all fields or a few, with static
    types.
    """
    frame = import_root().RDataFrame(NAME, path)
    types = {name: str(frame.GetColumnType(name)) for name in COLUMNS}
    views = "\n".join(f'  auto v{i} = reader->GetView<{types[name]}>("{name}");' for i, name in enumerate(FEW))
    touched = " ".join(f"sink = sink + looked_at(v{i}(entry));" for i, _ in enumerate(FEW))
    return f"""
#include <ROOT/RNTupleReader.hxx>
#include <ROOT/RDataFrame.hxx>
template <class T> long looked_at(const T &value)
{{
  if constexpr (std::is_arithmetic_v<T>) return value > 0; else return value.size();
}}
long RNTupleReader_all(const char *path)
{{
  auto reader = ROOT::RNTupleReader::Open("{NAME}", path);
  for (auto entry : *reader) reader->LoadEntry(entry);
  return reader->GetNEntries();
}}
long RNTupleReader_few(const char *path)
{{
  auto reader = ROOT::RNTupleReader::Open("{NAME}", path);
{views}
  volatile long sink = 0;
  for (auto entry : *reader) {{ {touched} }}
  return reader->GetNEntries();
}}
{function_of_dataframe("all", types)}
{function_of_dataframe("few", {name: types[name] for name in FEW})}
"""


def function_of_dataframe(suffix: str, types: dict[str, str]) -> str:
    arguments = ", ".join(f"const {of} &a{i}" for i, of in enumerate(types.values()))
    touched = " ".join(f"sink = sink + looked_at(a{i});" for i, _ in enumerate(types))
    names = ", ".join(f'"{name}"' for name in types)
    return f"""
long RDataFrame_{suffix}(const char *path)
{{
  long entries = 0; volatile long sink = 0;
  ROOT::RDataFrame("{NAME}", path).Foreach([&]({arguments}) {{ {touched} ++entries; }}, {{{names}}});
  return entries;
}}
"""


@dataclass(frozen=True)
class NtuplePass:
    """One pass of a reader, including opening the file."""

    codec: str
    fields: str
    reader: str
    entries: int
    seconds: float
    cpu_seconds: float


def prepared(reader: str, codec: str, fields: str, cache: Path, path: str) -> Ask:
    """Return a function that runs a pass of a reader in this process."""
    work = reading(reader, cache, path, is_few=fields != ALL)

    def one_pass() -> dict[str, Any]:
        cpu, began = cpu_seconds(), time.perf_counter()
        entries = work()
        took, used = time.perf_counter() - began, cpu_seconds() - cpu
        return asdict(NtuplePass(codec, fields, reader, entries, took, used))

    return one_pass


def measure(codec: str, fields: str, cache: Path, path: Path, repeats: int) -> list[NtuplePass]:
    """Return the passes of all readers without the warm-up. Raises RuntimeError unless all read the same entries."""
    passes = []
    readers = [[reader, codec, fields, str(cache), str(path)] for reader in READERS]
    for number, said in enumerate(rounds("benches.ntuple", readers, repeats)):
        done = [NtuplePass(**one) for one in said]
        if len({one.entries for one in done}) != 1:
            raise RuntimeError(f"the readers of {path} differ: {done}")
        passes += done if number > 0 else []
    return passes


def ntuple_page(cache: Path, events: int, repeats: int, say: Callable[[str], None]) -> tuple[str, list[dict[str, Any]]]:
    """Create the files, measure, and return the page and its rows."""
    cache.mkdir(parents=True, exist_ok=True)
    rows, found = [], []
    for codec in CODECS:
        path = cache / f"ntuple-{codec}-{events}.root"
        if not path.exists():
            say(f"makes {path.name}")
            # Use a separate process, since ROOT would keep its settings.
            run("make", str(path), codec, str(events))
        run("compile", str(cache), str(path))
        for fields in (ALL, f"{len(FEW)}"):
            say(f"{fields} fields of {path.name}")
            passes = measure(codec, fields, cache, path, repeats)
            found += [asdict(one) for one in passes]
            rows.append([codec, fields, *cells(passes)])
    head = ["codec", "fields", *(f"{reader} ms" for reader in READERS), "x the best peer", "CPU, x the best peer"]
    lines = [
        "# Reading an RNTuple",
        "",
        f"{events} events with {len(COLUMNS)} fields, written by ROOT: numbers, vectors, strings, vectors of vectors, "
        f"and an array. All fields are read, or {', '.join(FEW)}. One core, from the page cache; each pass opens the "
        "file. Median, lowest and highest of the passes. **x** is the time of the fastest peer divided by "
        "Branchline's, pair by pair within a round.",
        "",
        "- **Branchline**: `arrays(workers=1)`; **uproot**: `arrays()`; both return arrays of all entries",
        "- **RNTupleReader**: `LoadEntry` for all fields, views for a few fields, compiled with optimisation",
        "- **RDataFrame**: `Foreach` with the types of all columns given, compiled with optimisation",
        "",
        *machine_lines(repeats),
        "",
        table(head, rows),
        "",
    ]
    return "\n".join(lines), found


def run(*arguments: str) -> None:
    """Run a function of this module in a separate process."""
    subprocess.run(
        [sys.executable, "-m", "benches.ntuple", *arguments], cwd=REPOSITORY, capture_output=True, check=True
    )


def cells(passes: list[NtuplePass]) -> list[str]:
    """Return the cells of a row: milliseconds of each reader, and the ratios of the fastest peer to Branchline in wall
    and CPU time.
    """
    by_reader = {reader: [one for one in passes if one.reader == reader] for reader in READERS}
    row = [spread(Spread.of([one.seconds for one in own]), 1e3, 1) for own in by_reader.values()]
    ours = by_reader.pop("Branchline")
    for attribute in ("seconds", "cpu_seconds"):
        ratios = [
            Spread.of([getattr(b, attribute) / getattr(a, attribute) for a, b in zip(ours, theirs, strict=True)])
            for theirs in by_reader.values()
        ]
        row.append(spread(min(ratios, key=lambda one: one.median)))
    return row


def main(reader: str, *arguments: str) -> None:
    if reader == "make":
        path, codec, events = arguments
        make(Path(path), codec, int(events))
        return
    if reader == "compile":
        cache, path = arguments
        # Compile in advance; otherwise all readers would compile at the same time.
        reading("RDataFrame", Path(cache), path, is_few=False)
        return
    codec, fields, cache, path = arguments
    serve(1, lambda: prepared(reader, codec, fields, Path(cache), path))


if __name__ == "__main__":
    main(*sys.argv[1:])
