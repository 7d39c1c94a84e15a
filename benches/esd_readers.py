"""One pass over ESD-like files in a separate process, like ALICE's analysis.

Reads every event of `esdTree` without the branches of two detectors and, optionally, its Monte Carlo truth from the
three files next to it.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

from benches.data import SPLIT_TREE

#: The study disables 44 of 484 branches, including the branches with most baskets. ESDfriend. is in another file.
OFF = ("AliESDFMD.", "CaloClusters", "ESDfriend.")
COMPANIONS = ("Kinematics.root", "TrackRefs.root", "galice.root:TE")


def root(files: list[str], truth: bool, cache_bytes: int) -> None:
    """Read with a GetEntry loop. Each tree has a TTreeCache of ``cache_bytes``; 0 disables the cache."""
    warnings.simplefilter("ignore")
    import ROOT

    ROOT.gErrorIgnoreLevel = ROOT.kFatal
    # Otherwise a TTree creates a cache before it can be disabled.
    ROOT.gEnv.SetValue("TTreeCache.Size", 0)
    for path in files:
        file = ROOT.TFile.Open(path)
        tree = file.Get(SPLIT_TREE)
        for name in OFF:
            tree.SetBranchStatus(f"{name}*", False)
        _cached(ROOT, tree, cache_bytes)
        companions = {name: ROOT.TFile.Open(str(Path(path).parent / name)) for name in _names()} if truth else {}
        headers = companions["galice.root"].Get("TE") if truth else None
        if truth:
            _cached(ROOT, headers, cache_bytes)
        for entry in range(tree.GetEntries()):
            tree.GetEntry(entry)
            if truth:
                headers.GetEntry(entry)
                for name, kind in (("Kinematics.root", "TreeK"), ("TrackRefs.root", "TreeTR")):
                    own = companions[name].Get(f"Event{entry}/{kind}")
                    _cached(ROOT, own, cache_bytes)
                    for number in range(own.GetEntries()):
                        own.GetEntry(number)
        for one in (file, *companions.values()):
            one.Close()


def _names() -> list[str]:
    return [name.partition(":")[0] for name in COMPANIONS]


def _cached(library: Any, tree: Any, cache_bytes: int) -> None:
    """Configure the cache as in the study: it learns from one entry."""
    tree.SetCacheSize(cache_bytes)
    if cache_bytes:
        library.TTreeCache.SetLearnEntries(1)


class Analysis:
    """Reads everything that the ROOT loop reads."""

    def __init__(self, branches: list[str], truth: bool) -> None:
        self.branches = branches
        self.truth = truth

    def process(self, events: Any) -> int:
        """Return the number of columns read from the companion files."""
        import awkward as ak

        companions = [events.companion[name.partition(".")[0]] for name in COMPANIONS] if self.truth else []
        columns = [ak.materialize(one[field]) for one in companions for field in one.fields]
        return len(columns)


def branchline(files: list[str], truth: bool, how: dict[str, Any], trace: str) -> None:
    """Run a train of one wagon with a trace of its requests."""
    import branchline
    from branchline import Access
    from branchline.reading.layout.file_layout import inspect_file
    from branchline.tracing.recording import recording

    every = inspect_file(f"{files[0]}:{SPLIT_TREE}").wanted
    wagon = Analysis([name for name in every if not name.startswith(OFF)], truth)
    with recording(Path(trace), f"--access {how['mode']}"):
        result = branchline.run(
            [wagon], files, tree=SPLIT_TREE, companions=list(COMPANIONS) if truth else [], access=Access(**how)
        )
    if result.exit_code:
        raise RuntimeError(f"the train failed: {result.errors}")


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    {"root": root, "branchline": branchline}[asked.pop("reader")](**asked)
