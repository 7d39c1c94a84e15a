"""A skim of collisions to one TTree: a train of two workers, RDataFrame's Snapshot with two threads, and uproot.

``python -m benches.table_writing [--files N] [--events N] [--repeats N]`` prints wall time, CPU time and memory of
whole processes, warm, in rotating order. All write the same rows with zstd level 5, and the rows are compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import awkward as ak
import uproot

from benches import data
from benches.worker import REPOSITORY

CACHE = REPOSITORY / "target" / "benches"
N_MIN = 300
SCALARS, VECTORS = ["event", "ptHat", "weight", "n"], ["px", "py", "pz", "e", "id"]

BRANCHLINE = f"""
import sys, branchline

class Skim:
    branches = {SCALARS + VECTORS!r}

    def process(self, events):
        good = events[events.n > {N_MIN}]
        return branchline.Table({{name: good[name] for name in {SCALARS + VECTORS!r}}}, tree="events")

out, *files = sys.argv[1:]
result = branchline.run([Skim()], files, out, workers=2, reuse=False, pictures="none")
assert not result.errors, result.errors
print(result.outputs["Skim"].path)
"""
SNAPSHOT = f"""
import sys, ROOT
ROOT.EnableImplicitMT(2)
out, *files = sys.argv[1:]
options = ROOT.RDF.RSnapshotOptions()
options.fCompressionAlgorithm, options.fCompressionLevel = ROOT.RCompressionSetting.EAlgorithm.kZSTD, 5
frame = ROOT.RDataFrame("events", files).Filter("n > {N_MIN}")
frame.Snapshot("events", out + ".root", {SCALARS + VECTORS!r}, options)
print(out + ".root")
"""
UPROOT = f"""
import sys, uproot
out, *files = sys.argv[1:]
names = {SCALARS + VECTORS!r}
with uproot.recreate(out + ".root", compression=uproot.ZSTD(5)) as file:
    tree = None
    for rows in uproot.iterate([path + ":events" for path in files], names, step_size="100 MB"):
        rows = rows[rows.n > {N_MIN}]
        columns = {{name: rows[name] for name in names}}
        if tree is None:
            tree = file.mktree("events", {{name: column.type.content for name, column in columns.items()}})
        tree.extend(columns)
print(out + ".root")
"""
ARMS = {"Branchline, 2 workers": BRANCHLINE, "RDataFrame.Snapshot, 2 threads": SNAPSHOT, "uproot": UPROOT}
# Measure the children of a small process, since peak memory includes the memory of the parent before exec.
LAUNCHER = """
import json, resource, subprocess, sys, time
begin = time.perf_counter()
ended = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True)
wall_s, used = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
if ended.returncode:
    sys.exit(ended.returncode)
print(json.dumps([wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, ended.stdout.splitlines()[-1]]))
"""


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=24)
    parser.add_argument("--events", type=int, default=150)
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    files = data.collisions(CACHE, chosen.files, chosen.events, print)
    measured: dict[str, list[tuple[float, float, int]]] = {name: [] for name in ARMS}
    rows: dict[str, ak.Array] = {}
    sizes: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="branchline-bench-") as folder:
        for repeat in range(chosen.repeats + 1):
            for number, (name, script) in enumerate(ARMS.items()):
                out = Path(folder, f"{number}-{repeat}")
                words = [sys.executable, "-S", "-c", LAUNCHER, sys.executable, "-c", script, out, *files]
                made = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True, check=True)
                wall_s, cpu_s, peak_bytes, path = json.loads(made.stdout)
                if repeat:  # the first round only warms up the caches
                    measured[name].append((wall_s, cpu_s, peak_bytes))
                    continue
                sizes[name] = Path(path).stat().st_size
                rows[name] = uproot.open(path)["events"].arrays(SCALARS + VECTORS)
    total_bytes = sum(one.stat().st_size for one in files)
    print(f"{len(files)} files of {total_bytes / 1e6:.0f} MB, {len(rows['uproot'])} rows in each output")
    for name, passes in measured.items():
        wall_s, cpu_s, peak_bytes = (statistics.median(column) for column in zip(*passes, strict=True))
        same = _sorted(rows[name]) == _sorted(rows["uproot"])
        in_order = "in order" if ak.to_list(rows[name].event) == ak.to_list(rows["uproot"].event) else "in any order"
        values = "the same rows" if same else "OTHER ROWS"
        print(
            f"{name:32} {wall_s:7.2f} s {cpu_s:7.2f} CPU s, largest process {peak_bytes / 1e6:6.0f} MB, "
            f"file {sizes[name] / 1e6:6.1f} MB, {values} {in_order}"
        )


def _sorted(rows: ak.Array) -> list[object]:
    return sorted(zip(*(ak.to_list(rows[name]) for name in ("ptHat", "n", "px")), strict=True))


if __name__ == "__main__":
    main()
