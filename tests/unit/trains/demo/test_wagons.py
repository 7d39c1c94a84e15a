"""The demo's wagons give the spectra, jets and correlations that the collisions have."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot

from branchline.trains.demo import demo_wagons
from branchline.trains.sums.accumulators import add


@pytest.fixture(scope="module")
def events(collisions: Path) -> ak.Array:
    return uproot.concatenate([f"{path}:events" for path in sorted(collisions.glob("*.root"))])


def test_spectra_count_the_charged_particles_of_the_final_state(events: ak.Array) -> None:
    output = demo_wagons.Spectra().process(events)
    assert output["events"] == len(events)
    assert output["multiplicity"].sum(flow=True).value == pytest.approx(output["weights_sum_mb"])
    charged = ak.sum((events.status > 0) & (events.charge != 0), axis=1)
    assert output["eta"].sum(flow=True).value == pytest.approx(float(ak.sum(charged * events.weight)))


def test_results_are_cross_sections_whatever_the_number_of_events(events: ak.Array) -> None:
    """The same events twice are twice the luminosity and the same cross-sections, in mb per unit of the axis."""
    for wagon, key in (
        (demo_wagons.Spectra(), "multiplicity"),
        (demo_wagons.Spectra(), "pt"),
        (demo_wagons.Jets(), "number"),
    ):
        sums = wagon.process(events)
        once, twice = wagon.postprocess(sums), wagon.postprocess(add(sums, sums))
        np.testing.assert_allclose(once[key].values(), twice[key].values())
        np.testing.assert_allclose(once[key].variances(), 2 * twice[key].variances())
        in_range_mb = np.sum(once[key].values() * once[key].axes[0].widths)
        assert in_range_mb == pytest.approx(sums[key].sum().value / len(events))
        assert "mb" in once[key].label
    spectra = demo_wagons.Spectra().postprocess(demo_wagons.Spectra().process(events))
    assert spectra["cross_section_mb"] == pytest.approx(float(ak.mean(events.weight)))
    # Non-diffractive collisions of protons at 14 TeV.
    assert 50 < spectra["cross_section_mb"] < 65


def test_the_leading_jet_has_about_the_momentum_of_the_hard_scattering(events: ak.Array) -> None:
    hard = events[events.ptHat > 25]
    output = demo_wagons.Jets().process(hard)
    mean_pt = np.average(output["leading_pt"].axes[0].centers, weights=output["leading_pt"].values())
    assert mean_pt == pytest.approx(np.average(hard.ptHat, weights=hard.weight), rel=0.3)
    assert output["number"].sum(flow=True).value == pytest.approx(float(ak.sum(hard.weight)))


def test_pairs_are_counted_as_by_hand() -> None:
    triggers = ak.Array([[{"eta": 0.1, "phi": 3.0}], [{"eta": 1.0, "phi": 0.0}, {"eta": -1.9, "phi": 0.0}]])
    partners = ak.Array([[{"eta": 0.6, "phi": -3.0}], [{"eta": 1.9, "phi": 1.0}]])
    counts = np.zeros((4, 4))
    demo_wagons.count_pairs(triggers, partners, np.array([2.0, 3.0]), counts, 2.0)
    # The bins of delta phi start at -pi/2, and 3 - (-3) - 2 pi is just below zero.
    expected = np.zeros((4, 4))
    expected[1, 0] += 2.0
    expected[1, 0] += 3.0
    np.testing.assert_array_equal(counts, expected)


def test_pairs_from_different_events_know_nothing_of_each_other(events: ak.Array) -> None:
    wagon = demo_wagons.Correlations()
    total = wagon.process(events)
    by_phi = total["mixed_event"].values().sum(axis=0)
    assert by_phi.std() / by_phi.mean() < 0.1


def test_particles_of_one_jet_are_near_each_other(events: ak.Array) -> None:
    wagon = demo_wagons.Correlations()
    corrected = wagon.postprocess(wagon.process(events))["per_trigger_yield"]
    near = corrected[complex(0, -0.3) : complex(0, 0.3), complex(0, -0.3) : complex(0, 0.3)].values().mean()
    assert near > 1.1 * np.median(corrected.values())


def test_the_train_has_the_three_wagons_under_their_names() -> None:
    assert [wagon.name for wagon in demo_wagons.wagons] == ["spectra", "jets", "correlations"]
