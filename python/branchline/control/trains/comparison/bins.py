"""Compares two histograms in UHI's JSON, bin by bin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from branchline.base.limits import COMPARED_BINS_DRAWN_MAX
from branchline.control.trains.comparison.compared import DIFFERS, SAME, BinsDrawn, PartCompared

_Array = npt.NDArray[Any]
# What an axis is, without names and labels.
_WORDS = ("name", "label", "title", "metadata", "writer_info")


def is_histogram(content: object) -> bool:
    """Whether this is a histogram in UHI's JSON."""
    return isinstance(content, dict) and "uhi_schema" in content and isinstance(content.get("storage"), dict)


def compare_histograms(name: str, first: Any, second: Any) -> PartCompared:
    """The histograms bin by bin, underflow and overflow too. Raises errors of wrong values for what is none."""
    axes = [_plain_axes(one) for one in (first, second)]
    ours, theirs = first["storage"], second["storage"]
    if axes[0] != axes[1]:
        return PartCompared(name, "histogram", DIFFERS, note="it has other bins")
    if ours.get("type") != theirs.get("type") or ours.keys() != theirs.keys():
        return PartCompared(name, "histogram", DIFFERS, note="its bins keep something else")
    numbers = {key: (_numbers(ours[key]), _numbers(theirs[key])) for key in ours if key != "type"}
    shape = numbers["values"][0].shape
    if any(one.shape != shape for pair in numbers.values() for one in pair):
        return PartCompared(name, "histogram", DIFFERS, note="it has other bins")
    is_other = np.zeros(shape, bool)
    for before, after in numbers.values():
        is_other |= (before != after) & ~(np.isnan(before) & np.isnan(after))
    left, right = numbers["values"]
    with np.errstate(all="ignore"):
        distance = np.nan_to_num(np.abs(left.astype(float) - right.astype(float)), posinf=0.0)
        error = np.maximum(_errors(ours, numbers, 0), _errors(ours, numbers, 1))
        has_error = is_other & (error > 0) & np.isfinite(error)
        pulls = distance[has_error] / error[has_error]
    return PartCompared(
        name,
        "histogram",
        DIFFERS if is_other.any() else SAME,
        int(is_other.size),
        int(is_other.sum()),
        float(distance.max(initial=0.0)),
        float(pulls.max()) if pulls.size and math.isfinite(pulls.max()) else None,
        bins=_drawn(first["axes"], left, right),
    )


def _plain_axes(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if not all(isinstance(axis, dict) for axis in content["axes"]):
        raise ValueError("its axes are none")
    return [{key: value for key, value in axis.items() if key not in _WORDS} for axis in content["axes"]]


def _numbers(plain: object) -> _Array:
    found = np.asarray(plain)
    if found.dtype.kind not in "iufb" or not found.size:
        raise ValueError("its bins are not numbers")
    return found.astype(float) if found.dtype.kind == "b" else found


def _errors(storage: Mapping[str, Any], numbers: Mapping[str, tuple[_Array, _Array]], which: int) -> _Array:
    """Of counts their square root; of a mean what its entries scatter by, over the root of their number."""
    values = numbers["values"][which].astype(float)
    if "variances" not in numbers:
        return np.asarray(np.sqrt(np.abs(values)))
    variances = numbers["variances"][which].astype(float)
    if storage.get("type") in ("mean", "weighted_mean"):
        counts = numbers.get("counts") or numbers.get("sum_of_weights")
        return np.asarray(np.sqrt(variances / counts[which])) if counts else np.zeros_like(values)
    return np.asarray(np.sqrt(variances))


def _drawn(axes: list[Mapping[str, Any]], first: _Array, second: _Array) -> BinsDrawn | None:
    """Both over the first axis with numbers, sums over the others, without underflow and overflow."""
    for index, axis in enumerate(axes):
        edges = _edges(axis, first.shape[index])
        if edges is None:
            continue
        low = 1 if axis.get("underflow") else 0
        others = tuple(one for one in range(first.ndim) if one != index)
        lists = [one.astype(float).sum(axis=others)[low : low + len(edges) - 1] for one in (first, second)]
        if len(lists[0]) != len(edges) - 1 or not all(np.isfinite(one).all() for one in (*lists, edges)):
            continue
        step = math.ceil(len(lists[0]) / COMPARED_BINS_DRAWN_MAX)
        starts = np.arange(0, len(lists[0]), step)
        sums = [np.add.reduceat(one, starts).tolist() for one in lists]
        label = axis.get("metadata", {})
        name = label.get("label") or label.get("name") if isinstance(label, dict) else ""
        return BinsDrawn(str(name or "")[:80], [*edges[starts].tolist(), float(edges[-1])], *sums)
    return None


def _edges(axis: Mapping[str, Any], cells: int) -> _Array | None:
    """The edges of an axis with numbers. Its number of bins comes from outside: it has to fit the cells."""
    if axis.get("type") == "regular":
        bins = axis["bins"]
        if not isinstance(bins, int) or not 0 < bins <= cells:
            return None
        return np.linspace(float(axis["lower"]), float(axis["upper"]), bins + 1)
    if axis.get("type") == "variable":
        return np.asarray(axis["edges"], float)
    return None
