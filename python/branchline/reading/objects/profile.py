"""Profiles: TProfile, TProfile2D and TProfile3D as histograms of hist that hold means."""

from __future__ import annotations

import boost_histogram
import numpy as np

from branchline.reading.objects.buffer import buffered
from branchline.reading.objects.counts import EmptyHistogram, root_axes, shaped
from branchline.reading.objects.histogram import ERROR_MODES, Histogram
from branchline.reading.objects.object_record import Record


def profile_of(record: Record, dimensions: int) -> Histogram:
    """The means of a profile, weighted ones if ROOT keeps the squares of weights (fBinSumw2).

    ROOT keeps for each cell the sums of w*y (fArray), w*y^2 (fSumw2) and w (fBinEntries); hist the mean and the sum of
    squared distances from it. Raises UnsupportedBranchError.
    """
    axes = root_axes(record, dimensions)
    stored = [record.raw(name) if name in record else [] for name in ("fArray", "fSumw2", "fBinEntries", "fBinSumw2")]
    waiting = buffered(record, axes, values_count=1)
    if waiting is not None:
        axes = waiting.axes
        w, y = waiting.weights, waiting.points[:, -1]
        has_squares = len(stored[3]) > 0 or not waiting.is_not_weighted
        stored = [
            waiting.sums(w * y),
            waiting.sums(w * y * y),
            waiting.sums(w),
            waiting.sums(w * w) if has_squares else [],
        ]
    sums, squares, weights = (shaped(record, axes, one) for one in stored[:3])
    is_weighted = len(stored[3]) == sums.size
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(weights != 0, sums / weights, 0.0)
        deltas = np.where(weights != 0, weights * np.abs(squares / weights - means**2), 0.0)
    storage = boost_histogram.storage.WeightedMean() if is_weighted else boost_histogram.storage.Mean()
    mode = record.raw("fErrorMode")
    error_mode = ERROR_MODES[mode] if 0 <= mode < len(ERROR_MODES) else ""
    empty = EmptyHistogram(record, axes, weights == 0, storage, waiting, error_mode)
    view = empty.view
    view["value"] = empty.chosen(means)
    if is_weighted:
        view["sum_of_weights"] = empty.chosen(weights)
        view["sum_of_weights_squared"] = empty.chosen(shaped(record, axes, stored[3]))
        view["_sum_of_weighted_deltas_squared"] = empty.chosen(deltas)
    else:
        view["count"] = empty.chosen(weights)
        view["_sum_of_deltas_squared"] = empty.chosen(deltas)
    return empty.filled(weights != 0)
