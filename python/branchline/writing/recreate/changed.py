"""Histograms that were read and changed: how they differ from what their file has, in ROOT's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from branchline.reading.objects.histogram import Histogram
from branchline.writing.recreate.differences import Differences


def differences_of(now: Histogram, before: Histogram) -> Differences:
    """How a histogram differs from the one in its file. Raises ValueError if it has other axes."""
    axes = [(axis, axis.label) for axis in now.axes]
    if axes != [(axis, axis.label) for axis in before.axes] or now.storage_type is not before.storage_type:
        raise ValueError("its axes are not those that it has in its file")
    title = None if now.label == before.label else now.label or ""
    return Differences(title, [] if now.is_as_read() else _numbers(now))


def _numbers(histogram: Histogram) -> list[tuple[str, list[float]]]:
    """The cells, their errors, and the sums that follow from them, for those of the entries are not known any more:
    as TH1::GetStats computes them where bins were set.
    """
    view: Any = histogram.view(flow=True)
    cells = histogram.in_cells
    if histogram.kind != "MEAN":
        has_squares = view.dtype.names is not None
        contents = weights = cells(view.value if has_squares else view)
        squares = weight_squares = cells(view.variance) if has_squares else None
        numbers = [("cells", contents), ("fSumw2", squares)]
        return _listed(numbers, histogram, weights, weights if weight_squares is None else weight_squares)
    is_weighted = "sum_of_weights" in view.dtype.names
    weights = cells(view["sum_of_weights"] if is_weighted else view["count"])
    deltas = cells(view["_sum_of_weighted_deltas_squared" if is_weighted else "_sum_of_deltas_squared"])
    means = np.where(weights != 0, cells(view["value"]), 0.0)
    sums, squares = weights * means, np.where(weights != 0, deltas, 0.0) + weights * means**2
    weight_squares = cells(view["sum_of_weights_squared"]) if is_weighted else None
    inside = (slice(1, -1),) * histogram.ndim
    last = ("fTsumwy", "fTsumwz", "fTsumwt")[histogram.ndim - 1]
    numbers = [
        ("cells", sums),
        ("fSumw2", squares),
        ("fBinEntries", weights),
        ("fBinSumw2", weight_squares),
        (last, sums[inside].sum()),
        (f"{last}2", squares[inside].sum()),
    ]
    return _listed(numbers, histogram, weights, weights if weight_squares is None else weight_squares)


def _listed(
    numbers: list[tuple[str, Any]], histogram: Histogram, weights: Any, squares: Any
) -> list[tuple[str, list[float]]]:
    """The numbers in ROOT's order of cells, with the statistics."""
    total, total_squares = float(weights.sum()), float(squares.sum())
    entries = total * total / total_squares if total_squares > 0 else 0.0
    all_numbers = [*numbers, ("fEntries", entries), *_sums(histogram, weights, squares)]
    return [
        (name, np.ravel(values, order="F").astype("f8").tolist()) for name, values in all_numbers if values is not None
    ]


def _sums(histogram: Histogram, weights: Any, squares: Any) -> list[tuple[str, float]]:
    """fTsumw, fTsumw2 and the sums over x, y and z, from the middles of the bins inside of the axes."""
    inside = (slice(1, -1),) * histogram.ndim
    weights, squares = weights[inside], squares[inside]
    middles = np.meshgrid(*(_middles(axis) for axis in histogram.root_axes), indexing="ij", sparse=True)
    sums = [("fTsumw", weights.sum()), ("fTsumw2", squares.sum())]
    for letter, middle in zip("xyz", middles, strict=False):
        sums += [(f"fTsumw{letter}", (weights * middle).sum()), (f"fTsumw{letter}2", (weights * middle**2).sum())]
        for before, other in zip("xyz", middles, strict=False):
            if before < letter:
                sums.append((f"fTsumw{before}{letter}", (weights * middle * other).sum()))
    return sums


def _middles(axis: Any) -> Any:
    edges = np.asarray(axis.edges, dtype="f8")
    if len(edges) != axis.bins_count + 1:
        edges = np.linspace(edges[0], edges[-1], axis.bins_count + 1)
    return (edges[1:] + edges[:-1]) / 2
