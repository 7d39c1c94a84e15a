"""Writing a TTree and an RNTuple from arrays in memory: Branchline, uproot and ROOT, with one core and with all.

Each writer is a process of its own that makes the same arrays first; the seconds are those from the first call of the
writer until the file is closed. Codecs are compared where they do the same work: levels of zstd are twice as high in
ROOT's numbers, and uproot's LZ4 is ROOT's fast one at every level. ROOT fills entry by entry in compiled code; with
several cores a TTree by TBufferMerger with implicit multithreading, an RNTuple by RNTupleParallelWriter, each with one
thread for each core.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from benches.conditions import machine_lines
from benches.tables import table
from benches.worker import REPOSITORY


@dataclass(frozen=True)
class Codec:
    """The same work in the numbers of each writer; uproot's is None for what it has not."""

    name: str
    ours: str
    root: int
    uproot: int | None


CODECS = (
    Codec("none", "none", 0, 0),
    Codec("LZ4, fast", "lz4:1", 401, 401),
    Codec("LZ4, thorough", "lz4:4", 404, None),
    Codec("zlib 1", "zlib:1", 101, 101),
    Codec("zstd 4", "zstd:2", 502, 504),
    Codec("zstd 10", "zstd:5", 505, 510),
    Codec("LZMA 1", "lzma:1", 201, 201),
)
KINDS = ("TTree", "RNTuple")
SHAPES = ("fixed", "jagged")
#: Files in memory show the work alone; on a disk Branchline waits until the file is there, and the others do not.
IN_MEMORY = Path("/dev/shm")
DATA = """
import json, sys, time
import awkward as ak, numpy as np
path, kind, shape, codec, code, count, cores = sys.argv[1:5] + [int(one) for one in sys.argv[5:]]
rng = np.random.default_rng(1)
flat, lists, lengths = {}, {}, np.zeros(count, "i8")
if shape == "fixed":
    flat = {f"x{i}": np.round(rng.normal(size=count), 3).astype("f4") for i in range(12)}
else:
    lengths = rng.integers(0, 8, count)
    lists = {f"v{i}": np.round(rng.exponential(30, int(lengths.sum())), 2).astype("f4") for i in range(4)}
columns = flat | {name: ak.unflatten(values, lengths) for name, values in lists.items()}
"""
REPORT = """
print(json.dumps([time.perf_counter() - begin_s, time.process_time() - begin_cpu_s]))
"""
BEGIN = """
begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
"""
BRANCHLINE = (
    DATA
    + "import branchline\nbranchline.recreate\n"
    + BEGIN
    + """
with branchline.recreate(path, compression=codec) as file:
    if kind == "TTree":
        file["events"] = columns
    else:
        file.mkrntuple("events", columns).extend(columns)
"""
    + REPORT
)
UPROOT = (
    DATA
    + "import uproot\n"
    + "setting = uproot.compression.Compression.from_code_pair(code // 100, code % 100) if code else None\n"
    + BEGIN
    + """
with uproot.recreate(path, compression=setting) as file:
    if kind == "TTree":
        file["events"] = columns
    else:
        file.mkrntuple("events", columns)
"""
    + REPORT
)
ROOT = (
    DATA
    + """
import ROOT
ROOT.gInterpreter.Declare(open("benches/writing_root.h").read())
given = ROOT.Columns()
for values in flat.values():
    ROOT.add(given.flat, values)
for values in lists.values():
    ROOT.add(given.lists, values)
starts = np.concatenate([[0], np.cumsum(lengths)]).astype("i8")
given.starts = starts
if cores > 1:
    ROOT.EnableImplicitMT(cores)
write = ROOT.write_tree if kind == "TTree" else ROOT.write_ntuple
"""
    + BEGIN
    + "write(path, code, given, count, cores)\n"
    + REPORT
)
WRITERS = {"Branchline": BRANCHLINE, "uproot": UPROOT, "ROOT": ROOT}


