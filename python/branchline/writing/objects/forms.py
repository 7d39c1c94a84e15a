"""Writes the histograms of all wagons to results.root, for ROOT and uproot.

- A histogram becomes a TH1D, TH2D or TH3D with all under- and overflow bins; a mean becomes a TProfile.
- In a histogram with numeric and category axes, each category becomes a directory with a histogram.
- In a histogram with only category axes, the categories become labelled bins.
- Values outside all categories are collected in an extra category "(other)".
- A histogram for which ROOT has no class is left out, with a note. It is still stored in an open format, like all
  histograms.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import boost_histogram
import numpy

from branchline import _core
from branchline.writing.objects.buffer import OBJECT_BYTES_MAX
from branchline.writing.objects.histograms import HistogramAxis, RootHistogram
from branchline.writing.objects.root_names import SafeNames, root_title

FILE_NAME = "results.root"
#: Maximum number of bins of a histogram, so that the object fits into OBJECT_BYTES_MAX. A bin takes 16 bytes (contents
#: and sum of squared weights); the margin is for all other data of the histogram.
CELLS_MAX = OBJECT_BYTES_MAX // 16 - 1_000_000
#: Codec of results.root: ROOT's own default, which all versions of ROOT can read.
CODEC = "zlib:1"
#: ROOT_AXES: maximum number of axes of ROOT's histograms and profiles. GRID_AXES: maximum number of axes of a THnD,
#: which Branchline sets; ROOT has no limit.
ROOT_AXES, GRID_AXES = 3, 32
#: Maximum number of categories of a histogram, each of which becomes a directory. Use a table for more categories.
CATEGORIES_MAX = 1000

_CATEGORY_AXES = (
    boost_histogram.axis.StrCategory,
    boost_histogram.axis.IntCategory,
    boost_histogram.axis.Boolean,
)
_MEANS = (boost_histogram.storage.Mean, boost_histogram.storage.WeightedMean)
_DEFAULT_LABEL = re.compile(r"Axis \d+")
#: Label of the extra bin for values outside all categories.
OTHER = "(other)"


class InRoot(NamedTuple):
    """The names of a histogram in results.root, and a note if ROOT cannot store the complete histogram."""

    names: list[str]
    note: str | None


class NotInRootError(Exception):
    """Raised if ROOT has no class for a histogram; the message contains the reason."""


def write_root_file(out_dir: Path, histograms: list[tuple[tuple[str, ...], boost_histogram.Histogram]]) -> list[InRoot]:
    """Write all histograms, given as pairs of path and histogram, to ``out_dir/results.root``.

    Returns the names and the note of each histogram, in order. Raises StorageError if the file cannot be written.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    file = _core.WritableFile(out_dir / FILE_NAME, True, CODEC)
    try:
        written = [_write_one(file, path, histogram) for path, histogram in histograms]
        file.finish()
    finally:
        file.abandon()
    return written


def _write_one(file: _core.WritableFile, path: tuple[str, ...], histogram: boost_histogram.Histogram) -> InRoot:
    try:
        forms = []
        for below, form in root_forms(histogram):
            names = (*path, *below)
            forms.append((names, form, form.streamed(names[-1])))
    except NotInRootError as reason:
        return InRoot([], f"not in {FILE_NAME}: {reason}")
    except Exception as error:  # noqa: BLE001 - objects of users may raise anything; the others are still written
        return InRoot([], f"not in {FILE_NAME}: {type(error).__name__}: {error}")
    for names, form, content in forms:
        file.add(list(names[:-1]), form.class_name, names[-1], form.title, content)
    return InRoot(["/".join(names) for names, _, _ in forms], None)


def is_category(axis: object) -> bool:
    """Return whether an axis has categories (labelled by strings, integers or booleans) instead of intervals."""
    return isinstance(axis, _CATEGORY_AXES)


def category_labels(axis: boost_histogram.axis.Axis) -> list[str]:
    """Return the labels of a category axis as strings, without the overflow."""
    return [str(bool(label)) if isinstance(axis, boost_histogram.axis.Boolean) else str(label) for label in axis]


