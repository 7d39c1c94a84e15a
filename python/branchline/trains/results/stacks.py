"""Histograms of several samples from the results of a train, with their variations, scaled to the luminosity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import boost_histogram
import numpy as np

from branchline.errors import DatasetError
from branchline.records.pictures.meaning import inner_bins
from branchline.records.sensors.record_parts import SampleRecord
from branchline.trains.results.load import Results, factor_of, sample_axis, times
from branchline.trains.wagons.events import NOMINAL
from branchline.writing.objects.forms import axis_label, category_labels, is_category

#: Names of category axes that may contain variations.
_VARIATION_AXES = ("variation", "systematic")
_AXES_MAX = 2
#: The axis of a histogram of boost_histogram or hist.
Axis = boost_histogram.axis.Axis


@dataclass
class Contents:
    """The bins of a histogram: contents and variances. If created with ``flow``, the first and last bin of each
    numeric axis include underflow and overflow.
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
    """A histogram of all samples with one or two axes. ``has_flow`` is true if some entries are outside the axes."""

    wagon: str
    key: tuple[str, ...]
    axes: tuple[Axis, ...]
    samples: list[SampleHistogram]
    has_flow: bool

    @property
    def axis(self) -> Axis:
        """The only or the first axis."""
        return self.axes[0]

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


def stacks_of(results: Results, wagon: str, *, flow: bool = True) -> list[SampleStack]:
    """Return all histograms with one or two axes in the result of a wagon, by sample. With ``flow``, the first and last
    bin of a numeric axis include underflow and overflow.

    Raises DatasetError for a sample without a scale factor and for samples with different bins, and the errors of
    loading the result.
    """
    names = {one.name: one for one in results.record.samples}
    found: dict[tuple[str, ...], list[_Place]] = {}
    for place in _found(results[wagon], _Place(), names):
        found.setdefault(place.key, []).append(place)
    stacks = [_stack(wagon, key, places, names, str(results.out), flow=flow) for key, places in found.items()]
    return [stack for stack in stacks if stack.samples and all(len(axis) for axis in stack.axes)]


def _stack(
    wagon: str,
    key: tuple[str, ...],
    places: Sequence[_Place],
    names: Mapping[str, SampleRecord],
    out: str,
    *,
    flow: bool,
) -> SampleStack:
    """Return the histogram of all samples at the same place of the result."""
    where = "/".join((wagon, *key))
    dimensions = {len(one.histogram.axes) for one in places}
    if len(dimensions) > 1:
        raise DatasetError(f"the samples of {where} have different numbers of axes", path=out)
    by_axis = zip(*(one.histogram.axes for one in places), strict=True)
    axes = tuple(_common_axis(list(one), where, out) for one in by_axis)
    samples: dict[str, SampleHistogram] = {}
    has_flow = False
    for place in places:
        sample = samples.setdefault(place.sample, SampleHistogram(names[place.sample]))
        histogram = times(place.histogram, factor_of(sample.sample))
        sample.by_variation[place.variation] = _contents(histogram, axes, flow=flow)
        inner = tuple(map(inner_bins, histogram.axes))
        outside = histogram.values(flow=True).copy()
        outside[inner] = 0
        has_flow |= bool(np.any(outside))
    return SampleStack(wagon, key, axes, [one for one in samples.values() if NOMINAL in one.by_variation], has_flow)


def _common_axis(axes: Sequence[Axis], where: str, out: str) -> Axis:
    """Return the axis of all samples. Categories that only some samples have are added. Raises DatasetError."""
    first = axes[0]
    if all(map(is_category, axes)):
        labels = list(dict.fromkeys(label for axis in axes for label in category_labels(axis)))
        if labels == category_labels(first):
            return first
        return boost_histogram.axis.StrCategory(labels, metadata=axis_label(first))
    if any(is_category(axis) or not np.array_equal(axis.edges, first.edges) for axis in axes):
        hint = "give the axis fixed bins, without growth"
        raise DatasetError(f"the samples of {where} have different bins", path=out, hint=hint)
    return first


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
    if sample and 1 <= len(value.axes) <= _AXES_MAX and value.kind.name != "MEAN":
        yield _Place(sample, at.variation, at.key, value)


def _sliced(value: Any, index: int, label: Any) -> object:
    place = value.axes[index].index(label)
    # Histograms require one index per axis.
    return value[(slice(None),) * index + (place, ...)]


def _contents(histogram: Any, axes: Sequence[Axis], *, flow: bool) -> Contents:
    values, variances = histogram.values(flow=True), histogram.variances(flow=True)
    for index, (own, common) in enumerate(zip(histogram.axes, axes, strict=True)):
        values, variances = (_along(one, index, own, common, flow=flow) for one in (values, variances))
    return Contents(values, variances)


def _along(contents: np.ndarray, index: int, own: Axis, common: Axis, *, flow: bool) -> np.ndarray:
    """Return the bins of the common axis from all bins along an axis of a histogram."""
    contents = np.moveaxis(contents, index, 0)
    bins = contents[inner_bins(own)].copy()
    if is_category(common):
        labels = category_labels(common)
        placed = np.zeros((len(labels), *bins.shape[1:]))
        placed[[labels.index(label) for label in category_labels(own)]] = bins
        bins = placed
    elif flow and len(bins):
        if own.traits.underflow:
            bins[0] += contents[0]
        if own.traits.overflow:
            bins[-1] += contents[-1]
    return np.moveaxis(bins, 0, index)
