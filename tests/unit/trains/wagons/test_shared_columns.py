"""Wagons that run once for several variations of columns: results are those of a run for each, whatever they do."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import boost_histogram
import hist
import numpy as np
import pytest
import vector
from tests.sampled import long_but
from tests.unit.trains.wagons.conftest import run_in_chunks

import branchline
from branchline.trains.sums.digests import digest_of
from branchline.trains.wagons import variations
from branchline.trains.wagons.variations import shares_columns, shares_runs

BINS = hist.axis.Regular(12, 0, 6, name="pt")
EVENTS, CHUNK = 600, 200
#: How often wagons of this module ran.
RUNS: list[str] = []
COLUMNS = {
    "jes_up": {"Jet.pt": lambda events: events.Jet.pt * 1.1},
    "jes_down": {"Jet_pt": lambda events: events.Jet_pt * 0.9},
    "met_up": {"MET_pt": lambda events: events.MET_pt + 0.5},
    "both_up": {"Jet.pt": lambda events: events.Jet.pt + 0.2, "MET_pt": lambda events: events.MET_pt * 2},
    "fewer": {"Jet": lambda events: events.Jet[events.Jet.pt > 1.5]},
}
WEIGHTS = {"pu_up": lambda events: 1 + events.MET_pt, "pu_down": lambda events: 1 - 0.1 * events.MET_pt}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Events with jets, muons and a missing momentum."""
    path = tmp_path_factory.mktemp("events") / "a.root"
    generator = np.random.default_rng(2)
    columns: dict[str, Any] = {
        "MET_pt": generator.exponential(2, EVENTS),
        "genWeight": generator.normal(1, 0.1, EVENTS),
    }
    for name in ("Jet", "Muon"):
        counts = generator.poisson(3, EVENTS)
        members = {one: generator.exponential(1.5, counts.sum()) for one in ("pt", "eta", "phi", "mass")}
        columns |= {f"{name}_{one}": ak.unflatten(values, counts) for one, values in members.items()}
    with branchline.recreate(path) as made:
        made.mktree("events", columns, counter_name=lambda name: "n" + name.split("_")[0])
    return str(path)


def filled(values: Any, weight: Any = None) -> Any:
    return hist.Hist(BINS, storage=hist.storage.Weight()).fill(values, weight=weight)


def spectra(events: Any) -> Any:
    """A selection as physicists write it, with parts that no variation changes."""
    events = events[ak.num(events.Muon) >= 2]
    jets = events.Jet[(events.Jet.pt > 1) & (np.abs(events.Jet.eta) < 4)]
    two = ak.num(jets.pt) >= 2
    muons, weight = events.Muon[two], events.weight[two]
    return {
        "lead": filled(jets[two].pt[:, 0], weight),
        "ht": filled(ak.sum(jets.pt, axis=1), events.weight),
        "muon": filled(events.Muon.pt[:, 0], events.weight),
        "muon of two": filled(muons.pt[:, 0], weight),
        "met": filled(events.MET_pt[two], weight),
        "muons": filled(ak.flatten(events.Muon.pt)),
        "count": ak.sum(two),
        "events": int(ak.sum(ak.num(events.Muon))),
    }


def combined(events: Any) -> Any:
    """Pairs, records and four-vectors."""
    jets = ak.with_name(events.Jet, "Momentum4D", behavior=vector.backends.awkward.behavior)
    first, second = ak.unzip(ak.combinations(jets, 2))
    pairs = ak.zip({"mass": (first + second).mass, "pt": first.pt})
    best = pairs[ak.argmax(pairs.mass, axis=1, keepdims=True)]
    weights, masses = ak.broadcast_arrays(events.weight, ak.drop_none(best.mass, axis=1))
    return filled(ak.flatten(masses), ak.flatten(weights))


def by_events(events: Any) -> Any:
    """Selects events by a varied mask."""
    chosen = events[events.MET_pt > 1]
    return {"pt": filled(ak.flatten(chosen.Jet.pt)), "muons": ak.sum(ak.num(chosen.Muon)), "sum": np.sum(chosen.weight)}


def in_categories(events: Any) -> Any:
    found = hist.Hist(hist.axis.StrCategory([], growth=True, name="kind"), BINS, storage=hist.storage.Weight())
    for kind, mask in (("low", events.MET_pt < 1), ("high", events.MET_pt >= 1)):
        found.fill(kind=kind, pt=events.MET_pt[mask], weight=events.weight[mask])
    return found


