"""results.root: the histograms of all wagons as ROOT and uproot read them.

A histogram becomes a TH1D, TH2D or TH3D with all its under- and overflow, a mean a TProfile of as many axes. Category
axes next to numeric ones become directories with a histogram for each category, category axes alone labelled bins.
Values that are in no category are one more, "(other)", where there are any. What ROOT has no class for has a note that
says so, and stands with every other histogram in an open format.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import boost_histogram
import numpy

from branchline import _core
from branchline.writing.objects.buffer import OBJECT_BYTES_MAX
from branchline.writing.objects.histograms import RootAxis, RootHistogram
from branchline.writing.objects.root_names import SafeNames, root_title

FILE_NAME = "results.root"
#: A byte count has 30 bits; a cell takes 16 bytes (value and squared weights), and the rest of a histogram little.
CELLS_MAX = OBJECT_BYTES_MAX // 16 - 1_000_000
#: As ROOT's own default, which every version of ROOT reads.
CODEC = "zlib:1"
#: The axes of ROOT's histograms and profiles. A THnD has any number, of which branchline writes so many.
ROOT_AXES, GRID_AXES = 3, 32
#: One directory each: more categories than this belong into a table, not into a ROOT file.
CATEGORIES_MAX = 1000

_CATEGORY_AXES = (
    boost_histogram.axis.StrCategory,
    boost_histogram.axis.IntCategory,
    boost_histogram.axis.Boolean,
)
_MEANS = (boost_histogram.storage.Mean, boost_histogram.storage.WeightedMean)
_DEFAULT_LABEL = re.compile(r"Axis \d+")
#: The extra bin for values in none of the categories.
OTHER = "(other)"


class InRoot(NamedTuple):
    """What became of one histogram: its names in results.root and a note where ROOT could not hold all of it."""

    names: list[str]
    note: str | None


class NotInRootError(Exception):
    """ROOT has no class for this histogram; the message has the reason."""


def write_root_file(out_dir: Path, histograms: list[tuple[tuple[str, ...], Any]]) -> list[InRoot]:
    """Write all histograms, given as (path, histogram), to ``out_dir/results.root``.

    Returns what became of each, in order. Raises StorageError when the file cannot be written.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    file = _core.WritableFile(out_dir / FILE_NAME, True, CODEC)
    try:
        written = [_write_one(file, path, histogram) for path, histogram in histograms]
        file.finish()
    finally:
        file.abandon()
    return written


def _write_one(file: Any, path: tuple[str, ...], histogram: Any) -> InRoot:
    try:
        forms = [(names, form, form.streamed(names[-1])) for names, form in _named_forms(path, histogram)]
    except NotInRootError as reason:
        return InRoot([], f"not in {FILE_NAME}: {reason}")
    except Exception as error:  # noqa: BLE001 - an object of the user may raise anything; the others are written
        return InRoot([], f"not in {FILE_NAME}: {type(error).__name__}: {error}")
    for names, form, content in forms:
        file.add(list(names[:-1]), form.class_name, names[-1], form.title, content)
    return InRoot(["/".join(names) for names, _, _ in forms], None)


def _named_forms(path: tuple[str, ...], histogram: Any) -> Iterator[tuple[tuple[str, ...], RootHistogram]]:
    """Yield what ROOT has a class for with the names of the directories and its own."""
    for below, form in root_forms(histogram):
        yield (*path, *below), form


def is_category(axis: Any) -> bool:
    """Return whether an axis has categories (texts, numbers or truth values as labels) instead of intervals."""
    return isinstance(axis, _CATEGORY_AXES)


def category_labels(axis: Any) -> list[str]:
    """Return the labels of a category axis as text, without its overflow."""
    return [str(bool(label)) if isinstance(axis, boost_histogram.axis.Boolean) else str(label) for label in axis]


def root_forms(histogram: Any, axes_max: int = ROOT_AXES) -> Iterator[tuple[tuple[str, ...], RootHistogram]]:
    """Yield (directories below the histogram's name, histogram that ROOT has a class for): over more than three axes a
    THnD, if ``axes_max`` allows it.

    Raises NotInRootError.
    """
    histogram = _with_category_bins(histogram)
    categories = [index for index, axis in enumerate(histogram.axes) if is_category(axis)]
    numeric_count = len(histogram.axes) - len(categories)
    _check(histogram, numeric_count or len(categories), categories, axes_max)
    if numeric_count == 0:
        yield (), _labelled(histogram)
        return
    labels = [_labels_with_other(histogram, index) for index in categories]
    names = [safe_names(texts) for texts in labels]
    for chosen in itertools.product(*(range(len(texts)) for texts in labels)):
        form = _with_all_flow(histogram, dict(zip(categories, chosen, strict=True)))
        in_other = any(texts[at] == OTHER for texts, at in zip(labels, chosen, strict=True))
        sums = (form.contents, form.squares, form.weights)
        has_categories = any(texts != [OTHER] for texts in labels)
        if in_other and has_categories and not any(numpy.any(one) for one in sums if one is not None):
            continue
        yield tuple(safe[at] for safe, at in zip(names, chosen, strict=True)), form


def _with_category_bins(histogram: Any) -> Any:
    """Return the histogram; if a growing category axis has no categories yet, an empty one with overflow in its place,
    since each of ROOT's axes has at least one bin.
    """
    if not any(is_category(axis) and axis.extent == 0 for axis in histogram.axes):
        return histogram
    axes = [
        boost_histogram.axis.StrCategory([], metadata=axis_label(axis))
        if axis.extent == 0 and is_category(axis)
        else axis
        for axis in histogram.axes
    ]
    empty: Any = boost_histogram.Histogram(*axes, storage=histogram.storage_type())
    empty.label = getattr(histogram, "label", None) or getattr(histogram, "name", None)
    return empty


