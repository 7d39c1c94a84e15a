"""Converts histograms of Python libraries to ROOT's representation."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from branchline.base.array_types import Floats
from branchline.errors import UnsupportedBranchError
from branchline.writing.objects.buffer import NUMBERS_AT_ONCE
from branchline.writing.objects.histograms import HistogramAxis, RootHistogram

if TYPE_CHECKING:
    import boost_histogram
    from numpy.typing import ArrayLike


def form_of_numpy(value: tuple[ArrayLike, ...], name: str, path: str | None = None) -> RootHistogram:
    """Convert the result of np.histogram, np.histogram2d or np.histogramdd. Raises UnsupportedBranchError."""
    values = np.asarray(value[0])
    edges = value[1] if len(value) == 2 and isinstance(value[1], list | tuple) and values.ndim > 1 else value[1:]
    all_edges = [np.asarray(one, dtype="f8") for one in edges]
    fits = values.dtype.kind in "biuf" and values.shape == tuple(len(one) - 1 for one in all_edges)
    if not fits or values.ndim < 1:
        raise UnsupportedBranchError(
            f"{name}: these values and edges do not form a histogram",
            path=path,
            hint="give the result of np.histogram: for each axis one edge more than there are bins",
        )
    axes = tuple(HistogramAxis("", one, has_equal_widths(one)) for one in all_edges)
    contents = np.zeros([extent + 2 for extent in values.shape])
    contents[(slice(1, -1),) * values.ndim] = values
    return RootHistogram("", axes, contents, np.zeros(0))


def is_histogram(value: object) -> TypeGuard[boost_histogram.Histogram]:
    """Return whether a value is a boost-histogram histogram, or another object with that interface."""
    return hasattr(value, "axes") and hasattr(value, "storage_type")


def has_equal_widths(edges: Floats) -> bool:
    """Return whether all bins between these edges have the same width, up to rounding."""
    width = (edges[-1] - edges[0]) / (len(edges) - 1)
    starts = range(0, len(edges) - 1, NUMBERS_AT_ONCE)
    blocks = (edges[start : start + NUMBERS_AT_ONCE + 1] for start in starts)
    return all(np.allclose(np.diff(block), width, rtol=1e-12) for block in blocks)


def histogram_form(value: object, name: str) -> RootHistogram:
    """Convert a histogram of hist, boost-histogram or NumPy. Raises UnsupportedBranchError."""
    if isinstance(value, tuple):
        return form_of_numpy(value, name)
    if not is_histogram(value):
        what = f"{name}: a {type(value).__name__} is not a histogram"
        raise UnsupportedBranchError(what, hint="give a histogram of hist, or the result of np.histogram")
    from branchline.writing.objects.forms import NotInRootError, root_forms

    try:
        forms = [form for _, form in root_forms(value)]
    except NotInRootError as reason:
        raise UnsupportedBranchError(f"{name}: ROOT has no class for this histogram: {reason}") from reason
    if len(forms) != 1:
        hint = "choose a category first, as in histogram[{'sample': 'data'}]"
        raise UnsupportedBranchError(f"{name}: this histogram has both category and numeric axes", hint=hint)
    return forms[0]