def root_forms(
    histogram: boost_histogram.Histogram, axes_max: int = ROOT_AXES
) -> Iterator[tuple[tuple[str, ...], RootHistogram]]:
    """Yield pairs of a path, as a tuple of names, and a ROOT histogram for each combination of categories.

    The last part of the path is the name of the ROOT histogram, and the other parts are its directories within a
    directory named after ``histogram``. Without categories, the path is empty: the ROOT histogram has the name of
    ``histogram``. A histogram with more than three axes becomes a THnD, up to ``axes_max`` axes. Raises NotInRootError.
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


def _with_category_bins(histogram: boost_histogram.Histogram) -> boost_histogram.Histogram:
    """Replace growing category axes without categories with axes that have only an overflow bin.

    ROOT requires at least one bin on each axis.
    """
    if not any(is_category(axis) and axis.extent == 0 for axis in histogram.axes):
        return histogram
    axes = [
        boost_histogram.axis.StrCategory([], metadata=axis_label(axis))
        if axis.extent == 0 and is_category(axis)
        else axis
        for axis in histogram.axes
    ]
    empty = boost_histogram.Histogram(*axes, storage=histogram.storage_type())
    vars(empty)["label"] = getattr(histogram, "label", None) or getattr(histogram, "name", None)
    return empty


def _check(histogram: boost_histogram.Histogram, dimensions: int, categories: list[int], axes_max: int) -> None:
    """Raise NotInRootError for a histogram for which ROOT has no class."""
    most = ROOT_AXES if histogram.kind == boost_histogram.Kind.MEAN else axes_max
    if not 1 <= dimensions <= most:
        raise NotInRootError(f"it has {dimensions} axes; ROOT's histograms have up to {most}")
    if math.prod(histogram.axes.extent) > CELLS_MAX:
        raise NotInRootError("it exceeds the maximum size of an object in a ROOT file")
    if categories and math.prod(histogram.axes[index].extent for index in categories) > CATEGORIES_MAX:
        raise NotInRootError(f"it has more than {CATEGORIES_MAX} categories")
    values = histogram.view(flow=True)
    if values.ndim != len(histogram.axes):
        raise NotInRootError("it has several values in each bin")
    if values.size == 0:
        raise NotInRootError("it is empty: an axis has no bins yet")
    if values.dtype.kind in "iu" and values.max() > 2**53:
        raise NotInRootError("its counts are too large for a double")


def _labels_with_other(histogram: boost_histogram.Histogram, index: int) -> list[str]:
    """Return the labels of an axis, with OTHER appended if the overflow has entries."""
    axis = histogram.axes[index]
    labels = category_labels(axis)
    if axis.extent == len(labels):
        return labels
    overflow: numpy.ndarray = numpy.take(numpy.asarray(histogram.view(flow=True)), -1, axis=index)
    fields = overflow.dtype.names
    is_filled = any(map(numpy.any, (overflow[name] for name in fields) if fields else (overflow,)))
    # Without any label, return OTHER, because ROOT requires at least one bin on each axis.
    return [*labels, OTHER] if is_filled or not labels else labels


def _labelled(histogram: boost_histogram.Histogram) -> RootHistogram:
    """Convert a histogram that has only category axes; an overflow with entries becomes the category OTHER."""
    labels = [_labels_with_other(histogram, index) for index in range(len(histogram.axes))]
    axes = [
        HistogramAxis(root_title(axis_label(axis)), numpy.arange(len(texts) + 1.0), labels=tuple(texts))
        for axis, texts in zip(histogram.axes, labels, strict=True)
    ]
    cells = histogram.view(flow=True)[tuple(slice(len(texts)) for texts in labels)]
    return _filled(axes, histogram, cells, (slice(1, -1),) * len(axes))


def _with_all_flow(histogram: boost_histogram.Histogram, chosen: dict[int, int]) -> RootHistogram:
    """Return the histogram over the numeric axes for the chosen categories, with under- and overflow on every axis."""
    axes = []
    inner = []
    for index, axis in enumerate(histogram.axes):
        if index in chosen:
            continue
        edges = numpy.asarray(axis.edges, dtype=numpy.float64)
        # ROOT stores only the limits of an axis with equal bins, and all edges of any other axis.
        is_regular = isinstance(axis, boost_histogram.axis.Regular) and axis.transform is None
        is_regular = is_regular or isinstance(axis, boost_histogram.axis.Integer)
        axes.append(HistogramAxis(root_title(axis_label(axis)), edges, is_regular))
        start = 0 if axis.traits.underflow else 1
        inner.append(slice(start, start + axis.extent))
    cells = histogram.view(flow=True)[tuple(chosen.get(index, slice(None)) for index in range(len(histogram.axes)))]
    return _filled(axes, histogram, cells, tuple(inner))


def _filled(
    axes: list[HistogramAxis], histogram: boost_histogram.Histogram, cells: numpy.ndarray, where: tuple[slice, ...]
) -> RootHistogram:
    """Return a histogram over ``axes``: ``cells`` fill the bins ``where``, and all other bins are 0.

    The indices in ``where`` include the under- and overflow bins.
    """
    shape = tuple(axis.bins_count + 2 for axis in axes)

    def placed(values: numpy.ndarray) -> numpy.ndarray:
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
    is_weighted = "sum_of_weights" in (cells.dtype.names or ())
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
    """Return a valid directory name for each label."""
    names = SafeNames()
    return [names.give(label) for label in labels]


def axis_label(axis: object) -> str:
    """Return the user's text for an axis: the label, or the name if there is no label."""
    for text in (getattr(axis, "label", None), getattr(axis, "name", None), getattr(axis, "metadata", None)):
        # hist labels axes without a label "Axis 0", "Axis 1", ...
        if isinstance(text, str) and text.strip() and not _DEFAULT_LABEL.fullmatch(text):
            return text
    return ""
