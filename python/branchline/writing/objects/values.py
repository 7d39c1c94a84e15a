"""Histograms of Python's values, as ROOT keeps them."""

from __future__ import annotations

from typing import Any

import numpy as np

from branchline.errors import UnsupportedBranchError
from branchline.writing.objects.buffer import NUMBERS_AT_ONCE
from branchline.writing.objects.histograms import RootAxis, RootHistogram


def form_of_numpy(value: tuple[Any, ...], name: str, path: str | None = None) -> RootHistogram:
    """The histogram of what np.histogram, np.histogram2d and np.histogramdd return. Raises UnsupportedBranchError."""
    values = np.asarray(value[0])
    edges = value[1] if len(value) == 2 and isinstance(value[1], list | tuple) and values.ndim > 1 else value[1:]
    all_edges = [np.asarray(one, dtype="f8") for one in edges]
    fits = values.dtype.kind in "biuf" and values.shape == tuple(len(one) - 1 for one in all_edges)
    if not fits or values.ndim < 1:
        raise UnsupportedBranchError(
            f"{name}: these values and edges are no histogram",
            path=path,
            hint="give what np.histogram returns: of each axis one edge more than there are bins",
        )
    axes = tuple(RootAxis("", one, has_equal_widths(one)) for one in all_edges)
    contents = np.zeros([extent + 2 for extent in values.shape])
    contents[(slice(1, -1),) * values.ndim] = values
    return RootHistogram("", axes, contents, np.zeros(0))


def has_equal_widths(edges: np.ndarray) -> bool:
    """Return whether all bins between these edges are equally wide, up to rounding."""
    width = (edges[-1] - edges[0]) / (len(edges) - 1)
    starts = range(0, len(edges) - 1, NUMBERS_AT_ONCE)
    blocks = (edges[start : start + NUMBERS_AT_ONCE + 1] for start in starts)
    return all(np.allclose(np.diff(block), width, rtol=1e-12) for block in blocks)


def histogram_form(value: Any, name: str) -> RootHistogram:
    """One histogram of hist, boost-histogram or NumPy. Raises UnsupportedBranchError."""
    if isinstance(value, tuple):
        return form_of_numpy(value, name)
    if not hasattr(value, "axes") or not hasattr(value, "storage_type"):
        what = f"{name}: a {type(value).__name__} is no histogram"
        raise UnsupportedBranchError(what, hint="give one of hist, or what np.histogram returns")
    from branchline.writing.objects.forms import NotInRootError, root_forms

    try:
        forms = [form for _, form in root_forms(value)]
    except NotInRootError as reason:
        raise UnsupportedBranchError(f"{name}: ROOT has no class for this histogram: {reason}") from reason
    if len(forms) != 1:
        hint = "choose a category first, as histogram[{'sample': 'data'}]"
        raise UnsupportedBranchError(f"{name}: this histogram has categories beside numbers", hint=hint)
    return forms[0]
