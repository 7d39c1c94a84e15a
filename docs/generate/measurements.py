"""Generates the measured comparisons: charts of the medians in benches/results, and a page for each table."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docs.generate.bars import bars, panels

#: Charts: title, results file, case, and the labels of the arms. Samples in these files are seconds per pass.
CHARTS: Sequence[tuple[str, str, str, Mapping[str, str]]] = (
    (
        "Read 24 files of the demo, all branches, zlib, one core",
        "readers",
        "zlib, all branches",
        {
            "Branchline, 1 core": "Branchline",
            "uproot, library np, 1 core": "uproot, NumPy",
            "uproot, library ak, 1 core": "uproot, awkward",
            "GetEntry, TTreeCache, 1 core": "ROOT, GetEntry",
            "limit: decompression alone, 1 core": "decompression alone",
        },
    ),
    (
        "Read 24 files of the demo, all branches, LZ4, one core",
        "readers",
        "LZ4, all branches",
        {
            "Branchline, 1 core": "Branchline",
            "uproot, library np, 1 core": "uproot, NumPy",
            "uproot, library ak, 1 core": "uproot, awkward",
            "GetEntry, TTreeCache, 1 core": "ROOT, GetEntry",
            "limit: decompression alone, 1 core": "decompression alone",
        },
    ),
    (
        "Read 100 small files of 484 branches of split objects, one core",
        "split-objects",
        "split objects",
        {
            "Branchline, 1 core": "Branchline",
            "uproot, library ak, 1 core": "uproot, awkward",
            "GetEntry, TTreeCache, 1 core": "ROOT, TTreeCache",
            "GetEntry, no TTreeCache, 1 core": "ROOT, no TTreeCache",
        },
    ),
    (
        "Merge 100 files of 296 MB, in the page cache",
        "merging",
        "split objects, warm",
        {
            "Branchline, by entry": "branchline merge",
            "Branchline, --verify": "branchline merge --verify",
            "hadd -fk": "hadd -fk",
            "TFileMerger, by entry": "TFileMerger",
            "cat, synced": "cat and fsync",
        },
    ),
)
#: Panels of the chart in the README, as above. Branchline is not the fastest in all of them.
SPEED: Sequence[tuple[str, str, str, Mapping[str, str]]] = (
    (
        "Read 24 files, all branches, zlib",
        "readers",
        "zlib, all branches",
        {
            "Branchline, 1 core": "Branchline",
            "GetEntry, TTreeCache, 1 core": "ROOT, GetEntry",
            "RDataFrame, 1 core": "ROOT, RDataFrame",
            "uproot, library np, 1 core": "uproot",
        },
    ),
    (
        "Read 24 files, all branches, LZ4",
        "readers",
        "LZ4, all branches",
        {
            "Branchline, 1 core": "Branchline",
            "GetEntry, TTreeCache, 1 core": "ROOT, GetEntry",
            "RDataFrame, 1 core": "ROOT, RDataFrame",
            "uproot, library np, 1 core": "uproot",
        },
    ),
    (
        "Read 3 branches, LZMA",
        "readers",
        "LZMA, 3 branches",
        {
            "Branchline, 1 core": "Branchline",
            "GetEntry, TTreeCache, 1 core": "ROOT, GetEntry",
            "RDataFrame, 1 core": "ROOT, RDataFrame",
            "uproot, library ak, 1 core": "uproot",
        },
    ),
    (
        "Read 100 files, 484 branches of split objects",
        "split-objects",
        "split objects",
        {
            "Branchline, 1 core": "Branchline",
            "GetEntry, no TTreeCache, 1 core": "ROOT, GetEntry",
            "uproot, library ak, 1 core": "uproot",
        },
    ),
    (
        "Merge 100 files, 296 MB",
        "merging",
        "split objects, warm",
        {
            "Branchline, by entry": "branchline merge",
            "hadd -fk": "hadd -fk",
        },
    ),
)
#: The last panel: CPU seconds of an analysis in one process, without the imports.
ANALYSIS = "AGC top quark analysis, CPU time after imports"
ANALYSIS_READERS = {"Branchline": "Branchline", "RDataFrame": "ROOT, RDataFrame", "coffea": "coffea"}

#: Result tables written by the benchmarks, with their titles in the menu.
TABLES = {
    "readers": "Readers",
    "split-objects": "Split objects",
    "objects": "Objects",
    "open": "Opening a file",
    "merging": "Merging",
    "histograms": "Many histograms",
    "writing": "Writing",
    "layouts": "Layouts",
    "access": "Ways of reading",
    "storages": "Storages",
    "links": "Far storages",
    "local-disk": "Local disks",
    "sensors": "Cost of sensors",
    "tracing": "Cost of traces",
    "reporting": "Cost of reports",
    "ntuple": "RNTuples",
    "flattened": "Objects and flat columns",
    "queries": "The ADL queries",
    "agc": "The AGC's top quark pairs",
    "systematics": "Systematic variations",
    "planning": "Planning a train",
    "simulated": "Trains on 1000 workers",
    "lab": "Studies",
    "lab-storages": "Studies of a storage",
    "forecasts": "Forecasts",
    "simulation": "Simulated jobs at once",
    "advice": "Advice",
    "dispatch": "Handing out sub-jobs",
    "chunk-sizes": "Chunk sizes",
    "cluster-peers": "Packages on Dask",
    "control-room": "The control room",
    "serving": "The control room under load",
}


def write(folder: Path, results: Path) -> None:
    """Write `charts.md`, which `comparisons.md` includes, its pictures, and one page for each table."""
    lines = []
    for number, (title, name, case, arms) in enumerate(CHARTS):
        medians = _medians(results / f"{name}.json", case)
        missing = set(arms) - set(medians)
        if missing:
            raise LookupError(f"arms {sorted(missing)} are missing in {name}.json; its arms are {sorted(medians)}")
        picture = f"chart-{number}.svg"
        (folder / picture).write_text(bars({label: medians[arm] for arm, label in arms.items()}), encoding="utf-8")
        lines += [
            f"## {title}",
            "",
            f"![{title}](generated/{picture})",
            "",
            f"[All measurements](generated/{name}.md)",
            "",
        ]
    (folder / "charts.md").write_text("\n".join(lines), encoding="utf-8")
    for name in TABLES:
        source = f"../../../benches/results/{name}.md"
        (folder / f"{name}.md").write_text(f":::{{include}} {source}\n:relative-images:\n:::\n", encoding="utf-8")


def speed_chart(results: Path) -> str:
    """Return the SVG chart of the README, ``docs/speed.svg``."""
    charts = {}
    for title, name, case, arms in SPEED:
        medians = _medians(results / f"{name}.json", case)
        charts[title] = {label: medians[arm] for arm, label in arms.items()}
    rows = json.loads((results / "agc.json").read_text(encoding="utf-8"))["rows"]
    charts[ANALYSIS] = {
        # Show each reader with its best chunk size.
        label: min(_medians_of_steps(rows, reader))
        for reader, label in ANALYSIS_READERS.items()
    }
    return panels(charts)


def _medians_of_steps(rows: Sequence[Mapping[str, Any]], reader: str) -> list[float]:
    seconds: dict[int, list[float]] = {}
    for row in rows:
        if row["arm"]["reader"] == reader and row["arm"]["workers"] == 1:
            seconds.setdefault(row["arm"]["step"], []).append(row["run_cpu_s"])
    return [statistics.median(values) for values in seconds.values()]


def _medians(path: Path, case: str) -> dict[str, float]:
    """Return the median seconds of each arm of a case."""
    seconds: dict[str, list[float]] = {}
    for sample in json.loads(path.read_text(encoding="utf-8"))["samples"]:
        if sample["case"] == case:
            seconds.setdefault(sample["arm"], []).append(sample["seconds"])
    return {arm: statistics.median(values) for arm, values in seconds.items()}
