"""Results scaled to a luminosity: by the factor of each sample, with errors; the raw ones stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from branchline.errors import DatasetError
from branchline.records.sensors.sample_record import SampleRecord

#: Names of an axis of categories that may be the samples, as analyses in Python call it.
SAMPLE_AXES = ("dataset", "sample", "process")


def normalised(value: Any, samples: Sequence[SampleRecord], where: str) -> Any:
    """A result with everything of a sample multiplied with its factor.

    Samples are the keys of a dict (as of a wagon with ``by_dataset``), or the categories of a histogram's axis
    ``dataset``, ``sample`` or ``process``. Weights give ``hist`` errors that scale, and counts get them. Raises
    DatasetError where a factor is not known, or where samples are not apart.
    """
    by_name = {one.name: one for one in samples}
    if not by_name:
        hint = "give each dataset of the list a sample, with its kind and cross section"
        raise DatasetError(f"the list of datasets of {where} describes no samples", hint=hint)
    scaled = _by_sample(value, by_name)
    if scaled is not None:
        return scaled
    if len(by_name) == 1:
        return times(value, factor_of(samples[0]))
    hint = "write by_dataset = True in the wagon, or fill an axis of categories that is called dataset"
    part = _added_up(value, by_name)
    within = f" in {part}" if part else ""
    raise DatasetError(f"{where} has the samples {', '.join(by_name)} added up{within}", hint=hint)


def _added_up(value: Any, names: Mapping[str, SampleRecord]) -> str:
    """The keys of the first part of a result whose samples are not apart; empty for the result itself."""
    if not isinstance(value, Mapping):
        return ""
    parts = ((key, one) for key, one in value.items() if _by_sample(one, names) is None)
    return next((f"{key}/{_added_up(one, names)}".rstrip("/") for key, one in parts), "")


def factor_of(sample: SampleRecord) -> float:
    """What results of a sample are multiplied with. Raises DatasetError if it is not known."""
    if sample.factor is None:
        raise DatasetError(f"sample {sample.name!r} cannot be normalised: {sample.note or 'no factor is recorded'}")
    return sample.factor


def sample_axis(histogram: Any, names: Mapping[str, SampleRecord]) -> int | None:
    """The axis of a histogram whose categories are samples."""
    import boost_histogram

    for index, axis in enumerate(histogram.axes):
        is_category = isinstance(axis, boost_histogram.axis.StrCategory)
        if is_category and len(axis) and getattr(axis, "name", "") in SAMPLE_AXES and set(axis) <= set(names):
            return index
    return None


def _by_sample(value: Any, names: Mapping[str, SampleRecord]) -> Any:
    """The value scaled, where samples are found in it; else None."""
    if isinstance(value, Mapping):
        if value and all(key in names for key in value):
            return {key: times(one, factor_of(names[key])) for key, one in value.items()}
        inner = {key: _by_sample(one, names) for key, one in value.items()}
        return inner if inner and all(one is not None for one in inner.values()) else None
    if not hasattr(value, "axes"):
        return None
    index = sample_axis(value, names)
    if index is None:
        return None
    if _is_mean(value):
        return value
    total = weighted(value)
    view = total.view(flow=True)
    for place, label in enumerate(value.axes[index]):
        cells = (slice(None),) * index + (place,)
        factor = factor_of(names[str(label)])
        view["value"][cells] *= factor
        view["variance"][cells] *= factor**2
    return total


def times(value: Any, factor: float) -> Any:
    """A result multiplied with a factor: histograms with their errors, numbers, arrays, and collections of these.

    Means, texts, sets and tables do not depend on how much there is, and stay.
    """
    if isinstance(value, Mapping):
        return {key: times(one, factor) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(times(one, factor) for one in value)
    if hasattr(value, "axes") and hasattr(value, "storage_type"):
        return _histogram(value, factor)
    if hasattr(value, "scaled"):
        return value.scaled(factor)
    if isinstance(value, int | float | complex) and not isinstance(value, bool):
        return value * factor
    if type(value).__module__ == "numpy" and getattr(getattr(value, "dtype", None), "kind", "") in "iufc":
        return value * factor
    return value


def _histogram(value: Any, factor: float) -> Any:
    if _is_mean(value):
        return value
    total = weighted(value)
    view = total.view(flow=True)
    view["value"] *= factor
    view["variance"] *= factor**2
    return total


def _is_mean(histogram: Any) -> bool:
    """Whether bins hold means, as those of a profile, which do not depend on how much there is."""
    return bool(histogram.kind.name == "MEAN")


def weighted(value: Any) -> Any:
    """A copy of a histogram of counts or weights that keeps the errors of its bins when it is scaled."""
    import boost_histogram

    if value.storage_type is boost_histogram.storage.Weight:
        return value.copy()
    extra = {} if type(value) is boost_histogram.Histogram else {"name": value.name, "label": value.label}
    total = type(value)(*value.axes, storage=boost_histogram.storage.Weight(), **extra)
    variances = value.variances(flow=True)
    view = total.view(flow=True)
    view["value"] = value.values(flow=True)
    # Without squared weights the best that is known of sums is that they are counts.
    view["variance"] = value.values(flow=True) if variances is None else variances
    return total
