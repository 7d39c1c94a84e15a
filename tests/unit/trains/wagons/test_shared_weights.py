"""Wagons that run once for several weights: results are those of a run for each, whatever they do with weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import boost_histogram
import hist
import numpy as np
import pytest
from tests.unit.trains.wagons.conftest import by_hand, run_in_chunks

import branchline
from branchline.trains.sums.digests import digest_of

BINS = hist.axis.Regular(10, 0, 5, name="pt", label="p [GeV]")
WEIGHTS: dict[str, Callable[[Any], Any]] = {"up": lambda events: 1 + events.px**2, "down": lambda events: events.run}
#: How often wagons of this module ran.
RUNS: list[str] = []


def filled(events: Any) -> Any:
    mask = ak.num(events.pt) > 0
    spectrum = hist.Hist(BINS, storage=hist.storage.Weight())
    spectrum.fill(events.pt[mask][:, 0], weight=events.weight[mask])
    spectrum.fill(pt=[1.5], weight=2.0)
    plain = hist.Hist(BINS).fill(ak.flatten(events.pt))
    return {"spectrum": spectrum, "plain": plain, "count": int(ak.sum(mask))}


def of_elements(events: Any) -> Any:
    weights, values = ak.broadcast_arrays(events.weight * np.float32(0.5), events.pt)
    return boost_histogram.Histogram(boost_histogram.axis.Regular(7, 0, 3)).fill(
        ak.flatten(values), weight=ak.flatten(weights), threads=1
    )


def categories(events: Any) -> Any:
    found = hist.Hist(hist.axis.StrCategory([], growth=True, name="kind"), BINS, storage=hist.storage.Weight())
    for kind, mask in (("even", events.run % 2 == 0), ("odd", events.run % 2 == 1)):
        selected = events[mask]
        found.fill(kind=kind, pt=np.abs(selected.px), weight=selected.weight)
    return [found, None]


def sums(events: Any) -> Any:
    large = events.weight[events.weight > 2]
    return {"sum": np.sum(np.sqrt(np.abs(events.weight))), "large": ak.sum(large), "pair": (ak.max(events.weight), 1)}


def of_contents(events: Any) -> Any:
    """Reads what it filled."""
    spectrum = hist.Hist(BINS, storage=hist.storage.Weight()).fill(np.abs(events.px), weight=events.weight)
    return {"spectrum": spectrum, "mean": float(spectrum.values().mean()), "two": spectrum + spectrum}


def in_place(events: Any) -> Any:
    spectrum = hist.Hist(BINS, storage=hist.storage.Double()).fill(np.abs(events.px), weight=events.weight)
    spectrum.view()[...] *= 2
    return spectrum


def of_numbers(events: Any) -> Any:
    return {"sum": float(np.asarray(events.weight).sum()), "big": 1 if ak.sum(events.weight) > 100 else 0}


def of_names(events: Any) -> Any:
    return {"length": len(events.variation), "events": len(events.weight)}


def renamed(events: Any) -> Any:
    spectrum = hist.Hist(BINS).fill(np.abs(events.px), weight=events.weight)
    spectrum.name = "later"
    return spectrum


def caught(events: Any) -> Any:
    try:
        return float(ak.sum(events.weight))
    except Exception:  # noqa: BLE001 - as wagons do
        return -1.0


TOGETHER = [filled, of_elements, categories, sums]
APART = [of_contents, in_place, of_numbers, of_names, renamed, caught]


def counted(wagon: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The wagon, which notes that it ran."""

    def run(events: Any) -> Any:
        RUNS.append(wagon.__name__)
        return wagon(events)

    return run


@pytest.mark.parametrize("wagon", [*TOGETHER, *APART], ids=lambda one: str(one.__name__))
def test_results_are_those_of_a_run_for_each_weight(folder: Path, wagon: Callable[[Any], Any]) -> None:
    RUNS.clear()
    varied = branchline.varied(counted(wagon), weight=lambda events: events.px, weights=WEIGHTS)
    varied.name = "varied"
    result = run_in_chunks([varied, by_hand(wagon, WEIGHTS)], f"{folder}/f0.root")
    assert not [one.error for one in result.record.wagons if one.error is not None]
    found, expected = result.outputs["varied"], result.outputs["by_hand"]
    assert list(found) == list(expected) == ["nominal", "up", "down"]
    for name in expected:
        assert digest_of(found[name]) == digest_of(expected[name])
    assert len({digest_of(one) for one in found.values()}) == 3 or wagon is of_names
    chunks = next(one.chunks for one in result.record.wagons if one.name == "varied")
    # One that cannot be run for all weights is found out in the first chunk.
    assert len(RUNS) == (chunks if wagon in TOGETHER else 3 * chunks + 1)


def test_an_error_of_the_wagon_is_told_as_it_is(folder: Path) -> None:
    def wrong(events: Any) -> Any:
        return hist.Hist(BINS).fill(events.px, weight=events.weight[:3])

    varied = branchline.varied(wrong, weights=WEIGHTS)
    (wagon,) = run_in_chunks(varied, f"{folder}/f0.root").record.wagons
    assert wagon.error is not None
    assert "one weight at a time" not in wagon.error.message
    assert "weight" in wagon.error.message or "span" in wagon.error.message


def test_what_a_variation_assigns_stays_there(tmp_path: Path) -> None:
    def assigning(events: Any) -> Any:
        seen = "new" in events.Jet.fields
        jets = events.Jet
        jets["new"] = jets.pt * 2
        events.Jet["pt"] = jets.pt * 3
        return {"seen": int(seen), "sum": float(ak.sum(events.Jet.pt))}

    with branchline.recreate(tmp_path / "a.root") as file:
        pt = ak.Array([[1.0, 2.0], [], [3.0]])
        file.mktree("events", {"Jet": ak.zip({"pt": pt, "eta": pt}), "met": np.arange(3.0)})
    met = {"met": lambda events: events.met + 1}
    varied = branchline.varied(assigning, columns={"a_up": met, "b_up": met, "jes_up": {"Jet.pt": lambda e: e.Jet.pt}})
    found = run_in_chunks(varied, f"{tmp_path}/a.root").outputs["assigning"]
    assert list(found) == ["nominal", "a_up", "b_up", "jes_up"]
    assert all(one == {"seen": 0, "sum": 18.0} for one in found.values())


def test_histograms_of_others_are_filled_as_ever() -> None:
    ours = hist.Hist(BINS, storage=hist.storage.Weight()).fill([1, 2], weight=[3, 4])
    assert ours.sum().value == 7
    with pytest.raises(TypeError, match="Missing values"):
        hist.Hist(BINS).fill(weight=[1.0])
