"""Profiles: TProfile, TProfile2D and TProfile3D as histograms of hist that hold means."""

from __future__ import annotations

import boost_histogram
import numpy as np

from branchline.objects.histogram import ERROR_MODES, Histogram, empty_histogram, root_axes, shaped
from branchline.objects.record import Record


def profile_of(record: Record, dimensions: int) -> Histogram:
    """The means of a profile, weighted ones if ROOT keeps the squares of weights (fBinSumw2).

    ROOT keeps for each cell the sums of w*y (fArray), w*y^2 (fSumw2) and w (fBinEntries); hist the mean and the sum of
    squared distances from it. Raises UnsupportedBranchError.
    """
    axes = root_axes(record, dimensions)
    sums = shaped(record, axes, record.raw("fArray"))
    squares = shaped(record, axes, record.raw("fSumw2"))
    weights = shaped(record, axes, record.raw("fBinEntries"))
    is_weighted = len(record.raw("fBinSumw2")) == sums.size if "fBinSumw2" in record else False
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(weights != 0, sums / weights, 0.0)
        deltas = np.where(weights != 0, weights * np.abs(squares / weights - means**2), 0.0)
    storage = boost_histogram.storage.WeightedMean() if is_weighted else boost_histogram.storage.Mean()
    mode = record.raw("fErrorMode")
    options = {"mode": ERROR_MODES[mode] if 0 <= mode < len(ERROR_MODES) else ""}
    made = empty_histogram(record, axes, weights == 0, storage, **options)
    view = made.histogram.view(flow=True)
    view["value"] = made.chosen(means)
    if is_weighted:
        view["sum_of_weights"] = made.chosen(weights)
        view["sum_of_weights_squared"] = made.chosen(shaped(record, axes, record.raw("fBinSumw2")))
        view["_sum_of_weighted_deltas_squared"] = made.chosen(deltas)
    else:
        view["count"] = made.chosen(weights)
        view["_sum_of_deltas_squared"] = made.chosen(deltas)
    made.tell_lost(weights != 0)
    return made.histogram
