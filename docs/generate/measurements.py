"""The measured comparisons: charts of the medians in benches/results, and the whole tables behind them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from docs.generate.bars import bars

#: Results whose samples are seconds of a pass of one arm: title, file, the cases and the arms that the chart shows.
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
#: The tables as the benchmarks write them: name and title in the menu.
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
    "queries": "The ADL queries",
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
    """Writes `charts.md`, which the page one folder above includes, its pictures, and one page for each table."""
    lines = []
    for number, (title, name, case, arms) in enumerate(CHARTS):
        medians = _medians(results / f"{name}.json", case)
        missing = set(arms) - set(medians)
        if missing:
            raise LookupError(f"{name}.json has no {sorted(missing)}; it has {sorted(medians)}")
        picture = f"chart-{number}.svg"
        (folder / picture).write_text(bars({label: medians[arm] for arm, label in arms.items()}), encoding="utf-8")
        lines += [
            f"## {title}",
            "",
            f"![{title}](generated/{picture})",
            "",
            f"[The whole table](generated/{name}.md)",
            "",
        ]
    (folder / "charts.md").write_text("\n".join(lines), encoding="utf-8")
    for name in TABLES:
        source = f"../../../benches/results/{name}.md"
        (folder / f"{name}.md").write_text(f":::{{include}} {source}\n:relative-images:\n:::\n", encoding="utf-8")


def _medians(path: Path, case: str) -> dict[str, float]:
    """The median seconds of each arm of one case."""
    seconds: dict[str, list[float]] = {}
    for sample in json.loads(path.read_text(encoding="utf-8"))["samples"]:
        if sample["case"] == case:
            seconds.setdefault(sample["arm"], []).append(sample["seconds"])
    return {arm: statistics.median(values) for arm, values in seconds.items()}
