"""A measured pass over files in a separate process, like a job that opens a storage for the first time.

Prints seconds, entries, read calls and bytes as JSON, and Branchline's CPU time. The seconds exclude imports and the
start of the process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Size of the TTreeCache, large enough for a cluster of each file.
CACHE_BYTES = 30_000_000


def branchline(files: list[str], tree: str, branches: list[str] | None, how: dict[str, Any]) -> dict[str, Any]:
    """Read a stream of chunks with two ``threads`` unless ``how`` sets another number. Other items of ``how`` are
    access settings.
    """
    from branchline import Access
    from branchline.reading.sources import Source
    from branchline.reading.trees.stream import ChunkStream

    threads = how.pop("threads", 2)
    begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
    sources, entries = [Source(one, tree) for one in files], 0
    with ChunkStream(sources, branches, step_size="100 MB", threads=threads, access=Access(**how)) as stream:
        for chunk in stream:
            entries += len(chunk)
            chunk.release()
        seconds, cpu_s = time.perf_counter() - begin_s, time.process_time() - begin_cpu_s
        read = stream.records().files
    calls, moved = sum(one.read_calls for one in read), sum(one.bytes_read for one in read)
    return {"seconds": seconds, "cpu_s": cpu_s, "entries": entries, "calls": calls, "bytes": moved}


def copied(files: list[str], tree: str, branches: list[str] | None, how: dict[str, Any]) -> dict[str, Any]:
    """Copy all files with xrdcp, four at a time, then read them from the local disk."""
    begin_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        places = [f"{folder}/{number}.root" for number in range(len(files))]
        for first in range(0, len(files), 4):
            pairs = list(zip(files, places, strict=True))[first : first + 4]
            copies = [subprocess.Popen(["xrdcp", "--silent", "--nopbar", url, place]) for url, place in pairs]
            if any(copy.wait() for copy in copies):
                raise OSError("xrdcp failed")
        done = branchline(places, tree, branches, how)
        moved = sum(Path(place).stat().st_size for place in places)
    return done | {"seconds": time.perf_counter() - begin_s, "calls": None, "bytes": moved}


def uproot(files: list[str], tree: str, branches: list[str] | None, how: dict[str, Any]) -> dict[str, Any]:
    """Read arrays with uproot, from a server with vector reads of the package xrootd. Without a selection of branches,
    objects are skipped, since uproot cannot read some of them.
    """
    import uproot as peer

    begin_s, entries, calls, moved = time.perf_counter(), 0, 0, 0
    handler = {"handler": peer.XRootDSource} if files[0].startswith("root://") else {}
    for one in files:
        with peer.open(one, **handler) as file:
            events = file[tree]
            names = branches or [name for name, branch in events.iteritems() if _is_plain(branch)]
            arrays = events.arrays(names, library=how.get("library", "np"))
            entries += events.num_entries
            calls += file.file.source.num_requests
            moved += file.file.source.num_requested_bytes
            del arrays
    return {"seconds": time.perf_counter() - begin_s, "entries": entries, "calls": calls, "bytes": moved}


def _is_plain(branch: Any) -> bool:
    """Whether uproot reads a branch as numbers or lists of numbers."""
    return type(branch.interpretation).__name__ in ("AsDtype", "AsJagged")


def root(files: list[str], tree: str, branches: list[str] | None, how: dict[str, Any]) -> dict[str, Any]:
    """Read with a GetEntry loop. `cache` is the size of the TTreeCache, 0 for none. The cache is given its branches,
    unless `learning` is set: then branches are read one by one, as in TTreeReader and RDataFrame, and the cache learns
    them.
    """
    warnings.simplefilter("ignore")
    import ROOT

    ROOT.gErrorIgnoreLevel = ROOT.kFatal
    ROOT.gEnv.SetValue("TFile.AsyncPrefetching", int(how.get("asynchronous", False)))
    begin_s, entries, calls, moved = time.perf_counter(), 0, 0, 0
    for one in files:
        file = ROOT.TFile.Open(one)
        events = file.Get(tree)
        learning = how.get("learning", False)
        if branches is not None and not learning:
            events.SetBranchStatus("*", False)
            for name in branches:
                events.SetBranchStatus(name, True)
        events.SetCacheSize(how["cache"])
        if how["cache"] and not learning:
            for name in branches or ["*"]:
                events.AddBranchToCache(name, True)
            events.StopCacheLearningPhase()
        count = events.GetEntries()
        one_by_one = [events.GetBranch(name) for name in branches or ()] if learning else []
        for entry in range(count):
            if one_by_one:
                events.LoadTree(entry)
            for part in one_by_one or [events]:
                part.GetEntry(entry)
        entries += count
        calls += file.GetReadCalls()
        moved += file.GetBytesRead()
        file.Close()
    return {"seconds": time.perf_counter() - begin_s, "entries": entries, "calls": calls, "bytes": moved}


READERS: dict[str, Callable[..., dict[str, Any]]] = {
    "branchline": branchline,
    "copied": copied,
    "uproot": uproot,
    "root": root,
}


def measured(request: dict[str, Any], timeout_s: float) -> dict[str, Any] | None:
    """Run a pass in a separate process. Returns None if it exceeds the timeout."""
    command = [sys.executable, "-m", "benches.link_reader", json.dumps(request)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return None
    if ended.returncode != 0:
        raise RuntimeError(f"{request['reader']} failed: {ended.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps(READERS[asked.pop("reader")](**asked)))