def unvaried(events: Any) -> Any:
    """Does not use what is varied."""
    plain = filled(ak.flatten(events.Muon.pt))
    return {"plain": plain, "mean": float(plain.values().mean()), "muons": float(ak.sum(events.Muon.pt))}


def filled_twice(events: Any) -> Any:
    """Fills first what is equal for all variations, then what differs, and then what is equal again."""
    found = filled(ak.flatten(events.Muon.pt))
    found.fill(ak.flatten(events.Jet.pt))
    found.fill(ak.flatten(events.Muon.pt), weight=2.0)
    return found


def jets_after_weights(events: Any) -> Any:
    """The weights differ first, then the columns."""
    found = filled(events.genWeight, events.weight)
    return found.fill(events.MET_pt, weight=events.weight)


def with_cutflows(events: Any) -> Any:
    """Cutflows of weights and of numbers of events, with cuts that are varied and others that are not."""
    flow, plain = branchline.Cutflow.of(events.weight), branchline.Cutflow.of(len(events), "events")
    for one in (flow, plain):
        one.cut("muons", ak.num(events.Muon) >= 2)
        one.cut("jets", ak.num(events.Jet.pt) >= 2)
        mask = one.cut("hard", ak.max(events.Muon.pt, axis=1, mask_identity=False) > 1)
    return {"flow": flow, "plain": plain, "met": filled(events.MET_pt[mask], events.weight[mask])}


def reading_cutflows(events: Any) -> Any:
    flow = branchline.Cutflow.of(events.weight)
    flow.cut("jets", ak.num(events.Jet.pt) >= 2)
    return {"flow": flow, "passed": flow.events[-1], "text": len(str(flow))}


def of_numbers(events: Any) -> Any:
    return {"ht": float(ak.sum(events.Jet.pt)), "big": 1 if ak.sum(events.Jet.pt) > 100 else 0}


def of_arrays(events: Any) -> Any:
    return np.histogram(np.asarray(ak.flatten(events.Jet.pt)), bins=5, range=(0, 5))[0]


def assigning(events: Any) -> Any:
    jets = events.Jet
    jets["twice"] = jets.pt * 2
    return float(ak.sum(jets.twice))


def of_names(events: Any) -> Any:
    return len(events.variation)


def of_layouts(events: Any) -> Any:
    return len(events.Jet.layout.content) + events.MET_pt.ndim


def of_events(events: Any) -> Any:
    return len(events[events.MET_pt > 1])


def looped(events: Any) -> Any:
    return sum(float(ak.sum(jets)) for jets in events.Jet.pt)


def branching(events: Any) -> Any:
    jets = events.Jet.pt
    return filled(ak.flatten(jets * 2 if ak.max(jets) > 3 else jets))


def read_between(events: Any) -> Any:
    found = filled(ak.flatten(events.Jet.pt))
    return found * 2 if found.sum().value > 10 else found


def inner(events: Any) -> Any:
    """Varies the events itself."""
    return ak.sum(events.varied("own", {"MET_pt": events.MET_pt * 3}).MET_pt)


TOGETHER = [spectra, combined, by_events, in_categories, unvaried, filled_twice, jets_after_weights, with_cutflows]
APART = [
    reading_cutflows,
    of_numbers,
    of_arrays,
    assigning,
    of_names,
    of_layouts,
    of_events,
    looped,
    branching,
    read_between,
    inner,
]


