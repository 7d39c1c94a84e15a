"""Histograms of damaged files give errors that say so, or records; nothing else is raised."""

from __future__ import annotations

import warnings
from pathlib import Path

import hist
import numpy as np
import uproot

import branchline

CASES, SEED = 300, 20


def test_changed_bytes_raise_nothing_but_what_is_told(tmp_path: Path) -> None:
    rng = np.random.default_rng(SEED)
    histograms = {
        "plain": hist.Hist.new.Reg(5, 0, 1).Weight().fill(rng.random(20)),
        "two": hist.Hist.new.Var([0, 1, 3]).Reg(3, 0, 1).Double().fill(rng.random(20), rng.random(20)),
        "labels": hist.Hist.new.StrCat(["a", "b"]).Double().fill(["a", "b", "b"]),
        "mean": hist.Hist.new.Reg(3, 0, 1).Mean().fill(rng.random(20), sample=rng.random(20)),
    }
    with uproot.recreate(tmp_path / "whole.root", compression=None) as file:
        for name, histogram in histograms.items():
            file[name] = histogram
    whole = (tmp_path / "whole.root").read_bytes()
    read = refused = 0
    for case in range(CASES):
        damaged = bytearray(whole)
        for place in rng.integers(300, len(whole), int(rng.integers(1, 40))):
            damaged[place] = int(rng.integers(256))
        (tmp_path / "damaged.root").write_bytes(damaged)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                for one in branchline.open(tmp_path / "damaged.root").values():
                    assert repr(one), (SEED, case)
                    read += 1
            except branchline.BranchlineError:
                refused += 1
    assert read > CASES / 4, (SEED, read)
    assert refused, SEED
