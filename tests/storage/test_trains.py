"""A train over each place gives what it gives over the same files on the local disk."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import hist
from tests.stores.places import Place

import branchline


class Spectra:
    name = "spectra"

    def process(self, events: ak.Array) -> hist.Hist:
        return hist.Hist.new.Reg(50, 0, 1, name="pt").Double().fill(ak.flatten(events.pt))


def test_results_are_the_same_as_locally(place: Place, tmp_path: Path) -> None:
    names = ("events.root", "small.root")
    local = [f"{place.originals}/{name}:events" for name in names]
    expected = branchline.run([Spectra()], local, tmp_path / "local", workers=1)
    found = branchline.run([Spectra()], [f"{place.url(name)}:events" for name in names], tmp_path / "there", workers=2)
    assert found.outputs["spectra"].sum() > 0
    assert found.outputs["spectra"] == expected.outputs["spectra"]
