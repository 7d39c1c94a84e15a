"""Wagons that try to notice that their weights are several at a time: results are those of a run for each weight."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
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
from branchline.trains.wagons.variations import shares_runs

BINS = hist.axis.Regular(10, 0, 5, name="pt")
KINDS = hist.axis.StrCategory([], growth=True, name="kind")
WEIGHTS: dict[str, Callable[[Any], Any]] = {"up": lambda events: 1 + events.px**2, "down": lambda events: events.px * 3}
ORIGINAL_FILL = boost_histogram.Histogram.fill


def spectrum(events: Any, *axes: Any, storage: Any = None) -> Any:
    return hist.Hist(*(axes or (BINS,)), storage=storage or hist.storage.Weight())


def none_where_nothing_is(events: Any) -> Any:
    largest = ak.max(events.weight[events.px > 1e9])
    return 0.0 if largest is None else largest


def none_for_some(events: Any) -> Any:
    largest = ak.max(events.weight[events.weight > 20])
    return 0.0 if largest is None else largest


def truth(events: Any) -> Any:
    return 1 if np.array_equal(events.weight, events.px) is True else 0


def copied(events: Any) -> Any:
    buffer = np.empty(len(events))
    np.copyto(buffer, events.weight)
    return buffer.sum()


def put(events: Any) -> Any:
    buffer = np.zeros(len(events))
    np.put(buffer, np.arange(len(events)), events.weight)
    return buffer.sum()


def masked(events: Any) -> Any:
    buffer = np.zeros(len(events))
    np.putmask(buffer, buffer == 0, ak.to_numpy(events.weight))
    return buffer.sum()


def written_by_place(events: Any) -> Any:
    buffer = np.zeros(len(events))
    np.cumsum(ak.to_numpy(events.weight), 0, None, buffer)
    return buffer.sum()


def written_by_name(events: Any) -> Any:
    buffer = np.zeros(len(events))
    np.clip(ak.to_numpy(events.weight), 0, 1, out=buffer)
    return buffer.sum()


def looped(events: Any) -> Any:
    try:
        return float(sum(events.weight))
    except TypeError:
        return -1.0


def rounded(events: Any) -> Any:
    try:
        return round(ak.sum(events.weight), 2)
    except TypeError:
        return -1.0


def as_key(events: Any) -> Any:
    try:
        return 1.0 * len({ak.sum(events.weight)})
    except TypeError:
        return -1.0


def assigned(events: Any) -> Any:
    try:
        events.weight.behavior = None
    except AttributeError:
        return -1
    return 1


def probed(events: Any) -> Any:
    return 1 if getattr(events.weight, "__arrow_array__", None) is not None else 0


def named_parts(events: Any) -> Any:
    try:
        return np.unique_counts(ak.to_numpy(events.weight)).counts.sum()
    except TypeError:
        return -1


def called_back(events: Any) -> Any:
    seen: list[float] = []
    np.apply_along_axis(lambda row: (seen.append(row.sum()), 1)[1], 0, ak.to_numpy(events.weight))
    return math.fsum(seen)


def once(events: Any) -> Any:
    return ak.sum(ak.concatenate(events.weight[mask] for mask in (events.px > 0, events.px <= 0)))


def seen_through_a_view(events: Any) -> Any:
    filled = hist.Hist(BINS)
    view = filled.view(flow=True)
    filled.fill(np.abs(events.px), weight=events.weight)
    return view.copy()


def seen_through_values(events: Any) -> Any:
    filled = spectrum(events)
    variances = filled.view().variance
    filled.fill(np.abs(events.px), weight=events.weight)
    return variances.sum()


def seen_through_another(events: Any) -> Any:
    filled = spectrum(events)
    other = hist.Hist(filled)
    filled.fill(np.abs(events.px), weight=events.weight)
    return other.values().sum()


def grown(events: Any) -> Any:
    filled = spectrum(events, KINDS, BINS)
    for kind in ("a", "b"):
        filled.fill(kind=kind, pt=np.abs(events.px), weight=events.weight)
    axis = filled.axes["kind"]
    return {"names": list(filled.axes[0]), "size": axis.size, "filled": filled}


def grown_by_weights(events: Any) -> Any:
    filled = spectrum(events, hist.axis.Integer(0, 1, growth=True, name="x"))
    filled.fill(ak.values_astype(events.weight * 3, int), weight=events.weight)
    return {"size": 1.0 * filled.axes[0].size}


def named_between(events: Any) -> Any:
    filled = spectrum(events, KINDS).fill("a", weight=ak.sum(events.weight))
    filled.axes[0].label = "kind of it"
    return filled.fill("b", weight=ak.sum(events.weight))


def half_filled(events: Any) -> Any:
    filled = spectrum(events).fill(np.abs(events.px), weight=events.weight)
    with contextlib.suppress(ValueError):
        filled.fill(np.abs(events.px), weight=events.weight[:3])
    return filled


def means(events: Any) -> Any:
    px = np.abs(events.px)
    plain, weighted = (spectrum(events, storage=one()) for one in (hist.storage.Mean, hist.storage.WeightedMean))
    return [plain.fill(px, sample=events.weight), weighted.fill(px, weight=events.weight**2, sample=events.weight)]


def by_threads(events: Any) -> Any:
    return spectrum(events).fill(np.abs(events.px), weight=events.weight, threads=2)


def of_weights(events: Any) -> Any:
    records = ak.zip({"weight": events.weight, "x": events.px})
    return {"axis": spectrum(events).fill(pt=events.weight), "part": records["weight"][:2], "none": events.weight[:0]}


def singles(events: Any) -> Any:
    total = ak.sum(ak.values_astype(events.weight, np.float32))
    return spectrum(events).fill([1.0, 2.0], weight=total)


TOGETHER = [means, by_threads, of_weights, singles, grown]
APART = [
    *(none_where_nothing_is, none_for_some, truth, copied, put, masked, written_by_place, written_by_name),
    *(looped, rounded, as_key, assigned, probed, named_parts, called_back, once),
    *(seen_through_a_view, seen_through_values, seen_through_another, grown_by_weights, named_between, half_filled),
]


@pytest.mark.parametrize("wagon", [*TOGETHER, *APART], ids=lambda one: str(one.__name__))
def test_results_are_those_of_a_run_for_each_weight(folder: Path, wagon: Callable[[Any], Any]) -> None:
    varied = branchline.varied(wagon, weight=lambda events: events.px, weights=WEIGHTS)
    varied.name = "varied"
    result = run_in_chunks([varied, by_hand(wagon, WEIGHTS)], f"{folder}/f0.root")
    assert not [one.error for one in result.record.wagons if one.error is not None]
    found, expected = result.outputs["varied"], result.outputs["by_hand"]
    assert list(found) == list(expected) == ["nominal", "up", "down"]
    for name in expected:
        assert digest_of(found[name]) == digest_of(expected[name])
    assert shares_runs(varied) == (wagon in TOGETHER)


def nested(weight: Any, weights: Mapping[str, Callable[[Any], Any]]) -> Any:
    def sums(events: Any) -> Any:
        filled = spectrum(events).fill(np.abs(events.px), weight=events.weight)
        return {"sum": ak.sum(events.weight), "filled": filled}

    inner = branchline.varied(sums, weight=weight, weights=weights)
    two, five = (lambda events: 2 * np.ones(len(events))), (lambda events: 5 * np.ones(len(events)))
    return branchline.varied(inner, weights={"two": two, "five": five})


@pytest.mark.parametrize("of_outer", ["weight", "factor"])
def test_varied_wagons_may_be_varied(folder: Path, of_outer: str) -> None:
    three = (lambda events: 3 * events.weight) if of_outer == "factor" else (lambda events: 3 * np.ones(len(events)))
    wagon = nested(None if of_outer == "factor" else lambda events: events.weight, {"three": three})
    found = run_in_chunks(wagon, f"{folder}/f0.root").outputs["sums"]
    outer = {"nominal": 1, "two": 2, "five": 5}
    nominal = {name: 1 if of_outer == "factor" else factor for name, factor in outer.items()}
    for name, factor in outer.items():
        assert found[name]["nominal"]["sum"] == nominal[name] * 1500
        assert found[name]["three"]["sum"] == 3 * factor * 1500
        assert found[name]["three"]["filled"].sum(flow=True).value == 3 * factor * 1500


def test_nothing_stays_replaced_when_a_wagon_ends_or_raises(folder: Path) -> None:
    template = spectrum(None).fill([1.0])
    seen: list[Any] = []

    def filling(events: Any) -> Any:
        seen.append(boost_histogram.Histogram.fill)
        template.copy().fill(np.abs(events.px), weight=events.weight)
        return template.fill(np.abs(events.px), weight=events.weight)[:5].sum().value

    def raising(events: Any) -> Any:
        template.fill(np.abs(events.px), weight=events.weight)
        raise RuntimeError("half way")

    def leaving(events: Any) -> Any:
        template.fill(np.abs(events.px), weight=events.weight)
        raise SystemExit(3)

    for wagon in (filling, raising, leaving):
        content = template.copy()
        run_in_chunks(branchline.varied(wagon, weights={"up": lambda events: events.px}), f"{folder}/f0.root")
        assert boost_histogram.Histogram.fill is ORIGINAL_FILL
        assert isinstance(template.sum(), hist.accumulators.WeightedSum)
        assert wagon is not leaving or template == content
    assert seen[0] is not ORIGINAL_FILL
    assert seen[-1] is ORIGINAL_FILL
