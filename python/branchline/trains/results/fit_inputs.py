"""The inputs of a fit: channels with their processes, data and uncertainties. Workspaces and datacards are written from
this description.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from branchline.base.checks import texts
from branchline.errors import DatasetError, OptionError
from branchline.records.sensors.record_parts import SampleRecord
from branchline.trains.results.load import Results, load
from branchline.trains.results.plot import all_stacks, missing_histogram
from branchline.trains.results.stacks import Axis, Contents, SampleHistogram, SampleStack, total
from branchline.trains.results.systematics import Factors, Systematics

#: Where the observation of a channel is from.
DATA, BLINDED, SIMULATED = "data", "blinded", "simulated"


@dataclass
class FitProcess:
    """A simulated sample in a channel.

    ``shapes`` are the bins of the upper and the lower side, ``rates`` the factors of the lower and the upper side, by
    name of the parameter. ``free`` are the names of free normalisations.
    """

    sample: SampleRecord
    nominal: Contents
    shapes: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    rates: dict[str, Factors] = field(default_factory=dict)
    free: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the sample."""
        return self.sample.name

    @property
    def is_signal(self) -> bool:
        """Whether the sample is a signal."""
        return self.sample.kind == "signal"


@dataclass
class Channel:
    """A region of a fit. ``source`` says where the observation is from."""

    name: str
    histogram: str
    axis: Axis
    processes: list[FitProcess]
    observed: Contents
    source: str


def fit_channels(
    results: Results | str | os.PathLike[str],
    regions: Mapping[str, str],
    *,
    systematics: Systematics | None,
    blind: Sequence[str],
    overflow: bool,
    needs_signal: bool = True,
) -> list[Channel]:
    """Return the channels of a fit, with simulation scaled to the luminosity.

    The observation of a blinded channel is the sum of its backgrounds, that of a channel without data the sum of its
    simulated samples. Raises NoSuchKeyError, OptionError and DatasetError.
    """
    found = results if isinstance(results, Results) else load(results)
    out = str(found.out)
    if not regions:
        raise OptionError("no regions were given", hint='give a dict such as {"SR": "selected/4j2b"}')
    if not all(isinstance(one, str) for pair in regions.items() for one in pair):
        raise OptionError(f"invalid regions: {regions!r:.80}", hint='give a dict such as {"SR": "selected/4j2b"}')
    blinded = texts("blind", blind, '["SR"]')
    unknown = [one for one in blinded if one not in regions]
    if unknown:
        raise OptionError(f"unknown region {unknown[0]!r} in blind", hint=f"choose from {', '.join(regions)}")
    stacks = {region: _stack(found, histogram, overflow=overflow) for region, histogram in regions.items()}
    declared = systematics or Systematics()
    variations = list(dict.fromkeys(name for stack in stacks.values() for name in stack.variations()))
    declared.check(variations, [one.sample for stack in stacks.values() for one in stack.samples], out)
    channels = [
        _channel(region, regions[region], stack, declared, region in blinded, out) for region, stack in stacks.items()
    ]
    if needs_signal and not any(one.is_signal for channel in channels for one in channel.processes):
        hint = 'give one the kind "signal" in the list of datasets'
        raise DatasetError("no sample of these regions is a signal", path=out, hint=hint)
    return channels


def _stack(results: Results, histogram: str, *, overflow: bool) -> SampleStack:
    stacks = all_stacks(results, histogram.partition("/")[0], overflow=overflow)
    by_name = {one.name: one for one in stacks if len(one.axes) == 1}
    if histogram not in by_name:
        raise missing_histogram(histogram, list(by_name), str(results.out), "one-dimensional histogram")
    return by_name[histogram]


def _channel(
    region: str, histogram: str, stack: SampleStack, systematics: Systematics, is_blinded: bool, out: str
) -> Channel:
    simulated = [one for one in stack.samples if not one.sample.is_data]
    if not simulated:
        raise DatasetError(f"{histogram} of region {region!r} has no simulated samples", path=out)
    for one in stack.samples:
        if not all(np.isfinite(contents.values).all() for contents in one.by_variation.values()):
            what = f"sample {one.sample.name!r} has bins in {histogram} that are not finite numbers"
            raise DatasetError(what, path=out, hint="check the weights of the wagon")
    uncertainties = systematics.uncertainties(stack.variations(), [one.sample for one in simulated])
    processes = [FitProcess(one.sample, one.nominal) for one in simulated]
    for process, one in zip(processes, simulated, strict=True):
        for uncertainty in uncertainties:
            parameter = uncertainty.parameter(one.sample, region)
            if uncertainty.kind == "rate" and one.sample.name in uncertainty.factors:
                process.rates[parameter] = uncertainty.factors[one.sample.name]
            elif (shifts := uncertainty.shifts([one])) is not None:
                if parameter in process.shapes:
                    what = f"two uncertainties of sample {process.name!r} in {histogram} have the name {parameter!r}"
                    raise DatasetError(what, path=out, hint="rename one of the variations")
                up, down = shifts
                process.shapes[parameter] = one.nominal.values + up, one.nominal.values + down
        process.free = systematics.free_of(one.sample.name)
    data = total([one for one in stack.samples if one.sample.is_data])
    observed = _background(simulated) if is_blinded else data or _sum(simulated)
    source = BLINDED if is_blinded else SIMULATED if data is None else DATA
    return Channel(region, histogram, stack.axis, processes, observed, source)


def _background(simulated: Sequence[SampleHistogram]) -> Contents:
    empty = np.zeros(len(simulated[0].nominal.values))
    return total([one for one in simulated if one.sample.kind != "signal"]) or Contents(empty, empty)


def _sum(samples: Sequence[SampleHistogram]) -> Contents:
    summed = total(samples)
    assert summed is not None
    return summed


def source_notes(channels: Sequence[Channel]) -> list[str]:
    """Return a sentence for each channel whose observation is not measured data."""
    words = {BLINDED: "blinded: the sum of the backgrounds replaces data", SIMULATED: "no data: the sum of simulation"}
    return [f"{one.name}: {words[one.source]}" for one in channels if one.source != DATA]
