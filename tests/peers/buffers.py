"""Bit by bit comparison of awkward arrays, independent of their layout classes."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np


def parts(layout: Any, place: str = "") -> list[tuple[str, str, bytes]]:
    """Return the buffers of the values, each with its path and its kind."""
    if layout.is_indexed and not layout.is_option:
        return parts(layout.project(), place)
    if layout.is_numpy:
        data = np.ascontiguousarray(layout.data)
        if data.ndim > 1:
            return parts(layout.to_RegularArray(), place)
        return [(place, str(data.dtype.newbyteorder("=")), data.astype(data.dtype.newbyteorder("<")).tobytes())]
    if layout.is_record:
        fields = sorted(layout.fields)
        return [part for f in fields for part in parts(layout.content(f)[: layout.length], f"{place}.{f}")]
    if layout.is_regular:
        inner = layout.content[: layout.length * layout.size]
        return [(place, f"regular {layout.size}", b""), *parts(inner, f"{place}[]")]
    if layout.is_list:
        flat = layout.to_ListOffsetArray64(True)
        offsets = np.asarray(flat.offsets.data)
        kind = "string" if layout.parameter("__array__") in ("string", "bytestring") else "list"
        inner = flat.content[: int(offsets[-1])]
        if kind == "string":
            return [(place, kind, offsets.tobytes()), (place, "bytes", np.asarray(inner.data).tobytes())]
        return [(place, kind, offsets.tobytes()), *parts(inner, f"{place}[]")]
    msg = f"{type(layout).__name__} is not one of the kinds compared here"
    raise TypeError(msg)


def differences(got: Any, wanted: Any) -> list[str]:
    """Describe the differences between two arrays. The list is empty if all bits of all values are equal."""
    one, two = (ak.to_layout(array) for array in (got, wanted))
    if one.length != two.length:
        return [f"{one.length} entries, not {two.length}"]
    found = []
    for (place, kind, data), (place_wanted, kind_wanted, data_wanted) in zip(parts(one), parts(two), strict=False):
        if (place, kind) != (place_wanted, kind_wanted):
            return [f"{place or 'top'}: {kind}, not {kind_wanted} at {place_wanted or 'top'}"]
        if data != data_wanted:
            found.append(f"{place or 'top'}: {kind} differs")
    return found
