"""Wagons read the same values from the companions of ALICE-like files as uproot, event by event."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import awkward as ak
import pytest
import uproot
from tests.sampled import long_but

import branchline

pytestmark = pytest.mark.peer

COPIES, EVENTS = 3, 20
COORDINATE = "TrackReferences/TrackReferences.fX"


@pytest.fixture(scope="module")
def sets(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create folders with AliESDs.root, Kinematics.root, TrackRefs.root and galice.root."""
    folder = tmp_path_factory.mktemp("sets")
    for number in range(COPIES):
        (folder / f"{number:03}").mkdir()
        for name in ("AliESDs", "Kinematics", "TrackRefs", "galice"):
            shutil.copy(shared / "root" / f"esdlikeA-{name}.root", folder / f"{number:03}" / f"{name}.root")
    return folder


class Truth:
    """Expected columns of the companions, together with columns of the events."""

    def process(self, events: Any) -> Any:
        particles = events.companion["Kinematics"].Particles
        return {
            "tracks": ak.num(events.Tracks).to_list(),
            "particles": ak.num(particles).to_list(),
            "px": particles.fPx.to_list(),
            "x": events.companion["TrackRefs"].TrackReferences.fX.to_list(),
            "primaries": events.companion["galice"].Header.fNprimary.to_list(),
        }


@pytest.mark.parametrize("workers", long_but([1, 2], [2]))
def test_companions_hold_what_uproot_reads(sets: Path, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", 1)
    result = branchline.run(
        [Truth()],
        str(sets / "*" / "AliESDs.root"),
        tree="esdTree",
        companions=["Kinematics.root", "TrackRefs.root", "galice.root:TE"],
        workers=workers,
        step_size=7,
    )
    assert result.exit_code == 0, result.errors
    got = result.outputs["Truth"]
    references = uproot.open(sets / "000" / "TrackRefs.root")
    x = [references[f"Event{event}/TreeTR"][COORDINATE].array().to_list() for event in range(EVENTS)]
    assert got["x"] == x * COPIES
    kinematics = uproot.open(sets / "000" / "Kinematics.root")
    counts = [kinematics[f"Event{event}/TreeK"].num_entries for event in range(EVENTS)]
    assert got["particles"] == counts * COPIES
    assert [len(one) for one in got["px"]] == got["particles"]
    assert len(got["primaries"]) == len(got["tracks"]) == EVENTS * COPIES
    assert result.job["companions_missing"] == []


def test_particles_are_those_that_are_read_directly(sets: Path) -> None:
    result = branchline.run(
        [Truth()],
        str(sets / "000" / "AliESDs.root"),
        companions=["Kinematics.root", "TrackRefs.root", "galice.root:TE"],
    )
    file = branchline.open(sets / "000" / "Kinematics.root")
    directly = [file[f"Event{event}/TreeK"].arrays("Particles").Particles.fPx.to_list() for event in range(EVENTS)]
    assert result.outputs["Truth"]["px"] == directly