def _check(histogram: Any, dimensions: int, categories: list[int], axes_max: int) -> None:
    """Raise NotInRootError for what ROOT has no class for."""
    most = ROOT_AXES if histogram.kind == boost_histogram.Kind.MEAN else axes_max
    if not 1 <= dimensions <= most:
        raise NotInRootError(f"it has {dimensions} axes, ROOT's histograms have up to {most}")
    if math.prod(axis.extent for axis in histogram.axes) > CELLS_MAX:
        raise NotInRootError("it is larger than one object in a ROOT file may be")
    if categories and math.prod(histogram.axes[index].extent for index in categories) > CATEGORIES_MAX:
        raise NotInRootError(f"it has more than {CATEGORIES_MAX} categories")
    values = histogram.view(flow=True)
    if values.ndim != len(histogram.axes):
        raise NotInRootError("it has several values in each bin")
    if values.size == 0:
        raise NotInRootError("it is empty: an axis has no bins yet")
    if values.dtype.kind in "iu" and values.size and values.max() > 2**53:
        raise NotInRootError("its counts are too large for a double")


def _labels_with_other(histogram: Any, index: int) -> list[str]:
    """Return an axis' labels, with OTHER for its overflow where that has entries."""
    axis = histogram.axes[index]
    labels = category_labels(axis)
    if axis.extent == len(labels):
        return labels
    overflow = numpy.asarray(histogram.view(flow=True)).take(-1, axis=index)
    fields = overflow.dtype.names
    is_filled = any(map(numpy.any, (overflow[name] for name in fields) if fields else (overflow,)))
    # ROOT's axes have a bin at least.
    return [*labels, OTHER] if is_filled or not labels else labels


def _labelled(histogram: Any) -> RootHistogram:
    """Return a histogram of categories alone whose overflow, if it has entries, is a category like the others."""
    labels = [_labels_with_other(histogram, index) for index in range(len(histogram.axes))]
    axes = [
        RootAxis(_title(axis), numpy.arange(len(texts) + 1.0), labels=tuple(texts))
        for axis, texts in zip(histogram.axes, labels, strict=True)
    ]
    cells = histogram.view(flow=True)[tuple(slice(len(texts)) for texts in labels)]
    return _filled(axes, histogram, cells, (slice(1, -1),) * len(axes))


def _with_all_flow(histogram: Any, chosen: dict[int, int]) -> RootHistogram:
    """Return the numeric part of a histogram at the chosen categories, every axis with under- and overflow."""
    axes = []
    inner = []
    for index, axis in enumerate(histogram.axes):
        if index in chosen:
            continue
        axes.append(_interval_axis(axis))
        start = 0 if axis.traits.underflow else 1
        inner.append(slice(start, start + axis.extent))
    cells = histogram.view(flow=True)[tuple(chosen.get(index, slice(None)) for index in range(len(histogram.axes)))]
    return _filled(axes, histogram, cells, tuple(inner))


def _interval_axis(axis: Any) -> RootAxis:
    """Return the axis as ROOT knows it: equal bins where they are, else edges."""
    edges = numpy.asarray(axis.edges, dtype=numpy.float64)
    is_regular = isinstance(axis, boost_histogram.axis.Regular) and axis.transform is None
    return RootAxis(_title(axis), edges, is_regular or isinstance(axis, boost_histogram.axis.Integer))


def _title(axis: Any) -> str:
    return root_title(axis_label(axis))


def _filled(axes: list[RootAxis], histogram: Any, cells: Any, where: tuple[slice, ...]) -> RootHistogram:
    """Return a histogram over ``axes`` with ``cells`` put at ``where`` among the bins with under- and overflow."""
    shape = tuple(axis.bins_count + 2 for axis in axes)

    def placed(values: Any) -> numpy.ndarray:
        whole = numpy.zeros(shape)
        whole[where] = values
        return whole

    title = root_title(str(getattr(histogram, "label", None) or getattr(histogram, "name", None) or ""))
    if histogram.kind != boost_histogram.Kind.MEAN:
        has_squares = cells.dtype.names is not None
        contents, squares = (cells["value"], cells["variance"]) if has_squares else (cells, None)
        return RootHistogram(
            title, tuple(axes), placed(contents), numpy.zeros(0) if squares is None else placed(squares)
        )
    is_weighted = "sum_of_weights" in cells.dtype.names
    weights = cells["sum_of_weights"] if is_weighted else cells["count"]
    deltas = cells["_sum_of_weighted_deltas_squared" if is_weighted else "_sum_of_deltas_squared"]
    means = numpy.where(weights != 0, cells["value"], 0.0)
    return RootHistogram(
        title,
        tuple(axes),
        placed(weights * means),
        placed(numpy.where(weights != 0, deltas, 0.0) + weights * means**2),
        placed(weights),
        placed(cells["sum_of_weights_squared"]) if is_weighted else None,
    )


def safe_names(labels: list[str]) -> list[str]:
    """Return a name for each label that a directory may have."""
    names = SafeNames()
    return [names.give(label) for label in labels]


def axis_label(axis: Any) -> str:
    """Return the text of a histogram's author for an axis: its label, else its name."""
    for text in (getattr(axis, "label", None), getattr(axis, "name", None), getattr(axis, "metadata", None)):
        # hist calls an axis that has no label "Axis 0".
        if isinstance(text, str) and text.strip() and not _DEFAULT_LABEL.fullmatch(text):
            return text
    return ""
