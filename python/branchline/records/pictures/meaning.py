"""The text in a histogram's plot: the height label, the title, and notes on what the plot cannot show."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import boost_histogram
import numpy

from branchline.base.array_types import Floats
from branchline.writing.objects.forms import axis_label

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

#: A logarithmic scale is used if the largest filled bin exceeds the smallest one by more than this factor.
LINEAR_RANGE_MAX = 300.0
#: Maximum number of bins with error bars: with more bins, the bars hide the line.
ERROR_BARS_BINS_MAX = 250

_UNIT = re.compile(r"[\[(]\s*([^\[\]()]+?)\s*[\])]\s*$")


class Title(NamedTuple):
    """The text above a plot: the wagon and the histogram's own name on the left, and a note on the right."""

    wagon: str
    name: str
    right: str


def height_words(
    histogram: boost_histogram.Histogram, axis: boost_histogram.axis.Axis | None = None, edges: Floats | None = None
) -> str:
    """Return the label for the heights of bins.

    The author's label is preferred: the histogram's ``label``, or ``label`` and ``unit`` in its ``metadata``. Otherwise
    the label is derived from the storage type and the bin width.
    """
    own = _own_label(histogram)
    if own:
        return own
    if histogram.kind == boost_histogram.Kind.MEAN:
        return "Mean"
    # If the sums of weights and of squared weights are equal, all weights are one. For storages without sums of squared
    # weights, the label is a guess: integers are probably numbers of entries.
    values = histogram.values(flow=True)
    if histogram.storage_type is boost_histogram.storage.Weight:
        variances = histogram.variances(flow=True)
        assert variances is not None
        word = "Entries" if numpy.array_equal(values, variances) else "Sum of weights"
    else:
        finite = values[numpy.isfinite(values)]
        word = "Entries" if numpy.array_equal(finite, numpy.round(finite)) else "Content"
    if edges is None or isinstance(axis, boost_histogram.axis.Integer):
        return word
    widths = numpy.diff(edges)
    if not numpy.allclose(widths, widths[0], rtol=1e-6, atol=0):
        return f"{word} / bin"
    unit = _UNIT.search(axis_label(axis))
    # Format the width with three digits, and long numbers with a power of ten.
    width = f"{float(widths[0]):.3g}"
    mantissa, _, exponent = width.partition("e")
    if exponent:
        width = rf"${mantissa}\times 10^{{{int(exponent)}}}$"
    if unit is None:
        return f"{word} / bin" if width == "1" else f"{word} / {width}"
    return f"{word} / {width} {unit.group(1)}"


def _own_label(histogram: boost_histogram.Histogram) -> str:
    # Read from __dict__, because boost_histogram warns if metadata is read that was never set.
    label, metadata = getattr(histogram, "label", None), getattr(histogram, "__dict__", {}).get("metadata")
    if isinstance(label, str) and label.strip():
        return label
    if isinstance(metadata, str):
        return metadata.strip()
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("label"), str):
        return ""
    unit = metadata.get("unit")
    return f"{metadata['label']} [{unit}]" if isinstance(unit, str) and unit else str(metadata["label"])


def remark_on(histogram: boost_histogram.Histogram) -> str:
    """Return notes on what a plot cannot show: the number of non-finite bins, and why the plot is empty."""
    filled = histogram.counts(flow=True) if histogram.kind == boost_histogram.Kind.MEAN else None
    values = histogram.values(flow=True)
    odd = ~numpy.isfinite(values) if filled is None else ~numpy.isfinite(values) & (filled > 0)
    if odd.any():
        several = f"{odd.sum()} bins are" if odd.sum() > 1 else "1 bin is"
        return f"{several} not a finite number"
    contents = values if filled is None else filled
    if not contents.any():
        return "no entries"
    inner = tuple(inner_bins(axis) for axis in histogram.axes)
    return "" if contents[inner].any() else "all entries are outside the axes"


def inner_bins(axis: boost_histogram.axis.Axis) -> slice:
    """Return the slice that selects an axis' regular bins from all its bins, including underflow and overflow."""
    start = 1 if axis.traits.underflow else 0
    return slice(start, start + len(axis))


def is_logarithmic(axis: boost_histogram.axis.Axis) -> bool:
    """Return whether the bins of an axis have equal widths on a logarithmic scale."""
    edges = numpy.asarray(axis.edges, dtype=numpy.float64)
    if not isinstance(axis, boost_histogram.axis.Variable):
        return getattr(axis, "transform", None) == boost_histogram.axis.transform.log and bool(edges[0] > 0)
    if len(edges) < 4 or edges[0] <= 0 or not numpy.isfinite(edges).all():
        return False
    widths = numpy.diff(numpy.log(edges))
    return bool(numpy.ptp(widths) < 1e-6 * widths[0])


def spans_decades(values: Floats) -> bool:
    """Return whether the heights span enough decades for a logarithmic scale."""
    filled = values[values > 0]
    return filled.size > 2 and not (values < 0).any() and filled.max() > LINEAR_RANGE_MAX * filled.min()


def finite(values: ArrayLike) -> Floats:
    """Return the values with non-finite numbers replaced by zeros."""
    return numpy.nan_to_num(numpy.asarray(values, dtype=numpy.float64), nan=0.0, posinf=0.0, neginf=0.0)
