"""Converts results to a HistFactory workspace, which can be fitted with pyhf and cabinetry."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from branchline.errors import DatasetError, NoSuchKeyError
from branchline.trains.results.load import Results, load
from branchline.trains.results.plot import all_stacks
from branchline.trains.results.stacks import SampleHistogram, SampleStack, sides, total

#: Version of HistFactory's JSON format.
_VERSION = "1.0.0"


def workspace(
    results: Results | str | os.PathLike[str],
    regions: Mapping[str, str],
    *,
    parameter: str = "mu",
    overflow: bool = True,
) -> Any:
    """Return the histograms of several samples as a HistFactory workspace for ``pyhf`` and ``cabinetry``.

    ``results`` is the directory of a train or the result of ``branchline.load``. ``regions`` maps channel names to
    histograms: ``{"4j2b": "selected/4j2b"}``. Simulated samples are scaled to the luminosity; samples of kind
    ``signal`` have the free factor ``parameter``.

    Each named variation becomes a ``histosys`` with the sides ``NAME_up`` and ``NAME_down``; if one side is missing,
    the other one is mirrored. The statistical errors of the simulation become a ``staterror`` for each channel. Without
    data, the observation is the sum of the simulation.

        specification = branchline.workspace("out", {"4j2b": "selected/4j2b"})
        model = pyhf.Workspace(specification).model()

    The returned dict has the structure of HistFactory's JSON format. Raises NoSuchKeyError for an unknown histogram,
    DatasetError if no sample is a signal, if no samples are described or if two modifiers would have the same name,
    and the errors of loading results.
    """
    found = results if isinstance(results, Results) else load(results)
    channels, observations, names = [], [], set()
    for region, histogram in regions.items():
        stacks = {one.name: one for one in all_stacks(found, histogram.partition("/")[0], overflow=overflow)}
        if histogram not in stacks:
            what = f"no one-dimensional histogram {histogram!r} with separate samples"
            raise NoSuchKeyError(
                what, path=str(found.out), hint=f"choose one of {', '.join(stacks)}" if stacks else None
            )
        stack = stacks[histogram]
        simulated = [one for one in stack.samples if not one.sample.is_data]
        names |= {one.sample.kind for one in simulated}
        samples = [_sample(one, region, parameter, stack) for one in simulated]
        _check_names(samples, histogram, str(found.out))
        channels.append({"name": region, "samples": samples})
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


def _check_names(samples: Sequence[Mapping[str, Any]], histogram: str, out: str) -> None:
    """Raise DatasetError if two modifiers of a sample have the same name, because they would share a parameter."""
    for sample in samples:
        counts = Counter(modifier["name"] for modifier in sample["modifiers"])
        for name in [name for name, count in counts.items() if count > 1]:
            what = f"two modifiers of sample {sample['name']!r} in {histogram} would have the name {name!r}"
            raise DatasetError(what, path=out, hint=f"rename the variation {name!r}")


def _sample(one: SampleHistogram, region: str, parameter: str, stack: SampleStack) -> Mapping[str, Any]:
    nominal = one.nominal
    modifiers: list[Any] = [
        {"name": f"staterror_{region}", "type": "staterror", "data": np.sqrt(nominal.variances).tolist()}
    ]
    if one.sample.kind == "signal":
        modifiers.append({"name": parameter, "type": "normfactor", "data": None})
    named = [name for name in stack.variations() if name in one.by_variation]
    modifiers += [_variation(one, pair) for pair in sides(named)]
    return {"name": one.sample.name, "data": nominal.values.tolist(), "modifiers": modifiers}


def _variation(one: SampleHistogram, pair: Sequence[str]) -> object:
    nominal = one.nominal.values
    by_side = {"down" if name.endswith("_down") else "up": one.by_variation[name].values for name in pair}
    high = by_side["up"] if "up" in by_side else 2 * nominal - by_side["down"]
    low = by_side["down"] if "down" in by_side else 2 * nominal - by_side["up"]
    name = pair[0].removesuffix("_up").removesuffix("_down")
    return {"name": name, "type": "histosys", "data": {"hi_data": high.tolist(), "lo_data": low.tolist()}}
