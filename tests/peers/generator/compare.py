"""Forms of arrays, and where two values differ."""

from __future__ import annotations

import math
from typing import Any

import awkward as ak
import numpy as np
from tests.peers.generator.collections_of_root import Clones, Objects
from tests.peers.generator.values import Bits, Class, Container, FixedArray, Kind, Pair, Pointer


def form_of(layout: Any) -> str:
    """The form of an array without its outermost length, as `Kind.form` writes it; `?` within pointers."""
    if layout.is_option or layout.is_union:
        return "?"
    if layout.is_indexed:
        return form_of(layout.project())
    if layout.is_unknown:
        return "unknown"
    if layout.parameter("__array__") in ("string", "bytestring"):
        return "string"
    if layout.is_record and layout.is_tuple:
        return f"({','.join(form_of(content) for content in layout.contents)})"
    if layout.is_record:
        return "{" + ",".join(sorted(f"{name}:{form_of(layout.content(name))}" for name in layout.fields)) + "}"
    if layout.is_numpy:
        data = np.asarray(layout.data)
        number = "b1" if data.dtype.kind == "b" else f"{data.dtype.kind}{data.dtype.itemsize}"
        return "".join(f"{extent}*" for extent in data.shape[1:]) + number
    if layout.is_regular:
        return f"{layout.size}*{form_of(layout.content)}"
    return f"var*{form_of(layout.content)}"


def difference(kind: Kind, got: Any, wanted: Any, place: str = "") -> str | None:
    """The first place where two values of a kind differ, in words."""
    if isinstance(kind, Class):
        return _of_class(kind, got, wanted, place)
    if isinstance(kind, Pointer):
        return _of_pointer(kind, got, wanted, place)
    if isinstance(kind, Objects):
        return _of_list(kind.pointer, got, wanted, place)
    if isinstance(kind, Clones):
        return _of_list(kind.of, got, wanted, place)
    if isinstance(kind, Container):
        if kind.is_unordered and isinstance(got, list):
            return _of_list(kind.element, sorted(got, key=repr), sorted(wanted, key=repr), place)
        return _of_list(kind.element, got, wanted, place)
    if isinstance(kind, FixedArray):
        inner = FixedArray(kind.of, kind.extents[1:]) if len(kind.extents) > 1 else kind.of
        return _of_list(inner, got, wanted, place)
    if isinstance(kind, Pair):
        got = tuple(got.values()) if isinstance(got, dict) else got
        if not isinstance(got, tuple) or len(got) != len(wanted):
            return f"{place or 'value'} is {shown(got)}, not {shown(wanted)}"
        parts = zip(kind.items, got, wanted, strict=True)
        found = (difference(item, *both, f"{place}.{i}") for i, (item, *both) in enumerate(parts))
        return next((text for text in found if text), None)
    if isinstance(kind, Bits):
        return (
            None if [bool(bit) for bit in got] == wanted else f"{place or 'value'} is {shown(got)}, not {shown(wanted)}"
        )
    return None if same(got, wanted) else f"{place or 'value'} is {shown(got)}, not {shown(wanted)}"


def _of_class(kind: Class, got: Any, wanted: Any, place: str) -> str | None:
    if not isinstance(got, dict) or got.keys() != wanted.keys():
        keys = sorted(got) if isinstance(got, dict) else got
        return f"{place or 'value'} has members {shown(keys)}, not {sorted(wanted)}"
    members = {member.name: member.kind for member in kind.all_members()}
    found = (difference(members[name], got[name], wanted[name], f"{place}.{name}") for name in wanted)
    return next((text for text in found if text), None)


def _of_pointer(kind: Pointer, got: Any, wanted: Any, place: str) -> str | None:
    if got is None or wanted is None:
        return None if got is wanted else f"{place or 'value'} is {shown(got)}, not {shown(wanted)}"
    one = next(c for c in kind.classes if {member.name for member in c.all_members()} == wanted.keys())
    return _of_class(one, got, wanted, place)


def _of_list(inner: Kind, got: Any, wanted: list[Any], place: str) -> str | None:
    if not isinstance(got, list) or len(got) != len(wanted):
        return f"{place or 'value'} is {shown(got)}, not {shown(wanted)}"
    found = (difference(inner, *both, f"{place}[{i}]") for i, both in enumerate(zip(got, wanted, strict=True)))
    return next((text for text in found if text), None)


def same(got: Any, wanted: Any) -> bool:
    """Whether two numbers or texts are the same: zeros by their sign, NaN as NaN."""
    if isinstance(got, float) and isinstance(wanted, float):
        if math.isnan(got) or math.isnan(wanted):
            return math.isnan(got) and math.isnan(wanted)
        return got == wanted and math.copysign(1, got) == math.copysign(1, wanted)
    return type(got) is type(wanted) and got == wanted


def shown(value: Any) -> str:
    """A value, cut where it gets long."""
    text = repr(value)
    return text if len(text) <= 120 else text[:120] + "..."


def first_difference(kind: Kind, array: ak.Array, wanted: list[Any]) -> str | None:
    """What is wrong with an array whose entries should have these values: its form, or its first wrong entry."""
    if len(array) != len(wanted):
        return f"{len(array)} entries, not {len(wanted)}"
    form = kind.form()
    if not any(mark in form for mark in ("?", "bits")):
        found_form = form_of(ak.to_layout(array))
        if "unknown" not in found_form and "?" not in found_form and tuples(found_form) != tuples(form):
            return f"its form is {found_form}, not {form}"
    for entry, (got, value) in enumerate(zip(array.to_list(), wanted, strict=True)):
        found = difference(kind, got, value)
        if found is not None:
            return f"entry {entry}: {found}"
    return None


def tuples(form: str) -> str:
    """Pairs as tuples, whether they are that or records of `first` and `second`."""
    out = form
    while (start := out.find("{first:")) >= 0:
        depth, stop, comma = 0, start, 0
        for stop in range(start, len(out)):
            depth += (out[stop] in "{(") - (out[stop] in "})")
            comma = stop if depth == 1 and out.startswith(",second:", stop) else comma
            if depth == 0:
                break
        first, second = out[start + 7 : comma], out[comma + 8 : stop]
        out = f"{out[:start]}({first},{second}){out[stop + 1 :]}"
    return out