def counted(wagon: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The wagon, which notes that it ran."""

    def run(events: Any) -> Any:
        RUNS.append(wagon.__name__)
        return wagon(events)

    return run


def results(wagon: Callable[[Any], Any], file: str, **options: Any) -> tuple[Any, Any]:
    """The results and the varied wagon."""
    given = {"weight": lambda events: events.genWeight, "weights": WEIGHTS, "columns": COLUMNS, **options}
    varied = branchline.varied(wagon, **given)
    varied.name = "varied"
    result = run_in_chunks(varied, file, step_size=CHUNK)
    assert not [one.error for one in result.record.wagons if one.error is not None]
    return result.outputs["varied"], varied


#: Wagons that every change is tested with.
KEPT = [spectra, combined, by_events, with_cutflows, filled_twice, reading_cutflows, of_numbers, assigning, branching]


@pytest.mark.parametrize("wagon", long_but([*TOGETHER, *APART], KEPT), ids=lambda one: str(one.__name__))
def test_results_are_those_of_a_run_for_each_variation(file: str, wagon: Callable[[Any], Any]) -> None:
    RUNS.clear()
    found, varied = results(counted(wagon), file)
    runs = len(RUNS)

    def alone(events: Any) -> Any:
        # Asking for the name of the variation ends a shared run.
        return (events.variation, wagon(events))[1]

    expected, separate = results(alone, file)
    assert not shares_columns(separate)
    assert not shares_runs(separate)
    assert list(found) == list(expected) == ["nominal", *WEIGHTS, *COLUMNS]
    for name in expected:
        assert digest_of(found[name]) == digest_of(expected[name]), name
    assert len({digest_of(one) for one in found.values()}) > 1 or wagon in (unvaried, of_layouts)
    assert shares_columns(varied) == (wagon in TOGETHER)
    if wagon in TOGETHER:
        assert runs == EVENTS // CHUNK


def test_batches_have_the_same_results(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    RUNS.clear()
    expected, _ = results(counted(spectra), file)
    together = len(RUNS)
    monkeypatch.setattr(variations, "_BATCH_BYTES_MAX", 0)
    found, varied = results(counted(spectra), file)
    assert len(RUNS) == together * (1 + len(COLUMNS))
    assert shares_columns(varied)
    assert digest_of(found) == digest_of(expected)


def test_weights_may_depend_on_varied_columns(file: str) -> None:
    def weight(events: Any) -> Any:
        return events.genWeight * (1 + ak.sum(events.Jet.pt, axis=1))

    found, varied = results(spectra, file, weight=weight)
    assert shares_columns(varied)

    def alone(events: Any) -> Any:
        return (events.variation, spectra(events))[1]

    expected, _ = results(alone, file, weight=weight)
    assert digest_of(found) == digest_of(expected)
    assert found["jes_up"]["muon"].sum().value > found["nominal"]["muon"].sum().value


def test_what_is_not_varied_is_computed_once(file: str) -> None:
    calls: list[int] = []

    def once(events: Any) -> Any:
        muons = events.Muon.pt
        calls.append(id(muons))
        assert type(muons) is ak.Array
        assert type(events.Jet.pt) is not ak.Array
        return filled(ak.flatten(muons), None)

    _, varied = results(once, file, weight=None, weights={})
    assert shares_columns(varied)
    assert len(calls) == EVENTS // CHUNK


def test_random_numbers_are_those_of_one_run(file: str) -> None:
    def smeared(events: Any) -> Any:
        factors = np.random.normal(1, 0.1, len(events)) * random.uniform(1, 2)  # noqa: NPY002 - as in wagons
        return filled(events.MET_pt * factors)

    first, _ = results(smeared, file)
    again, _ = results(smeared, file)
    assert digest_of(first) == digest_of(again)
    assert digest_of(first["nominal"]) == digest_of(first["jes_up"])


def test_changes_of_metadata_stay_in_a_run(file: str) -> None:
    def changing(events: Any) -> Any:
        seen = "seen" in events.metadata
        events.metadata["seen"] = True
        return {"seen": int(seen), "ht": float(ak.sum(events.Jet.pt))}

    found, _ = results(changing, file)
    assert all(one["seen"] == 0 for one in found.values())


def test_nothing_stays_replaced(file: str) -> None:
    before = boost_histogram.Histogram.fill, ak.Array.__getitem__, vars(branchline.Cutflow)["of"]
    results(spectra, file)
    results(branching, file)
    assert (boost_histogram.Histogram.fill, ak.Array.__getitem__, vars(branchline.Cutflow)["of"]) == before


def test_errors_of_columns_are_told_as_they_are(file: str) -> None:
    columns = {"a_up": {"MET_pt": lambda events: events.MET_pt[:2]}}
    varied = branchline.varied(spectra, columns=columns)
    (wagon,) = run_in_chunks(varied, file, step_size=CHUNK).record.wagons
    assert wagon.error is not None
    assert "'MET_pt' has 2 entries" in wagon.error.message


def test_varied_wagons_with_columns_may_be_varied(file: str, tmp_path: Path) -> None:
    def ht(events: Any) -> Any:
        return ak.sum(events.Jet.pt)

    inside = branchline.varied(ht, columns={"jes_up": {"Jet.pt": lambda events: events.Jet.pt * 2}})
    outer = branchline.varied(inside, columns={"jer_up": {"Jet.pt": lambda events: events.Jet.pt * 3}})
    found = run_in_chunks(outer, file, step_size=CHUNK).outputs["ht"]
    nominal = found["nominal"]["nominal"]
    assert found["jer_up"]["nominal"] == pytest.approx(3 * nominal)
    assert found["nominal"]["jes_up"] == pytest.approx(2 * nominal)
    assert found["jer_up"]["jes_up"] == pytest.approx(6 * nominal)
