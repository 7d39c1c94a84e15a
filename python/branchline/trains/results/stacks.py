"""Histograms of several samples from the results of a train, with their variations, scaled to the luminosity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import boost_histogram
import numpy as np

from branchline.records.sensors.record_parts import SampleRecord
from branchline.trains.results.load import Results, factor_of, sample_axis, times
from branchline.trains.wagons.events import NOMINAL

#: Axis types that cannot be drawn, because their bins are categories. Integer axes can be drawn.
_CATEGORIES = (boost_histogram.axis.StrCategory, boost_histogram.axis.IntCategory)
#: Names of category axes that may contain variations.
_VARIATION_AXES = ("variation", "systematic")
_UP, _DOWN = "_up", "_down"


@dataclass
class Contents:
    """The bins of a one-dimensional histogram: contents and variances. If created with ``flow``, the first and last bin
    include underflow and overflow.
    """

    values: np.ndarray
    variances: np.ndarray

    def __add__(self, other: Contents) -> Contents:
        return Contents(self.values + other.values, self.variances + other.variances)


@dataclass
class SampleHistogram:
    """The histogram of a sample: its contents by name of the variation. One of the variations is ``nominal``."""

    sample: SampleRecord
    by_variation: dict[str, Contents] = field(default_factory=dict)

    @property
    def nominal(self) -> Contents:
        """The nominal contents."""
        return self.by_variation[NOMINAL]


@dataclass
class SampleStack:
    """A histogram of all samples. ``has_flow`` is true if some entries are outside the axis."""

    wagon: str
    key: tuple[str, ...]
    axis: Any
    samples: list[SampleHistogram]
    has_flow: bool

    @property
    def name(self) -> str:
        """The name of the wagon, and the path to the histogram in the wagon's result."""
        return "/".join((self.wagon, *self.key))

    def variations(self) -> list[str]:
        """Return the names of all variations of the samples, without ``nominal``."""
        names = (name for one in self.samples for name in one.by_variation)
        return [name for name in dict.fromkeys(names) if name != NOMINAL]


def total(samples: Sequence[SampleHistogram], variation: str = NOMINAL) -> Contents | None:
    """Return the sum of the samples for a variation; None if there are no samples. A sample without the variation
    contributes its nominal contents.
    """
    parts = [one.by_variation.get(variation, one.nominal) for one in samples]
    if not parts:
        return None
    summed = parts[0]
    for one in parts[1:]:
        summed = summed + one
    return summed


def sides(variations: Sequence[str]) -> list[tuple[str, ...]]:
    """Group variations into uncertainties: ``NAME_up`` and ``NAME_down`` form a group, and any other variation a group
    of its own.
    """
    pairs: dict[tuple[str, bool], list[str]] = {}
    for name in variations:
        base = name.removesuffix(_UP) if name.endswith(_UP) else name.removesuffix(_DOWN)
        pairs.setdefault((base, base == name), []).append(name)
    return [tuple(one) for one in pairs.values()]


def band(samples: Sequence[SampleHistogram], variations: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the size of the uncertainty band below and above the sum of the samples.

    The band adds in quadrature the statistical uncertainty of the simulation and, for each uncertainty, the largest
    shift of its variations in the direction of the band.
    """
    nominal = total(samples)
    assert nominal is not None
    below, above = nominal.variances.copy(), nominal.variances.copy()
    for names in sides(variations):
        shifts = [one.values - nominal.values for one in (total(samples, name) for name in names) if one is not None]
        above += np.maximum(np.max(shifts, axis=0), 0) ** 2
        below += np.maximum(-np.min(shifts, axis=0), 0) ** 2
    return np.sqrt(below), np.sqrt(above)


def stacks_of(results: Results, wagon: str, *, flow: bool = True) -> list[SampleStack]:
    """Return all histograms with a single numeric axis in the result of a wagon, by sample. With ``flow``, the first
    and last bin include underflow and overflow.

    Raises DatasetError for a sample without a scale factor, and the errors of loading the result.
    """
    names = {one.name: one for one in results.record.samples}
    found: dict[tuple[str, ...], SampleStack] = {}
    for place in _found(results[wagon], _Place(), names):
        sample = names[place.sample]
        scaled = times(place.histogram, factor_of(sample))
        stack = found.get(place.key)
        if stack is None:
            stack = found[place.key] = SampleStack(wagon, place.key, scaled.axes[0], [], has_flow=False)
        one = next((member for member in stack.samples if member.sample is sample), None)
        if one is None:
            one = SampleHistogram(sample)
            stack.samples.append(one)
        one.by_variation[place.variation] = _contents(scaled, flow=flow)
        values, traits = scaled.values(flow=True), scaled.axes[0].traits
        outside = [*([values[0]] if traits.underflow else []), *([values[-1]] if traits.overflow else [])]
        stack.has_flow |= bool(np.any(outside))
    for stack in found.values():
        stack.samples = [one for one in stack.samples if NOMINAL in one.by_variation]
    return [stack for stack in found.values() if stack.samples]


@dataclass(frozen=True)
class _Place:
    """The position of a histogram in a result: its sample, its variation, and the keys that lead to it."""

    sample: str = ""
    variation: str = NOMINAL
    key: tuple[str, ...] = ()
    histogram: Any = None


def _found(value: object, at: _Place, names: Mapping[str, SampleRecord]) -> Iterator[_Place]:
    if isinstance(value, Mapping):
        of_samples = not at.sample and bool(value) and all(key in names for key in value)
        of_variations = NOMINAL in value
        for key, one in value.items():
            if of_samples:
                yield from _found(one, _Place(key, at.variation, at.key), names)
            elif of_variations:
                yield from _found(one, _Place(at.sample, str(key), at.key), names)
            else:
                yield from _found(one, _Place(at.sample, at.variation, (*at.key, str(key))), names)
        return
    if not isinstance(value, boost_histogram.Histogram):
        return
    index = None if at.sample else sample_axis(value, names)
    if index is not None:
        for label in value.axes[index]:
            yield from _found(_sliced(value, index, label), _Place(str(label), at.variation, at.key), names)
        return
    index = next((i for i, axis in enumerate(value.axes) if getattr(axis, "name", "") in _VARIATION_AXES), None)
    if index is not None:
        for label in value.axes[index]:
            yield from _found(_sliced(value, index, label), _Place(at.sample, str(label), at.key), names)
        return
    sample = at.sample or (next(iter(names)) if len(names) == 1 else "")
    is_drawn = len(value.axes) == 1 and not isinstance(value.axes[0], _CATEGORIES) and value.kind.name != "MEAN"
    if sample and is_drawn:
        yield _Place(sample, at.variation, at.key, value)


def _sliced(value: Any, index: int, label: Any) -> object:
    place = value.axes[index].index(label)
    # Histograms require one index per axis.
    return value[(slice(None),) * index + (place, ...)]


def _contents(histogram: Any, *, flow: bool) -> Contents:
    values, variances = histogram.values().copy(), histogram.variances().copy()
    if flow:
        all_values, all_variances = histogram.values(flow=True), histogram.variances(flow=True)
        if histogram.axes[0].traits.underflow:
            values[0] += all_values[0]
            variances[0] += all_variances[0]
        if histogram.axes[0].traits.overflow:
            values[-1] += all_values[-1]
            variances[-1] += all_variances[-1]
    return Contents(values, variances)
