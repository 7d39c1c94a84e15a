"""Makes the seeds of the fuzz targets anew: small ROOT files by uproot and ROOT, cut into their parts.

Run as `python -m fuzz.seeds FOLDER` at the top of the sources, in their environment. The folder gets one of its own for
each target.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import awkward as ak
import numpy as np
import uproot
from tests.peers import root_files
from tests.peers.peers import import_root, shared_data
from tests.unit.tree.conftest import CODECS, write_sample

ROOT_TREES = 12
ENTRIES = 6


def make_files(folder: Path) -> list[Path]:
    """Small files of each codec and each kind of column."""
    for name, codec in CODECS.items():
        write_sample(folder / f"{name}.root", codec, (5, 3))
    root = import_root()
    for seed in range(ROOT_TREES if root is not None else 0):
        compression = list(root_files.CODECS.values())[seed % len(root_files.CODECS)]
        made, layout, _ = root_files.random_tree(seed, compression)
        layout.basket_bytes = 1000
        root_files.write(root, folder / f"root{seed}.root", made, layout, ENTRIES)
    write_ntuple(folder / "ntuple.root")
    return sorted(folder.glob("*.root"))


def write_ntuple(path: Path) -> None:
    """An RNTuple with numbers, lists of numbers and of lists, strings and records."""
    columns = {
        "number": np.arange(ENTRIES, dtype="i4"),
        "energy": np.linspace(0, 1, ENTRIES),
        "is_good": np.arange(ENTRIES) % 2 == 0,
        "hits": ak.Array([[1.5] * (i % 3) for i in range(ENTRIES)]),
        "nested": ak.Array([[[i], [], [i, i]][: i % 4] for i in range(ENTRIES)]),
        "label": ak.Array(["x" * i for i in range(ENTRIES)]),
        "vertex": ak.Array([{"x": 0.5 * i, "tracks": list(range(i % 3))} for i in range(ENTRIES)]),
    }
    with uproot.recreate(path, compression=uproot.ZSTD(1)) as file:
        file.mkrntuple("ntuple", ak.Array(columns))


def shared_files() -> list[Path]:
    """Those of the shared files that were written for tests like these."""
    data = shared_data()
    return [] if data is None else sorted((data / "root").glob("fta_*.root"))


def main(corpus: Path) -> None:
    fuzz = Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as folder:
        files = [*make_files(Path(folder)), *shared_files()]
        command = ["cargo", "run", "--release", "--quiet", "--manifest-path", str(fuzz / "Cargo.toml")]
        command += ["--example", "seeds", "--", str(corpus.resolve()), *map(str, files)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