@dataclass(frozen=True)
class Written:
    """One measurement: medians of its passes."""

    kind: str
    shape: str
    codec: str
    cores: int
    place: str
    writer: str
    wall_s: float
    cpu_s: float
    file_bytes: int

    @property
    def case(self) -> tuple[str, str, str, int, str]:
        """What all writers have in common."""
        return self.kind, self.shape, self.codec, self.cores, self.place


def writing_page(events: int, repeats: int, progress: Callable[[str], None]) -> tuple[str, list[dict[str, object]]]:
    """The page with all measurements, and the numbers."""
    measured = []
    cores_all = sorted({1, len(os.sched_getaffinity(0))})
    cases = [(codec, IN_MEMORY) for codec in CODECS if IN_MEMORY.is_dir()] + [(CODECS[1], None)]
    for kind in KINDS:
        for shape in SHAPES:
            for codec, place in cases:
                for cores in cores_all:
                    progress(f"writing {kind}, {shape}, {codec.name}, {cores} cores, {place or 'on the disk'}")
                    with tempfile.TemporaryDirectory(prefix="branchline-bench-", dir=place) as folder:
                        words = [str(Path(folder, "a.root")), kind, shape]
                        measured += _rounds(words, codec, cores, events, repeats, "memory" if place else "disk")
    return _page(measured, events, repeats), [asdict(one) for one in measured]


def _rounds(words: list[str], codec: Codec, cores: int, events: int, repeats: int, place: str) -> list[Written]:
    """All writers in turns."""
    codes = {"Branchline": 0, "uproot": codec.uproot, "ROOT": codec.root}
    writers = [name for name in WRITERS if codes[name] is not None]
    passes: dict[str, list[tuple[float, float]]] = {name: [] for name in writers}
    sizes, path = {}, Path(words[0])
    for _ in range(repeats):
        for name in writers:
            passes[name].append(_pass(WRITERS[name], [*words, codec.ours, str(codes[name]), str(events)], cores))
            sizes[name] = path.stat().st_size
            path.unlink()
    medians = {
        name: [statistics.median(column) for column in zip(*of_one, strict=True)] for name, of_one in passes.items()
    }
    kind, shape = words[1:]
    return [Written(kind, shape, codec.name, cores, place, name, *medians[name], sizes[name]) for name in writers]


def _pass(script: str, words: list[str], cores: int) -> tuple[float, float]:
    allowed = set(sorted(os.sched_getaffinity(0))[:cores])
    made = subprocess.run(
        [sys.executable, "-c", script, *words, str(cores)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=REPOSITORY,
        preexec_fn=lambda: os.sched_setaffinity(0, allowed),
    )
    wall_s, cpu_s = json.loads(made.stdout.splitlines()[-1])
    return wall_s, cpu_s


def _page(measured: list[Written], events: int, repeats: int) -> str:
    rows = []
    for one in measured:
        ours = next(other for other in measured if other.case == one.case and other.writer == "Branchline")
        ratios = ["", ""] if one is ours else [f"{one.wall_s / ours.wall_s:.2f}", f"{one.cpu_s / ours.cpu_s:.2f}"]
        seconds = [f"{one.wall_s:.2f}", f"{one.cpu_s:.2f}", f"{one.file_bytes / 1e6:.1f}", *ratios]
        where = "" if one.place == "memory" else ", on the disk"
        rows.append([f"{one.kind}, {one.shape}, {one.codec}{where}", str(one.cores), one.writer, *seconds])
    head = ["what", "cores", "writer", "s", "CPU s", "file MB", "times our s", "times our CPU s"]
    about = (
        f"{events} entries of 12 floats (fixed) or of 4 lists of 0 to 7 floats (jagged), medians of {repeats} passes "
        "in turns. Arrays are in memory. Files are in memory too, but for the rows that say otherwise: there the file "
        "is on the disk when Branchline ends, and in the page cache when the others do. zstd 4 and 10 are zstd's own "
        "levels, ROOT's 2 and 5. With several cores ROOT writes with TBufferMerger and RNTupleParallelWriter."
    )
    return "\n".join(["# Writing", "", about, "", *machine_lines(repeats), "", table(head, rows), ""])
