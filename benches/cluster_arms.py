"""Runs an analysis with one package on a separate Dask cluster, once for each line of input.

The cluster is started, and everything is imported and compiled, before the process answers "ready".
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import psutil

TREE = "Events"
WORKERS = 2
BINS, HIGH_GEV = 100, 200.0
#: Mass of the first two muons, in double precision in all packages, so that bins do not differ by rounding.
MASS = (
    "std::sqrt(2 * double(Muon_pt[0]) * double(Muon_pt[1]) * (std::cosh(double(Muon_eta[0]) - double(Muon_eta[1]))"
    " - std::cos(double(Muon_phi[0]) - double(Muon_phi[1]))))"
)
PAIR = (
    "nMuon >= 2 && Muon_charge[0] != Muon_charge[1] && Muon_pt[0] > 20 && Muon_pt[1] > 20"
    " && std::abs(Muon_eta[0]) < 2.4f && std::abs(Muon_eta[1]) < 2.4f"
)

# The bin contents of both histograms, including underflow and overflow, and the number of events.
Counts = dict[str, list[float]]


def counts_of(outputs: Any) -> Counts:
    spectra = {name: [float(one) for one in outputs[name].values(flow=True)] for name in ("pt", "mass")}
    return {**spectra, "events": [float(outputs["events"])]}


class Pairs:
    """The wagon of Branchline and the processor of coffea."""

    def process(self, events: Any) -> dict[str, Any]:
        import awkward as ak
        import hist
        import numpy as np

        def spectrum(values: Any) -> hist.Hist:
            return hist.Hist.new.Reg(BINS, 0, HIGH_GEV, name="x").Double().fill(np.asarray(values))

        pt = events.Muon_pt
        two = ak.num(pt) >= 2
        first, second = ({name: events[f"Muon_{name}"][two][:, at] for name in ("pt", "eta", "phi", "charge")}
                         for at in (0, 1))  # fmt: skip
        opposite = first["charge"] != second["charge"]
        high = (first["pt"] > 20) & (second["pt"] > 20)
        central = (abs(first["eta"]) < np.float32(2.4)) & (abs(second["eta"]) < np.float32(2.4))
        taken = opposite & high & central
        one, other = ({name: np.asarray(of[name][taken], "f8") for name in ("pt", "eta", "phi")}
                      for of in (first, second))  # fmt: skip
        difference = np.cosh(one["eta"] - other["eta"]) - np.cos(one["phi"] - other["phi"])
        mass = np.sqrt(2 * one["pt"] * other["pt"] * difference)
        return {"events": len(pt), "pt": spectrum(ak.flatten(pt)), "mass": spectrum(mass)}

    def postprocess(self, accumulator: Any) -> Any:
        return accumulator


def branchline_run(client: Any, files: Sequence[str], _setting: int) -> Callable[[], Counts]:
    import branchline

    # Import the class from its module, since workers cannot import this program.
    from benches.cluster_arms import Pairs as Wagon

    def run() -> Counts:
        result = branchline.run([Wagon()], list(files), tree=TREE, on=client)
        if result.exit_code:
            raise RuntimeError("; ".join(result.errors))
        return counts_of(result.outputs["Pairs"])

    return run


def coffea_run(client: Any, files: Sequence[str], chunk: int, *, metrics: bool = False) -> Callable[[], Counts]:
    from coffea.nanoevents import BaseSchema
    from coffea.processor import DaskExecutor, ProcessorABC, Runner

    # Import the class from its module, since workers cannot import this program.
    from benches.cluster_arms import Pairs as Steps

    class Processor(Steps, ProcessorABC):
        pass

    executor = DaskExecutor(client=client, status=False, compression=None)
    # Use the same runner for all runs, since it caches metadata of the files.
    runner = Runner(executor=executor, schema=BaseSchema, chunksize=chunk, savemetrics=metrics)

    def run() -> Counts:
        outputs = runner({"all": {"files": dict.fromkeys(files, TREE)}}, processor_instance=Processor())
        return counts_of(outputs[0] if isinstance(outputs, tuple) else outputs)

    return run


def coffea_metrics_run(client: Any, files: Sequence[str], chunk: int) -> Callable[[], Counts]:
    return coffea_run(client, files, chunk, metrics=True)


def rdataframe_run(client: Any, files: Sequence[str], partitions: int) -> Callable[[], Counts]:
    import ROOT

    def run() -> Counts:
        frame = ROOT.RDataFrame(TREE, list(files), executor=client, npartitions=partitions)
        events = frame.Count()
        pt = frame.Histo1D(("pt", "", BINS, 0, HIGH_GEV), "Muon_pt")
        pairs = frame.Filter(PAIR).Define("mass", MASS)
        mass = pairs.Histo1D(("mass", "", BINS, 0, HIGH_GEV), "mass")
        filled = {"pt": pt.GetValue(), "mass": mass.GetValue()}
        counts = {name: [one.GetBinContent(at) for at in range(BINS + 2)] for name, one in filled.items()}
        return {**counts, "events": [float(events.GetValue())]}

    return run


#: For each package, a function that prepares a run, and the candidates for its setting.
ARMS: dict[str, tuple[Callable[[Any, Sequence[str], int], Callable[[], Counts]], tuple[int, ...]]] = {
    "Branchline": (branchline_run, (0,)),
    "coffea": (coffea_run, (100_000, 10_000, 5_000)),
    "coffea, savemetrics": (coffea_metrics_run, (100_000,)),
    "RDataFrame": (rdataframe_run, (WORKERS, 2 * WORKERS, 4 * WORKERS, 8 * WORKERS)),
}


def tree_cpu_s() -> float:
    """Return the CPU time of this process and all its descendants, including ended ones."""
    own = psutil.Process()
    total = 0.0
    for one in [own, *own.children(recursive=True)]:
        try:
            times = one.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def measured(run: Callable[[], Counts]) -> dict[str, Any]:
    begin_s, begin_cpu_s = time.perf_counter(), tree_cpu_s()
    counts = run()
    return {"wall_s": time.perf_counter() - begin_s, "cpu_s": tree_cpu_s() - begin_cpu_s, "counts": counts}


def serve() -> None:
    """Start the cluster, find the fastest setting, and run with it once for each line of input."""
    from distributed import Client, LocalCluster

    name, files = sys.argv[1], json.loads(sys.stdin.readline())
    make, settings = ARMS[name]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    with (
        # ROOT prints the progress of Dask to standard output.
        Path(os.devnull).open("w") as nowhere,
        redirect_stdout(nowhere),
        LocalCluster(WORKERS, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(WORKERS)
        runs = {setting: make(client, files, setting) for setting in settings}
        for run in runs.values():
            run()  # Warm up imports, compilation and metadata caches.
        tried = {setting: measured(run)["wall_s"] for setting, run in runs.items()}
        best = min(tried, key=lambda one: tried[one])
        print(json.dumps({"setting": best, "tried": tried}), file=answers)
        for _ in sys.stdin:
            print(json.dumps(measured(runs[best])), file=answers)


if __name__ == "__main__":
    serve()
