"""A TTree and an RNTuple of the same events over added latency: `python -m studies.latency`, in some three minutes.

A file each is at an XRootD server behind our proxy, which delays what it hands on. ROOT and Branchline read 18 of 26
columns. A process for each reader and kind takes all passes, over one latency after the other; what it loads and
compiles is done before, on a file of this machine. What is forecast is kept with what was measured.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.stores.servers import Folder, Xrootd, loopback_shim

from branchline._core import Proxy
from branchline.lab.forecast.conditions import Conditions
from branchline.lab.forecast.forecasting import what_if
from branchline.lab.forecast.model import CONNECT_TRIPS
from branchline.lab.forecast.subject import Subject, subject_of
from branchline.lab.simulation.job_plan import ONE_BY_ONE, Block, BlockPlan
from branchline.lab.simulation.platform import Link, Nodes, Platform, Storage
from branchline.lab.simulation.simulated_jobs import JobsRequest, simulate_jobs
from studies.curves import ADDED_MS, Curve, Curves, Pass, write
from studies.records import RECORDS, Machine

KINDS, READERS = ("TTree", "RNTuple"), ("ROOT", "Branchline")
TREE = "events"
EVENTS, COLUMNS, READ = 500_000, 26, 18
PASSES, LIMIT_S = 3, 600.0
#: What the link of the simulator passes: nothing but round trips is added to what was measured without latency.
_FREE_BYTES_PER_S = 1e12
#: ROOT at its best: a TTreeCache of a cluster that knows its branches, and the next one read by a thread.
_CACHE_BYTES = 30_000_000
_LOOPS = """
#include <ROOT/RNTupleReader.hxx>
#include <TTree.h>
#include <vector>
double branchline_tree_loop(TTree *tree, int columns) {
    std::vector<float> values(columns);
    for (int i = 0; i < columns; ++i) tree->SetBranchAddress(TString::Format("c%d", i), &values[i]);
    double sum = 0;
    for (Long64_t entry = 0; entry < tree->GetEntries(); ++entry) { tree->GetEntry(entry); sum += values[0]; }
    return sum;
}
std::vector<Long64_t> branchline_ntuple_loop(const char *tree, const char *url, int columns) {
    auto reader = ROOT::RNTupleReader::Open(tree, url);
    reader->EnableMetrics();
    double sum = 0;
    {
        std::vector<ROOT::RNTupleView<float>> views;
        for (int i = 0; i < columns; ++i) views.emplace_back(reader->GetView<float>("c" + std::to_string(i)));
        for (auto entry : *reader) for (auto &one : views) sum += one(entry);
    }
    std::vector<Long64_t> found;
    for (auto name : {"nReadV", "szReadPayload"}) {
        auto counter = reader->GetMetrics().GetCounter(std::string("RNTupleReader.RPageSourceFile.") + name);
        found.push_back(counter ? counter->GetValueAsInt() : -1);
    }
    return found;
}
"""


def measure(cache: Path, kept: Path, say: Callable[[str], None]) -> None:
    """Takes all passes in rounds, forecasts, and keeps both."""
    machine, paths = Machine.now(), _files(cache, say)
    curves = []
    with _served(paths) as port, ExitStack() as stack:
        bases = [stack.enter_context(_behind(port, one)) for one in ADDED_MS]
        for kind in KINDS:
            urls = [f"{one}/{paths[kind].name}" for one in bases]
            for reader in READERS:
                say(f"{kind} by {reader}")
                rows = _subprocess(["--read", json.dumps([reader, kind, str(paths[kind]), *urls])], LIMIT_S)
                own = [[Pass(**one) for one in row] for row in rows]
                said = _of_subject(_subject(urls[0])) if reader == "Branchline" else _of_calls(own[0])
                curves.append(Curve(kind, reader, own, said))
                say(f"{_shown(curves[-1].seconds)}; forecast {_shown(said)}")
    sizes = {kind: path.stat().st_size for kind, path in paths.items()}
    write(Curves(machine, EVENTS, READ, sizes, curves), kept)


def _shown(seconds: list[float]) -> str:
    return " ".join(f"{one:.2f}" for one in seconds) + " s"


def _subject(url: str) -> Subject:
    """What a forecast starts from, read in a new process, as passes are: the first read of a process takes longer."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(subject_of, [f"{url}:{TREE}"], _names()).result()


def _of_subject(subject: Subject) -> list[float]:
    """As `branchline forecast URL --what-if rtt=...` says it."""
    return [what_if(subject, Conditions(round_trip_s=one / 1e3)).then.wall_s.value for one in ADDED_MS]


