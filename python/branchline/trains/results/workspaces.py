"""Results as a workspace of HistFactory, which pyhf and cabinetry fit."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from branchline.errors import DatasetError, NoSuchKeyError
from branchline.trains.results.load import Results, load
from branchline.trains.results.plot import all_stacks
from branchline.trains.results.stacks import SampleHistogram, SampleStack, sides, total

#: The version of HistFactory's JSON.
_VERSION = "1.0.0"


def workspace(
    results: Results | str | os.PathLike[str],
    regions: Mapping[str, str],
    *,
    parameter: str = "mu",
    overflow: bool = True,
) -> Any:
    """The histograms of several samples as a HistFactory workspace, which ``pyhf`` and ``cabinetry`` take as it is.

    ``results`` is the directory of a train, or what ``branchline.load`` gave; ``regions`` are histograms by the names
    of their channels, as ``{"4j2b": "selected/4j2b"}``. Simulated samples are scaled to the luminosity; those of kind
    ``signal`` have the free factor ``parameter``. Each named variation is a ``histosys``: ``NAME_up`` and ``NAME_down``
    are its sides, one that has no other side is mirrored. The statistical errors of the simulation are a ``staterror``
    of each channel. Where no sample is data, the observation is the sum of the simulation.

        specification = branchline.workspace("out", {"4j2b": "selected/4j2b"})
        model = pyhf.Workspace(specification).model()

    Returns a dict as JSON has it. Raises NoSuchKeyError for a histogram that is not there, DatasetError where no sample
    is a signal or samples are not described, and what loading results raises.
    """
    found = results if isinstance(results, Results) else load(results)
    channels, observations, names = [], [], set()
    for region, histogram in regions.items():
        stack = _stack(found, histogram, overflow=overflow)
        simulated = [one for one in stack.samples if not one.sample.is_data]
        names |= {one.sample.kind for one in simulated}
        channels.append({"name": region, "samples": [_sample(one, region, parameter, stack) for one in simulated]})
        observed = total([one for one in stack.samples if one.sample.is_data]) or total(simulated)
        assert observed is not None
        observations.append({"name": region, "data": observed.values.tolist()})
    if "signal" not in names:
        hint = 'give one the kind "signal" in the list of datasets'
        raise DatasetError("no sample of these regions is a signal", path=str(found.out), hint=hint)
    config = {"poi": parameter, "parameters": []}
    return {
        "channels": channels,
        "observations": observations,
        "measurements": [{"name": "measurement", "config": config}],
        "version": _VERSION,
    }


def _stack(results: Results, histogram: str, *, overflow: bool) -> SampleStack:
    stacks = {one.name: one for one in all_stacks(results, histogram.partition("/")[0], overflow=overflow)}
    if histogram not in stacks:
        what = f"there is no histogram {histogram!r} of one axis with the samples apart"
        raise NoSuchKeyError(what, path=str(results.out), hint=f"there are {', '.join(stacks)}" if stacks else None)
    return stacks[histogram]


def _sample(one: SampleHistogram, region: str, parameter: str, stack: SampleStack) -> Any:
    nominal = one.nominal
    modifiers: list[Any] = [
        {"name": f"staterror_{region}", "type": "staterror", "data": np.sqrt(nominal.variances).tolist()}
    ]
    if one.sample.kind == "signal":
        modifiers.append({"name": parameter, "type": "normfactor", "data": None})
    named = [name for name in stack.variations() if name in one.by_variation]
    modifiers += [_variation(one, pair) for pair in sides(named)]
    return {"name": one.sample.name, "data": nominal.values.tolist(), "modifiers": modifiers}


def _variation(one: SampleHistogram, pair: Sequence[str]) -> Any:
    nominal = one.nominal.values
    by_side = {"down" if name.endswith("_down") else "up": one.by_variation[name].values for name in pair}
    high = by_side["up"] if "up" in by_side else 2 * nominal - by_side["down"]
    low = by_side["down"] if "down" in by_side else 2 * nominal - by_side["up"]
    name = pair[0].removesuffix("_up").removesuffix("_down")
    return {"name": name, "type": "histosys", "data": {"hi_data": high.tolist(), "lo_data": low.tolist()}}
