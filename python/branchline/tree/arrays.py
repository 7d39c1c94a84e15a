"""Columns of the engine as arrays of awkward, NumPy, Arrow and pandas.

A column is a nested tuple of buffers: ``("flat", dtype, values)``, ``("regular", size, content)``,
``("list", offsets, content)``, ``("text", offsets, bytes)``, ``("record", names, contents, count, class name)``,
``("tuple", contents, count)``, ``("option", valid, content)`` or ``("union", tags, contents)``. Numbers are native,
offsets are 64-bit, ``valid`` is a byte for each value, 1 where it is there, and ``content`` has only those; ``tags`` is
a byte for each value, and each of ``contents`` has the values with its tag. Nothing is copied: an array keeps the
buffers alive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import awkward as ak
import numpy as np

from branchline.errors import BranchlineError

Library = Literal["ak", "np", "arrow", "pd"]
LIBRARIES = ("ak", "np", "arrow", "pd")
# Told where their buffers live, awkward's layouts need not find it out for every column again.
BACKEND = ak.contents.NumpyArray(np.empty(0)).backend
TEXT = {"__array__": "string"}
CHARACTERS = {"__array__": "char"}


def check_library(library: str) -> None:
    """Raises BranchlineError for a library that arrays cannot be had from."""
    if library not in LIBRARIES:
        raise BranchlineError(f"there is no library {library!r}", hint='use "ak", "np", "arrow" or "pd"')


def layout_of(column: Any) -> ak.contents.Content:
    """The awkward layout of a column."""
    kind = column[0]
    if kind == "flat":
        return ak.contents.NumpyArray(np.frombuffer(column[2], dtype=column[1]), backend=BACKEND)
    if kind == "list":
        return ak.contents.ListOffsetArray(_offsets(column[1]), layout_of(column[2]))
    if kind == "regular":
        return _regular(column)
    if kind == "text":
        letters = np.frombuffer(column[2], dtype="u1")
        characters = ak.contents.NumpyArray(letters, parameters=CHARACTERS, backend=BACKEND)
        return ak.contents.ListOffsetArray(_offsets(column[1]), characters, parameters=TEXT)
    if kind == "option":
        return _option(column)
    if kind == "union":
        return _union(column)
    if kind == "tuple":
        return ak.contents.RecordArray([layout_of(item) for item in column[1]], None, length=column[2])
    _, names, contents, count, class_name = column
    parameters = {"__record__": class_name} if class_name else None
    members = [layout_of(content) for content in contents]
    return ak.contents.RecordArray(members, list(names), length=count, parameters=parameters, backend=BACKEND)


def _option(column: Any) -> ak.contents.Content:
    is_there = np.frombuffer(column[1], dtype="u1")
    index = np.where(is_there, np.cumsum(is_there, dtype="i8") - 1, -1)
    return ak.contents.IndexedOptionArray(ak.index.Index64(index), layout_of(column[2]))


def _union(column: Any) -> ak.contents.Content:
    tags = np.frombuffer(column[1], dtype="i1")
    index = np.empty(len(tags), dtype="i8")
    for tag in range(len(column[2])):
        of_tag = tags == tag
        index[of_tag] = np.arange(np.count_nonzero(of_tag))
    contents = [layout_of(content) for content in column[2]]
    return ak.contents.UnionArray(ak.index.Index8(tags), ak.index.Index64(index), contents)


def _offsets(buffer: Any) -> ak.index.Index64:
    return ak.index.Index64(np.frombuffer(buffer, dtype="i8"), nplike=BACKEND.nplike)


def _regular(column: Any) -> ak.contents.Content:
    """Fixed arrays of numbers stay one block of NumPy; others are regular lists."""
    shape: list[int] = []
    while column[0] == "regular":
        shape.append(column[1])
        column = column[2]
    if column[0] != "flat":
        content = layout_of(column)
        for size in reversed(shape):
            content = ak.contents.RegularArray(content, size)
        return content
    values = np.frombuffer(column[2], dtype=column[1])
    return ak.contents.NumpyArray(values.reshape((-1, *shape)), backend=BACKEND)


def numpy_of(column: Any) -> np.ndarray[Any, Any]:
    """A NumPy array: of numbers where that can be, structured for a leaf list, else of one object per entry."""
    kind = column[0]
    if kind == "flat":
        return np.frombuffer(column[2], dtype=column[1])
    if kind == "regular" and _is_flat(column):
        return np.asarray(_regular(column).data)
    if kind == "record" and column[2] and all(_is_flat(content) for content in column[2]):
        return _structured(column)
    entries = [np.asarray(entry) if kind == "list" and _is_flat(column[2]) else entry for entry in _entries(column)]
    array = np.empty(len(entries), dtype=object)
    for index, entry in enumerate(entries):
        array[index] = entry
    return array


def _is_flat(column: Any) -> bool:
    """Whether it is numbers or fixed arrays of them."""
    while column[0] == "regular":
        column = column[2]
    return bool(column[0] == "flat")


def _entries(column: Any) -> list[Any]:
    if column[0] == "list" and _is_flat(column[2]):
        offsets = np.frombuffer(column[1], dtype="i8")
        return np.split(numpy_of(column[2]), offsets[1:-1]) if len(offsets) > 1 else []
    return list(ak.to_list(ak.Array(layout_of(column))))


def _structured(column: Any) -> np.ndarray[Any, Any]:
    members = {name: numpy_of(content) for name, content in zip(column[1], column[2], strict=True)}
    dtype = [(name, member.dtype, member.shape[1:]) for name, member in members.items()]
    array = np.empty(len(next(iter(members.values()))), dtype=dtype)
    for name, member in members.items():
        array[name] = member
    return array


def array_of(column: Any, library: str) -> Any:
    """One column as an array of this library; with pandas a Series."""
    check_library(library)
    if library == "np":
        return numpy_of(column)
    array = ak.Array(layout_of(column))
    if library == "arrow":
        return ak.to_arrow(array, extensionarray=False)
    if library == "pd":
        return _series(column, array)
    return array


def _series(column: Any, array: ak.Array) -> Any:
    import pandas

    if column[0] == "flat":
        return pandas.Series(numpy_of(column))
    if column[0] == "record" and all(_is_flat(content) for content in column[2]):
        return ak.to_dataframe(array)
    return pandas.Series(list(array) if column[0] != "text" else ak.to_list(array))


def group_of(columns: Mapping[str, Any], entries_count: int, library: str) -> Any:
    """Several columns together: an awkward record array, a dict of NumPy arrays, an Arrow table or a pandas frame."""
    check_library(library)
    if library == "np":
        return {name: numpy_of(column) for name, column in columns.items()}
    if library == "pd":
        return _frame(columns)
    contents = [layout_of(column) for column in columns.values()]
    record = ak.Array(ak.contents.RecordArray(contents, list(columns), length=entries_count, backend=BACKEND))
    return ak.to_arrow_table(record, extensionarray=False) if library == "arrow" else record


def _frame(columns: Mapping[str, Any]) -> Any:
    import pandas

    series: dict[str, Any] = {}
    for name, column in columns.items():
        one = array_of(column, "pd")
        if isinstance(one, pandas.DataFrame):
            series |= {f"{name}.{member}": one[member] for member in one.columns}
        else:
            series[name] = one
    return pandas.DataFrame(series)


def join(parts: Sequence[Any], library: str) -> Any:
    """The parts of an array or group, one behind the other."""
    if len(parts) == 1:
        return parts[0]
    if library == "ak":
        return ak.concatenate(parts)
    if library == "np":
        if isinstance(parts[0], dict):
            return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return np.concatenate(parts)
    if library == "arrow":
        import pyarrow

        is_table = isinstance(parts[0], pyarrow.Table)
        return pyarrow.concat_tables(parts) if is_table else pyarrow.concat_arrays(parts)
    import pandas

    return pandas.concat(parts, ignore_index=True)
