"""Compare the forms of arrays, and find the first difference between two values."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

import awkward as ak
import numpy as np
from tests.peers.generator.collections_of_root import Objects
from tests.peers.generator.member_kinds import Enumeration, NeverNull
from tests.peers.generator.ntuple_kinds import Atomic, Maybe, Variant
from tests.peers.generator.values import (
    Bits,
    Class,
    Container,
    CountedArray,
    FixedArray,
    Kind,
    Number,
    Packed,
    Pair,
    Pointer,
    Text,
)


def form_of(layout: Any) -> str:
    """Return the form of an array in the notation of `Kind.form`, without the outermost length. `?` stands for optional
    and union types.
    """
    if layout.is_option or layout.is_union:
        return "?"
    if layout.is_indexed:
        return form_of(layout.project())
    if layout.is_unknown:
        return "unknown"
    if layout.parameter("__array__") in ("string", "bytestring"):
        return "string"
    if layout.is_record:
        return _form_of_record(layout)
    if layout.is_numpy:
        data = np.asarray(layout.data)
        number = "b1" if data.dtype.kind == "b" else f"{data.dtype.kind}{data.dtype.itemsize}"
        return "".join(f"{extent}*" for extent in data.shape[1:]) + number
    if layout.is_regular:
        return f"{layout.size}*{form_of(layout.content)}"
    return f"var*{form_of(layout.content)}"


def _form_of_record(layout: Any) -> str:
    """Return the form of a record. Pairs and tuples may be tuples, or records whose members are named by position."""
    if layout.fields in (["first", "second"], [f"_{i}" for i in range(len(layout.contents))]) or layout.is_tuple:
        return f"({','.join(form_of(content) for content in layout.contents)})"
    return "{" + ",".join(sorted(f"{name}:{form_of(layout.content(name))}" for name in layout.fields)) + "}"


@singledispatch
def difference(kind: Kind, got: Any, wanted: Any, place: str = "") -> str | None:
    """Describe the first difference between two values of a kind; None if they are equal."""
    return None if same(got, wanted) else _is_not(got, wanted, place)


@difference.register
def _(kind: Class, got: Any, wanted: Any, place: str = "") -> str | None:
    if not isinstance(got, dict) or got.keys() != wanted.keys():
        keys = sorted(got) if isinstance(got, dict) else got
        return f"{place or 'value'} has members {shown(keys)}, not {sorted(wanted)}"
    members = {member.name: member.kind for member in kind.all_members()}
    found = (difference(members[name], got[name], wanted[name], f"{place}.{name}") for name in wanted)
    return next((text for text in found if text), None)


@difference.register
def _(kind: Pointer, got: Any, wanted: Any, place: str = "") -> str | None:
    if got is None or wanted is None:
        return None if got is wanted else _is_not(got, wanted, place)
    return difference(next(one for one in kind.classes if fits(one, wanted)), got, wanted, place)


@difference.register
def _(kind: Maybe, got: Any, wanted: Any, place: str = "") -> str | None:
    if got is None or wanted is None:
        return None if got is wanted else _is_not(got, wanted, place)
    return difference(kind.of, got, wanted, place)


@difference.register
def _(kind: Variant, got: Any, wanted: Any, place: str = "") -> str | None:
    if wanted is None and not fits(kind, None):
        return None if got is None else f"{place or 'value'} is {got!r}, not nothing"
    # The value does not tell its alternative, so compare it with all alternatives that fit.
    found = [difference(one, got, wanted, place) for one in kind.kinds if fits(one, wanted)]
    return None if None in found else found[0]


@difference.register(Atomic)
@difference.register(NeverNull)
def _(kind: Atomic | NeverNull, got: Any, wanted: Any, place: str = "") -> str | None:
    return difference(kind.of, got, wanted, place)


@difference.register
def _(kind: Enumeration, got: Any, wanted: Any, place: str = "") -> str | None:
    # Files do not say whether a 32-bit or 64-bit enumeration is signed.
    bits = {"u4": 32, "u8": 64}.get(kind.dtype)
    is_same = type(got) is int and (got == wanted or (bits is not None and got + 2**bits == wanted))
    return None if is_same else _is_not(got, wanted, place)


@difference.register
def _(kind: Objects, got: Any, wanted: Any, place: str = "") -> str | None:
    return _of_list(kind.pointer, got, wanted, place)


@difference.register
def _(kind: CountedArray, got: Any, wanted: Any, place: str = "") -> str | None:
    return _of_list(kind.of, got, wanted, place)


@difference.register
def _(kind: Container, got: Any, wanted: Any, place: str = "") -> str | None:
    # ROOT stores only the lower half of 64-bit enumerations, and sorts the elements of sets by this half.
    is_halved = isinstance(kind.of, Enumeration) and kind.of.dtype.endswith("8") and "set" in kind.template
    if (kind.is_unordered or is_halved) and isinstance(got, list):
        got, wanted = sorted(got, key=_sorted_by), sorted(wanted, key=_sorted_by)
    return _of_list(kind.element, got, wanted, place)


@difference.register
def _(kind: FixedArray, got: Any, wanted: Any, place: str = "") -> str | None:
    return _of_list(_inner(kind), got, wanted, place)


@difference.register
def _(kind: Pair, got: Any, wanted: Any, place: str = "") -> str | None:
    got = tuple(got.values()) if isinstance(got, dict) else got
    if not isinstance(got, tuple) or len(got) != len(wanted):
        return _is_not(got, wanted, place)
    parts = zip(kind.items, got, wanted, strict=True)
    found = (difference(item, *both, f"{place}.{i}") for i, (item, *both) in enumerate(parts))
    return next((text for text in found if text), None)


def _is_not(got: Any, wanted: Any, place: str) -> str:
    return f"{place or 'value'} is {shown(got)}, not {shown(wanted)}"


def _of_list(inner: Kind, got: Any, wanted: list[Any], place: str) -> str | None:
    if not isinstance(got, list) or len(got) != len(wanted):
        return _is_not(got, wanted, place)
    found = (difference(inner, *both, f"{place}[{i}]") for i, both in enumerate(zip(got, wanted, strict=True)))
    return next((text for text in found if text), None)


def _inner(kind: FixedArray) -> Kind:
    return FixedArray(kind.of, kind.extents[1:]) if len(kind.extents) > 1 else kind.of


def _sorted_by(value: Any) -> tuple[str, str]:
    """Return a sort key. Nested containers may be unordered, too, so the order of their elements only matters if the
    keys are equal otherwise.
    """
    return _key(value, is_ordered=False), _key(value, is_ordered=True)


def _key(value: Any, *, is_ordered: bool) -> str:
    """Return a key of a value. A record and the tuple of its values have the same key."""
    if isinstance(value, dict):
        return _key(tuple(value.values()), is_ordered=is_ordered)
    if isinstance(value, tuple | list):
        parts = [_key(one, is_ordered=is_ordered) for one in value]
        return f"({','.join(parts if is_ordered or isinstance(value, tuple) else sorted(parts))})"
    # Use the lower 32 bits, because files do not say whether enumerations are signed.
    return repr(value % 2**32 if isinstance(value, int) else value)


@singledispatch
def fits(kind: Kind, value: Any) -> bool:
    """Return whether a value may be of a kind."""
    return isinstance(value, list)


@fits.register
def _(kind: Class, value: Any) -> bool:
    members = {member.name: member.kind for member in kind.all_members()}
    is_of = isinstance(value, dict) and value.keys() == members.keys()
    return is_of and all(fits(members[name], one) for name, one in value.items())


@fits.register
def _(kind: Pair, value: Any) -> bool:
    is_of = isinstance(value, tuple) and len(value) == len(kind.items)
    return is_of and all(fits(*both) for both in zip(kind.items, value, strict=True))


@fits.register
def _(kind: Maybe, value: Any) -> bool:
    return value is None or fits(kind.of, value)


@fits.register
def _(kind: Variant, value: Any) -> bool:
    return any(fits(one, value) for one in kind.kinds)


@fits.register
def _(kind: Pointer, value: Any) -> bool:
    return value is None or any(fits(one, value) for one in kind.classes)


@fits.register
def _(kind: Bits, value: Any) -> bool:
    return isinstance(value, list) and len(value) == kind.size and all(isinstance(bit, bool) for bit in value)


@fits.register
def _(kind: FixedArray, value: Any) -> bool:
    return isinstance(value, list) and len(value) == kind.extents[0] and all(fits(_inner(kind), one) for one in value)


@fits.register
def _(kind: Container, value: Any) -> bool:
    return isinstance(value, list) and all(fits(kind.element, one) for one in value)


@fits.register
def _(kind: Text, value: Any) -> bool:
    return isinstance(value, str)


@fits.register(Atomic)
@fits.register(NeverNull)
def _(kind: Atomic | NeverNull, value: Any) -> bool:
    return fits(kind.of, value)


@fits.register(Number)
@fits.register(Packed)
def _(kind: Number | Packed, value: Any) -> bool:
    return type(value) is {"?": bool, "f": float, "d": float}.get(kind.code, int)


def same(got: Any, wanted: Any) -> bool:
    """Return whether two numbers or strings are equal. NaN equals NaN, and 0.0 differs from -0.0."""
    if isinstance(got, float) and isinstance(wanted, float):
        if math.isnan(got) or math.isnan(wanted):
            return math.isnan(got) and math.isnan(wanted)
        return got == wanted and math.copysign(1, got) == math.copysign(1, wanted)
    return type(got) is type(wanted) and got == wanted


def shown(value: Any) -> str:
    """Return the text of a value, truncated if it is long."""
    text = repr(value)
    return text if len(text) <= 120 else text[:120] + "..."


def first_difference(kind: Kind, array: ak.Array, wanted: list[Any]) -> str | None:
    """Describe the first difference between an array and its expected values: its form, or an entry. None if they are
    equal.
    """
    if len(array) != len(wanted):
        return f"{len(array)} entries, not {len(wanted)}"
    form = kind.form()
    if not any(mark in form for mark in ("?", "bits")):
        # Branchline returns floats that were stored as half precision with 16 bits.
        found_form = form_of(ak.to_layout(array)).replace("f2", "f4")
        if "unknown" not in found_form and "?" not in found_form and found_form != form:
            return f"its form is {found_form}, not {form}"
    for entry, (got, value) in enumerate(zip(array.to_list(), wanted, strict=True)):
        found = difference(kind, got, value)
        if found is not None:
            return f"entry {entry}: {found}"
    return None
