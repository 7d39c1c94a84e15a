"""Writing a TTree and an RNTuple from arrays in memory: Branchline, uproot and ROOT, with one core and with all.

Each writer is a process of its own that makes the same arrays first; the seconds are those from the first call of the
writer until the file is closed. ROOT fills entry by entry in compiled code, with implicit multithreading for all cores.
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

CODECS = {"LZ4": "lz4:4", "zstd": "zstd:5", "zlib": "zlib:1"}
ROOT_CODES = {"lz4:4": 404, "zstd:5": 505, "zlib:1": 101}
KINDS = ("TTree", "RNTuple")
DATA = """
import json, sys, time
import awkward as ak, numpy as np
path, kind, codec, code, count, cores = sys.argv[1:4] + [int(one) for one in sys.argv[4:]]
rng = np.random.default_rng(1)
flat = {f"x{i}": np.round(rng.normal(size=count), 3).astype("f4") for i in range(6)}
lengths = rng.integers(0, 8, count)
lists = {f"v{i}": np.round(rng.exponential(30, int(lengths.sum())), 2).astype("f4") for i in range(3)}
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
    + "import uproot\nsetting = uproot.compression.Compression.from_code_pair(code // 100, code % 100)\n"
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
    + '''
import ROOT
ROOT.gInterpreter.Declare("""
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleWriter.hxx>
#include <TFile.h>
#include <TTree.h>
struct Columns { std::vector<const float *> flat, lists; const long *starts; long count; };
void write_tree(const char *path, int code, const Columns &in) {
   TFile file(path, "RECREATE", "", code);
   TTree tree("events", "");
   std::vector<float> x(in.flat.size());
   std::vector<std::vector<float>> v(in.lists.size(), std::vector<float>(8));
   int n = 0;
   for (size_t i = 0; i < x.size(); ++i) tree.Branch(("x" + std::to_string(i)).c_str(), &x[i]);
   tree.Branch("nv", &n, "nv/I");
   for (size_t i = 0; i < v.size(); ++i) {
      auto name = "v" + std::to_string(i);
      tree.Branch(name.c_str(), v[i].data(), (name + "[nv]/F").c_str());
   }
   for (long entry = 0; entry < in.count; ++entry) {
      for (size_t i = 0; i < x.size(); ++i) x[i] = in.flat[i][entry];
      n = in.starts[entry + 1] - in.starts[entry];
      for (size_t i = 0; i < v.size(); ++i)
         std::copy_n(in.lists[i] + in.starts[entry], n, v[i].data());
      tree.Fill();
   }
   file.Write();
}
void write_ntuple(const char *path, int code, const Columns &in) {
   auto model = ROOT::RNTupleModel::Create();
   std::vector<std::shared_ptr<float>> x;
   std::vector<std::shared_ptr<std::vector<float>>> v;
   for (size_t i = 0; i < in.flat.size(); ++i) x.push_back(model->MakeField<float>("x" + std::to_string(i)));
   for (size_t i = 0; i < in.lists.size(); ++i)
      v.push_back(model->MakeField<std::vector<float>>("v" + std::to_string(i)));
   ROOT::RNTupleWriteOptions options;
   options.SetCompression(code);
   auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "events", path, options);
   for (long entry = 0; entry < in.count; ++entry) {
      for (size_t i = 0; i < x.size(); ++i) *x[i] = in.flat[i][entry];
      for (size_t i = 0; i < v.size(); ++i)
         v[i]->assign(in.lists[i] + in.starts[entry], in.lists[i] + in.starts[entry + 1]);
      writer->Fill();
   }
}
void add(std::vector<const float *> &to, const float *values) { to.push_back(values); }
""")
given = ROOT.Columns()
for values in flat.values():
    ROOT.add(given.flat, values)
for values in lists.values():
    ROOT.add(given.lists, values)
starts = np.concatenate([[0], np.cumsum(lengths)]).astype("i8")
given.starts, given.count = starts, count
if cores > 1:
    ROOT.EnableImplicitMT(cores)
write = ROOT.write_tree if kind == "TTree" else ROOT.write_ntuple
'''
    + BEGIN
    + "write(path, code, given)\n"
    + REPORT
)
WRITERS = {"Branchline": BRANCHLINE, "uproot": UPROOT, "ROOT": ROOT}


@dataclass(frozen=True)
class Written:
    """One measurement: medians of its passes."""

    kind: str
    codec: str
    cores: int
    writer: str
    wall_s: float
    cpu_s: float
    file_bytes: int

    @property
    def case(self) -> tuple[str, str, int]:
        """What all writers have in common."""
        return self.kind, self.codec, self.cores


def writing_page(events: int, repeats: int, progress: Callable[[str], None]) -> tuple[str, list[dict[str, object]]]:
    """The page with all measurements, and the numbers."""
    measured = []
    cores_all = sorted({1, len(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory(prefix="branchline-bench-") as folder:
        for kind in KINDS:
            for name, codec in CODECS.items():
                for cores in cores_all:
                    progress(f"writing {kind}, {name}, {cores} cores")
                    measured += _rounds(Path(folder, "a.root"), kind, codec, cores, events, repeats)
    return _page(measured, events, repeats), [asdict(one) for one in measured]


def _rounds(path: Path, kind: str, codec: str, cores: int, events: int, repeats: int) -> list[Written]:
    """All writers in turns."""
    passes: dict[str, list[tuple[float, float]]] = {name: [] for name in WRITERS}
    sizes = {}
    for _ in range(repeats):
        for name, script in WRITERS.items():
            passes[name].append(_pass(script, [str(path), kind, codec, str(ROOT_CODES[codec]), str(events)], cores))
            sizes[name] = path.stat().st_size
            path.unlink()
    medians = {
        name: [statistics.median(column) for column in zip(*of_one, strict=True)] for name, of_one in passes.items()
    }
    return [Written(kind, codec, cores, name, *medians[name], sizes[name]) for name in WRITERS]


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
        ratio = "" if one is ours else f"{one.wall_s / ours.wall_s:.2f}"
        seconds = [f"{one.wall_s:.2f}", f"{one.cpu_s:.2f}", f"{one.file_bytes / 1e6:.1f}", ratio]
        rows.append([f"{one.kind}, {one.codec}", str(one.cores), one.writer, *seconds])
    head = ["what", "cores", "writer", "s", "CPU s", "file MB", "times Branchline's s"]
    about = (
        f"{events} entries of 6 floats and 3 lists of floats, medians of {repeats} passes in turns. Arrays are in "
        "memory; "
        "the file is on the disk when Branchline ends, and in the page cache when the others do."
    )
    return "\n".join(["# Writing", "", about, "", *machine_lines(repeats), "", table(head, rows), ""])
