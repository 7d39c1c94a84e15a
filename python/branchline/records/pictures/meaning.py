"""What the picture of a histogram says: the meaning of a bin's height, its title, and notes on what cannot be seen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import boost_histogram
import numpy

from branchline.writing.objects.forms import axis_label

#: A histogram whose largest and smallest filled bins differ by more than this is drawn on a logarithmic scale.
LINEAR_RANGE_MAX = 300.0
#: Above this many bins error bars hide the line that they belong to.
ERROR_BARS_BINS_MAX = 250

_UNIT = re.compile(r"[\[(]\s*([^\[\]()]+?)\s*[\])]\s*$")


class Title(NamedTuple):
    """What stands above a picture: the wagon, the histogram's own name, and a note on the right."""

    wagon: str
    name: str
    right: str


def height_words(histogram: Any, axis: Any = None, edges: numpy.ndarray | None = None) -> str:
    """Return what a bin's height means: in its author's words, else by its storage and per width of the bin.

    The author's words are the histogram's ``label``, or ``label`` and ``unit`` in its ``metadata``.
    """
    own = _own_label(histogram)
    if own:
        return own
    if histogram.kind == boost_histogram.Kind.MEAN:
        return "Mean"
    word = _content(histogram)
    if edges is None or isinstance(axis, boost_histogram.axis.Integer):
        return word
    widths = numpy.diff(edges)
    if not numpy.allclose(widths, widths[0], rtol=1e-6, atol=0):
        return f"{word} / bin"
    unit = _UNIT.search(axis_label(axis))
    width = _number(float(widths[0]))
    if unit is None:
        return f"{word} / bin" if width == "1" else f"{word} / {width}"
    return f"{word} / {width} {unit.group(1)}"


def _own_label(histogram: Any) -> str:
    # boost_histogram warns when metadata are read that were never set.
    label, metadata = getattr(histogram, "label", None), getattr(histogram, "__dict__", {}).get("metadata")
    if isinstance(label, str) and label.strip():
        return label
    if isinstance(metadata, str):
        return metadata.strip()
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("label"), str):
        return ""
    unit = metadata.get("unit")
    return f"{metadata['label']} [{unit}]" if isinstance(unit, str) and unit else str(metadata["label"])


def _content(histogram: Any) -> str:
    """Return what was added up: entries of weight one, weights, or - without squared weights - some content."""
    values, variances = histogram.values(flow=True), histogram.variances(flow=True)
    if histogram.storage_type is boost_histogram.storage.Weight:
        return "Entries" if numpy.array_equal(values, variances) else "Sum of weights"
    finite = values[numpy.isfinite(values)]
    return "Entries" if numpy.array_equal(finite, numpy.round(finite)) else "Content"


def _number(value: float) -> str:
    """Return a number with three digits, as a power of ten where it is long."""
    written = f"{value:.3g}"
    mantissa, _, exponent = written.partition("e")
    return rf"${mantissa}\times 10^{{{int(exponent)}}}$" if exponent else written


def remark_on(histogram: Any) -> str:
    """Return notes on what a picture cannot show: bins that are not numbers, and why it is empty."""
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
    return "" if contents[inner].any() else "all entries lie outside of the axes"


def inner_bins(axis: Any) -> slice:
    """Return where the axis' own bins stand among those with under- and overflow."""
    start = 1 if axis.traits.underflow else 0
    return slice(start, start + len(axis))


def spans_decades(values: numpy.ndarray) -> bool:
    """Return whether heights are drawn on a logarithmic scale."""
    filled = values[values > 0]
    return filled.size > 2 and not (values < 0).any() and filled.max() > LINEAR_RANGE_MAX * filled.min()


def finite(values: numpy.ndarray) -> numpy.ndarray:
    """Return the values with zeros for what is no finite number."""
    return numpy.nan_to_num(numpy.asarray(values, dtype=numpy.float64), nan=0.0, posinf=0.0, neginf=0.0)
