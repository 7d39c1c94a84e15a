"""Branches that count the elements of lists: made with these, or given beside them, as arrays that were read are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import awkward as ak
import numpy as np

from branchline.errors import OptionError
from branchline.writing.recreate.values import BranchValues, Naming, branches_of

Columns = Mapping[str, ak.contents.Content]


def given_counters(columns: Columns, naming: Naming) -> list[str]:
    """The columns of whole numbers that have the name of a counter of others, and are written with these."""
    made = [one for name, layout in columns.items() for one in branches_of(name, layout[:0], naming)]
    counters = {one.counter for one in made}
    return [name for name, layout in columns.items() if name in counters and _is_whole(layout)]


def _is_whole(layout: ak.contents.Content) -> bool:
    return bool(layout.is_numpy and layout.purelist_depth == 1 and np.dtype(layout.dtype).kind in "iu")


def check_counters(filled: Sequence[BranchValues], given: Columns, path: str, file_path: str) -> None:
    """Raises OptionError for lists of different lengths that one branch is to count, and for counters among ``given``
    that are not these lengths.
    """
    counted: dict[str, BranchValues] = {}
    for one in filled:
        if one.counter is None:
            continue
        first = counted.setdefault(one.counter, one)
        # Both begin at 0: `branches_of` made them so.
        if first is not one and not np.array_equal(first.layout.offsets.data, one.layout.offsets.data):
            raise OptionError(
                f"tree {path}: {one.counter} cannot count both {first.name} and {one.name}: their lengths disagree",
                path=file_path,
                hint="give them counters of their own, by counter_name",
            )
    for name, layout in given.items():
        if not _is_whole(layout):
            hint = f"leave {name} out, which is written with the lists"
            what = f"{name} has no whole number for each entry, as the counter of {counted[name].name}"
            raise OptionError(f"tree {path}: {what}", path=file_path, hint=hint)
        lengths = np.diff(counted[name].layout.offsets.data)
        numbers = np.asarray(ak.Array(layout))
        if not np.array_equal(numbers, lengths):
            row = int(np.argmax(numbers != lengths))
            counts = f"{name} is {numbers[row]} in row {row}, where {counted[name].name} has {lengths[row]} elements"
            what = f"{counts}: they disagree"
            hint = f"leave {name} out, which is written with the lists, or rename it"
            raise OptionError(f"tree {path}: {what}", path=file_path, hint=hint)


def without(columns: Columns, names: Collection[str]) -> dict[str, ak.contents.Content]:
    """The columns but for these."""
    return {name: layout for name, layout in columns.items() if name not in names}
