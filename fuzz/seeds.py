"""Makes the seeds of the fuzz targets again: small ROOT files by uproot and ROOT, cut into their parts.

Run as `python -m fuzz.seeds FOLDER` at the top of the sources, in their environment. The folder gets one of its own for
each target.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import uproot
from tests.peers import root_files
from tests.peers.peers import import_root, shared_data
from tests.unit.reading.trees.conftest import CODECS, write_sample

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
    if root is not None:
        write_streamed(root, folder / "streamed.root")
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


STREAMED = """
#include <ROOT/RField.hxx>
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleWriteOptions.hxx>
#include <ROOT/RNTupleWriter.hxx>
#include <TLorentzVector.h>
#include <TNamed.h>
void writeStreamed(const char *path, int entries) {
   auto model = ROOT::RNTupleModel::Create();
   model->AddField(std::make_unique<ROOT::RStreamerField>("named", "TNamed"));
   model->AddField(std::make_unique<ROOT::RStreamerField>("vector", "TLorentzVector"));
   auto named = model->GetDefaultEntry().GetPtr<TNamed>("named");
   auto vector = model->GetDefaultEntry().GetPtr<TLorentzVector>("vector");
   ROOT::RNTupleWriteOptions options;
   options.SetCompression(0);
   auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "ntuple", path, options);
   for (int i = 0; i < entries; ++i) {
      named->SetNameTitle("name", std::string(i, 'x').c_str());
      vector->SetXYZT(i, 1, -i, 0.5);
      writer->Fill();
   }
}
"""


def write_streamed(root: Any, path: Path) -> None:
    """An RNTuple with fields that ROOT's streamers write."""
    root.gInterpreter.Declare(STREAMED)
    root.writeStreamed(str(path), ENTRIES)


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
