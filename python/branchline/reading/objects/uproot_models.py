"""Histograms as objects that uproot writes, with what ROOT stores besides the bins.

They are made by ``to_TH1x``, ``to_TProfile`` and the like of ``uproot.writing.identify``, which uproot documents for
this purpose; their arguments have ROOT's names.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import lru_cache
from types import new_class
from typing import TYPE_CHECKING, Any

import boost_histogram
import hist
import numpy as np

from branchline.reading.objects.hist_axes import FAMILY

if TYPE_CHECKING:
    from branchline.reading.objects.axes import RootAxis

# Types of the contents by the last letter of the class.
CONTENT_TYPES = {"C": "i1", "S": "i2", "I": "i4", "L": "i8", "F": "f4", "D": "f8"}
COUNTS = re.compile(r"TH([123])([CSILFD])")
PROFILES = {"TProfile": "to_TProfile", "TProfile2D": "to_TProfile2D", "TProfile3D": "to_TProfile3D"}
# What is not taken over from the file: uproot gives the name, and there is no buffer any more.
LEFT_OUT = frozenset({"fName", "fTitle", "fBufferSize", "fNcells"})


@lru_cache(maxsize=1)
def class_for_uproot(histogram: type[hist.Hist]) -> type:
    """A class that inherits from ``histogram`` and from uproot's models."""
    from uproot.model import Model

    namespace = {"__module__": histogram.__module__, "__doc__": histogram.__doc__}
    made: type = new_class("Histogram", (histogram, Model), {"family": FAMILY}, lambda body: body.update(namespace))
    return made


def uproot_model(histogram: hist.Hist, facts: Any) -> Any:
    """The model of uproot for a histogram, with what its file says of it; with None for this, what uproot itself makes
    of its bins.
    """
    from uproot.writing import identify

    count = COUNTS.fullmatch(facts.classname) if facts is not None else None
    if facts is None or (count is None and facts.classname not in PROFILES):
        return identify.to_writable(hist.Hist(histogram))
    make = getattr(identify, f"to_TH{count[1]}x" if count else PROFILES[facts.classname])
    cells = _counts(histogram, facts.axes, CONTENT_TYPES[count[2]]) if count else _sums(histogram, facts.axes)
    axes = {f"f{letter}axis": _axis(axis, identify) for letter, axis in zip("XYZ", facts.axes, strict=False)}
    kept = _known(make, facts.members)
    return make(**{**kept, **cells, **axes, "fName": None, "fTitle": histogram.label or ""})


def _known(make: Callable[..., Any], members: Any) -> dict[str, Any]:
    """Those of a file's members that uproot takes; sums that are not there are 0, which ROOT computes from the bins."""
    parameters = inspect.signature(make).parameters
    sums = {name: 0.0 for name in parameters if name.startswith("fTsum")}
    return sums | {name: value for name, value in members.items() if name in parameters and name not in LEFT_OUT}


def _counts(histogram: hist.Hist, axes: tuple[RootAxis, ...], content_type: str) -> dict[str, Any]:
    view: Any = histogram.view(flow=True)
    is_weighted = view.dtype.names is not None
    squares = _in_order_of_root(histogram, axes, view["variance"]) if is_weighted else None
    data = _in_order_of_root(histogram, axes, view["value"] if is_weighted else view)
    return {"data": data.astype(content_type), "fSumw2": squares}


def _sums(histogram: hist.Hist, axes: tuple[RootAxis, ...]) -> dict[str, Any]:
    """The sums of w*y, w*y^2, w and w^2 that ROOT keeps of a profile, from mean and squared distances."""
    view: Any = histogram.view(flow=True)
    is_weighted = histogram.storage_type is boost_histogram.storage.WeightedMean
    weights = view["sum_of_weights" if is_weighted else "count"]
    deltas = view["_sum_of_weighted_deltas_squared" if is_weighted else "_sum_of_deltas_squared"]
    squares = _in_order_of_root(histogram, axes, view["sum_of_weights_squared"]) if is_weighted else np.zeros(0)
    return {
        "data": _in_order_of_root(histogram, axes, view["value"] * weights),
        "fSumw2": _in_order_of_root(histogram, axes, deltas + view["value"] ** 2 * weights),
        "fBinEntries": _in_order_of_root(histogram, axes, weights),
        "fBinSumw2": squares,
    }


def _in_order_of_root(histogram: hist.Hist, axes: tuple[RootAxis, ...], values: Any) -> Any:
    """All cells in the order of TH1::GetBin, where x runs fastest. Cells that no bin stands for hold 0."""
    cells = np.zeros([axis.cells_count for axis in axes])
    places = [
        np.arange(axis.cells_count)
        if ours.traits.underflow
        else np.array([*range(1, len(ours) + 1), axis.cells_count - 1])
        for ours, axis in zip(histogram.axes, axes, strict=True)
    ]
    cells[np.ix_(*places)] = values
    return np.ascontiguousarray(cells.T).reshape(-1)


def _axis(axis: RootAxis, identify: Any) -> Any:
    labels = None
    if axis.labels:
        texts = {number: identify.to_TObjString(label) for number, label in axis.labels.items()}
        for number, text in texts.items():  # as TAxis::SetBinLabel does
            text._bases[0]._members["@fUniqueID"] = number
        labels = identify.to_THashList(list(texts.values()))
    return identify.to_TAxis(
        fName=axis.name,
        fTitle=axis.title,
        fNbins=axis.bins_count,
        fXmin=axis.edges[0],
        fXmax=axis.edges[-1],
        fXbins=axis.edges if len(axis.edges) > 2 else None,
        fLabels=labels,
    )
