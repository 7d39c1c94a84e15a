"""The simulated collisions are proton collisions at 14 TeV, and the same from the same seed."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot

from branchline.trains.demo import collisions, demo_files


@pytest.fixture(scope="module")
def events(collisions: Path) -> ak.Array:
    return uproot.concatenate([f"{path}:events" for path in sorted(collisions.glob("*.root"))])


def test_every_branch_is_written_with_its_type(events: ak.Array) -> None:
    assert set(events.fields) == {*collisions.PARTICLE_TYPES, *collisions.EVENT_TYPES, demo_files.COUNT_NAME}
    for name, dtype in collisions.PARTICLE_TYPES.items():
        assert ak.to_numpy(ak.flatten(events[name])).dtype == np.dtype(dtype)


def test_the_particles_of_the_final_state_carry_what_the_protons_brought(events: ak.Array) -> None:
    final = events.status > 0
    np.testing.assert_allclose(ak.sum(events.e[final], axis=1), 14_000.0, rtol=1e-4)
    np.testing.assert_allclose(ak.sum(events.charge[final], axis=1), 2.0, atol=1e-4)
    for component in ("px", "py", "pz"):
        np.testing.assert_allclose(ak.sum(events[component][final], axis=1), 0.0, atol=0.05)


def test_mothers_and_daughters_are_particles_of_the_same_event(events: ak.Array) -> None:
    for name in ("mother1", "mother2", "daughter1", "daughter2"):
        assert ak.all((events[name] >= 0) & (events[name] < events.n))


def test_hard_events_and_soft_ones_do_not_overlap(events: ak.Array) -> None:
    is_hard = events.process != 101
    assert ak.sum(is_hard) == collisions.HARD_SHARE * len(events)
    assert ak.all(events.ptHat[is_hard] >= collisions.THRESHOLD_GEV)
    assert ak.all(events.ptHat[~is_hard] < collisions.THRESHOLD_GEV)


def test_the_weights_add_up_to_the_inelastic_cross_section_without_diffraction(events: ak.Array) -> None:
    assert 50 < ak.mean(events.weight) < 65


@pytest.mark.long
def test_the_same_seed_gives_the_same_events_whatever_the_number_of_workers(collisions: Path, tmp_path: Path) -> None:
    again = demo_files.make_data(tmp_path, files=2, events_per_file=20, seed=7, workers=2)
    assert len(again) == 2
    for path in again:
        here, there = (uproot.open(f"{folder / path.name}:events").arrays() for folder in (tmp_path, collisions))
        assert here.layout.is_equal_to(there.layout, all_parameters=True)


def test_another_seed_and_another_file_give_other_events(collisions: Path) -> None:
    first, second = (uproot.open(f"{collisions}/collisions-00{index}.root:events")["px"].array() for index in (0, 1))
    assert first.to_list() != second.to_list()