def _of_calls(without: list[Pass]) -> list[float]:
    """A simulated job with the read calls of the passes without latency, each a round trip, and their seconds shared
    out among the calls, one after the other: files of a cluster or two leave little to read ahead. Opening takes the
    round trips that our own forecasts count for it.
    """
    known = sorted(without, key=lambda one: one.seconds)[len(without) // 2]
    opening = Block("far", 1.0, 0.0, round_trips=CONNECT_TRIPS)
    one = Block("far", known.bytes_read / known.calls, known.seconds / known.calls)
    plan = BlockPlan((opening, *([one] * known.calls)), ONE_BY_ONE)
    found = []
    for added_ms in ADDED_MS:
        link = Link("way", _FREE_BYTES_PER_S, added_ms / 1e3)
        platform = Platform((Storage("far", links=("way",)),), (Nodes("here", 1, 1, _FREE_BYTES_PER_S),), links=(link,))
        found.append(simulate_jobs(JobsRequest(platform, (plan,)), 1).makespan_s)
    return found


def _names() -> tuple[str, ...]:
    return tuple(f"c{number}" for number in range(READ))


@contextmanager
def _served(paths: dict[str, Path]) -> Iterator[int]:
    """The port of an XRootD server over the files."""
    folder = Folder()
    try:
        data = folder.below("data")
        for one in paths.values():
            (data / one.name).write_bytes(one.read_bytes())
        server = Xrootd(folder.below("server"), data, loopback_shim(folder.path))
        server.start()
        try:
            yield server.port
        finally:
            server.kill()
    finally:
        folder.remove()


@contextmanager
def _behind(port: int, added_ms: float) -> Iterator[str]:
    """The root of the server's files behind a proxy."""
    proxy = Proxy("127.0.0.1:0", f"127.0.0.1:{port}", f"latency={added_ms:g}ms", None)
    try:
        yield f"root://127.0.0.1:{proxy.port}/"
    finally:
        proxy.close()


def _files(cache: Path, say: Callable[[str], None]) -> dict[str, Path]:
    """The same events in both forms, written by ROOT once, compressed by zstd as the published files were."""
    paths = {kind: cache.resolve() / f"{kind.lower()}-{EVENTS}.root" for kind in KINDS}
    if not all(one.exists() for one in paths.values()):
        say("writing the files")
        cache.mkdir(parents=True, exist_ok=True)
        _subprocess(["--write", json.dumps({kind: str(path) for kind, path in paths.items()})], 600.0)
    return paths


def _write(paths: dict[str, str]) -> None:
    root = _root()
    frame = root.RDataFrame(EVENTS)
    for number in range(COLUMNS):
        # As measured numbers are: of a few digits, so that they compress a little.
        value = f"float(int(1000 * sin((rdfentry_ + 1.) * {number + 1.618}) + 300 * cos(rdfentry_ * {number + 0.37})))"
        frame = frame.Define(f"c{number}", value)
    options = root.RDF.RSnapshotOptions()
    options.fCompressionAlgorithm, options.fCompressionLevel = root.RCompressionSetting.EAlgorithm.kZSTD, 5
    for kind, path in paths.items():
        options.fOutputFormat = getattr(root.RDF.ESnapshotOutputFormat, f"k{kind}")
        part = f"{path}.part"
        frame.Snapshot(TREE, part, [f"c{number}" for number in range(COLUMNS)], options)
        Path(part).rename(path)


def _passes(reader: str, kind: str, local: str, urls: list[str]) -> list[list[Pass]]:
    """PASSES of each URL, in rounds, after a pass over the local file."""
    ways = {"TTree": _read_tree, "RNTuple": _read_ntuple}
    way = _read_with_branchline if reader == "Branchline" else ways[kind]
    way(local)
    found: list[list[Pass]] = [[] for _ in urls]
    for _ in range(PASSES):
        for own, url in zip(found, urls, strict=True):
            own.append(way(url))
    return found


def _subprocess(words: list[str], limit_s: float) -> Any:
    command = [sys.executable, "-m", "studies.latency", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _root() -> Any:
    warnings.simplefilter("ignore")
    import ROOT

    ROOT.gROOT.SetBatch(True)
    ROOT.gErrorIgnoreLevel = ROOT.kError
    if not hasattr(ROOT, "branchline_tree_loop"):
        ROOT.gInterpreter.Declare(_LOOPS)
    return ROOT


def _read_tree(url: str) -> Pass:
    root = _root()
    root.gEnv.SetValue("TFile.AsyncPrefetching", 1)
    begin_s = time.perf_counter()
    file = root.TFile.Open(url)
    tree = file.Get(TREE)
    tree.SetBranchStatus("*", False)
    for name in _names():
        tree.SetBranchStatus(name, True)
    tree.SetCacheSize(_CACHE_BYTES)
    for name in _names():
        tree.AddBranchToCache(name, True)
    tree.StopCacheLearningPhase()
    root.branchline_tree_loop(tree, READ)
    seconds = time.perf_counter() - begin_s
    counts = int(file.GetReadCalls()), int(file.GetBytesRead())
    file.Close()
    return Pass(seconds, *counts)


def _read_ntuple(url: str) -> Pass:
    root = _root()
    begin_s = time.perf_counter()
    calls, bytes_read = (int(one) for one in root.branchline_ntuple_loop(TREE, url, READ))
    seconds = time.perf_counter() - begin_s
    return Pass(seconds, calls, bytes_read)


def _read_with_branchline(url: str) -> Pass:
    from branchline.reading.sources import Source
    from branchline.reading.trees.stream import ChunkStream

    begin_s = time.perf_counter()
    with ChunkStream([Source(url, TREE)], list(_names()), step_size="100 MB", threads=2) as stream:
        for chunk in stream:
            chunk.release()
        seconds = time.perf_counter() - begin_s
        files = stream.records().files
    return Pass(seconds, sum(one.read_calls for one in files), sum(one.bytes_read for one in files))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.latency", description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("target/studies/latency"), help="folder of the files")
    parser.add_argument("--kept", type=Path, default=RECORDS, help="folder of the records")
    parser.add_argument("--write", help=argparse.SUPPRESS)
    parser.add_argument("--read", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        _write(json.loads(given.write))
        print("{}")
    elif given.read:
        reader, kind, local, *urls = json.loads(given.read)
        rows = _passes(reader, kind, local, urls)
        print(json.dumps([[dataclasses.asdict(one) for one in row] for row in rows]))
    else:
        measure(given.cache, given.kept, lambda text: print(text, file=sys.stderr, flush=True))


if __name__ == "__main__":
    main()
