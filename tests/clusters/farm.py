"""A small train for batch systems: its files, its wagons, and the same run on this machine to compare with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import uproot
from tests.patience import HANG_S

from branchline.records.result_files.formats import RESULTS

# Doubles without pattern: a file has more than 4 MB, so that each is a sub-job.
EVENTS_PER_FILE = 600_000

WAGONS = """
import time
from pathlib import Path

import hist
import numpy as np

from cuts import LOWEST, HERE


class Spectra:
    name = "spectra"

    def process(self, events):
        time.sleep(float(Path(HERE, "pause").read_text()))
        histogram = hist.Hist.new.Reg(50, -5, 5, name="px").Weight()
        px = np.asarray(events.px)
        histogram.fill(px[px > LOWEST], weight=0.1)
        return {"px": histogram, "sum": float(np.sum(px)), "events": len(events)}
"""
TABLES = """

import branchline


class Skim:
    name = "skim"

    def process(self, events):
        good = events[events.px > 0]
        return {
            "tree": branchline.Table({"px": good.px}, tree="Events"),
            "ntuple": branchline.Table({"px": good.px}, format="rntuple"),
            "parquet": branchline.Table({"px": good.px}, format="parquet"),
            "events": len(good),
        }
"""
CUTS = """
from pathlib import Path

LOWEST = -4.0
HERE = Path(__file__).parent
"""


@dataclass
class Train:
    """The files of a train in a folder."""

    folder: Path
    files: int
    events_per_file: int = EVENTS_PER_FILE

    def make(self) -> Train:
        """Writes them."""
        (self.folder / "data").mkdir()
        (self.folder / "wagons.py").write_text(WAGONS)
        (self.folder / "cuts.py").write_text(CUTS)
        self.pause(0)
        for index in range(self.files):
            random = np.random.default_rng(index)
            with uproot.recreate(self.folder / "data" / f"f{index:02}.root", compression=None) as file:
                file.mktree("events", {"px": "float64"}).extend({"px": random.normal(size=self.events_per_file)})
        return self

    def file(self, number: int) -> str:
        """The path of a file, as records have it."""
        return str(self.folder / "data" / f"f{number:02}.root")

    def pause(self, seconds: float) -> None:
        """Makes the wagon wait before each chunk."""
        (self.folder / "pause").write_text(str(seconds))

    @property
    def words(self) -> list[str]:
        """What `branchline run` is given."""
        return ["run", "wagons.py", "data", "--pictures", "none", "--step-size", "200000"]


def files_of(out: Path) -> dict[str, bytes]:
    """What a train leaves in open formats: the same files with the same bytes, wherever it ran."""
    return {str(one.relative_to(out)): one.read_bytes() for one in sorted((out / RESULTS).rglob("*")) if one.is_file()}


def rows_of(out: Path) -> list[list[float]]:
    """The rows of the three tables."""
    folder = out / "tables" / "skim"
    tree = uproot.open(folder / "tree.root")["Events"].arrays().px.tolist()
    ntuple = uproot.open(folder / "ntuple.root")["ntuple"].arrays().px.tolist()
    return [tree, ntuple, pyarrow.parquet.read_table(folder / "parquet.parquet")["px"].to_pylist()]


def wait_until(happened: Callable[[], Any], what: str, timeout_s: float = HANG_S) -> Any:
    """What the call returns once that is true."""
    end_s = time.monotonic() + timeout_s
    while not (found := happened()):
        assert time.monotonic() < end_s, f"{what} did not happen"
        time.sleep(0.1)
    return found
