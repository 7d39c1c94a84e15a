"""Merging inputs with damaged numbers does not take memory or time in proportion to these numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.patience import HANG_S

import branchline
from branchline.errors import UnsupportedBranchError
from branchline.writing.merging.merge import merge

# A merge in a separate process with at most 4 GiB of address space.
MERGING = """
import json, resource, sys
from branchline.writing.merging.merge import merge
output, inputs, options = json.loads(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
print(json.dumps(merge(inputs, output, **options)[:]))
"""
BINS = 12345


def bounded_merge(output: Path, inputs: list[Path], **options: Any) -> None:
    """Merge, and fail if the merge takes too much memory or time."""
    arguments = json.dumps([str(output), [str(path) for path in inputs], options])
    done = subprocess.run(
        [sys.executable, "-c", MERGING, arguments], check=False, capture_output=True, text=True, timeout=HANG_S
    )
    assert done.returncode == 0, done.stderr[-2000:]


def entries_only(root: Any, path: Path, entries: int) -> Path:
    """Write a tree that claims to have entries but has a branch that was never filled."""
    file = root.TFile(str(path), "RECREATE")
    tree = root.TTree("t", "")
    value = root.std.vector["float"](1)
    tree.Branch("x", value.data(), "x/F")
    tree.SetEntries(entries)
    tree.Write()
    file.Close()
    return path


def test_a_damaged_number_of_bins_takes_no_memory(root: Any, tmp_path: Path) -> None:
    file = root.TFile(str(tmp_path / "good.root"), "RECREATE", "", 0)
    histogram = root.TH1D("h", "", BINS, 0, 1)
    histogram.SetBuffer(100)
    histogram.Fill(0.5)
    histogram.Write()
    file.Close()
    good = (tmp_path / "good.root").read_bytes()
    number = BINS.to_bytes(4, "big")
    assert good.count(number) == 1
    inputs = [tmp_path / "one.root", tmp_path / "two.root"]
    for path in inputs:
        path.write_bytes(good.replace(number, (2**31 - 1).to_bytes(4, "big")))
    bounded_merge(tmp_path / "all.root", inputs)


def test_entries_without_baskets_take_no_time(root: Any, tmp_path: Path) -> None:
    inputs = [entries_only(root, tmp_path / f"{number}.root", 10**15) for number in range(2)]
    bounded_merge(tmp_path / "all.root", inputs, cluster_events=1)
    assert branchline.open(str(tmp_path / "all.root"))["t"].num_entries == 2 * 10**15


def test_more_entries_than_a_tree_can_have_are_refused(root: Any, tmp_path: Path) -> None:
    inputs = [str(entries_only(root, tmp_path / f"{number}.root", 2**62)) for number in range(2)]
    with pytest.raises(UnsupportedBranchError, match="exceed the limit of ROOT"):
        merge(inputs, tmp_path / "all.root")
    made = merge(inputs, tmp_path / "all.root", skip_bad_files=True)
    assert (made.files, made.entries, len(made.skipped)) == (1, 2**62, 1)
    assert branchline.open(str(tmp_path / "all.root"))["t"].num_entries == 2**62
