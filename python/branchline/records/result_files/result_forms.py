"""Forms: descriptions of the Python types in a wagon's output that JSON cannot represent.

A form is JSON data itself: None if JSON represents the value fully, the name of a type (``"tuple"``, ``"float"``), or
an object with these fields:

- ``type`` is the name of the type.
- ``items`` maps indices to the forms of the items. If all items have the same form, ``every`` is that form instead.
- ``keys`` are a dict's keys if some are not strings, and ``key_form`` is their form.
- ``class`` is the name of a dataclass or accumulator.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias

import boost_histogram
import numpy

from branchline.base.checks import instance_of
from branchline.base.plain import Json
from branchline.records.result_files.outputs import in_order, kind_of, plain_scalar, unwrapped

#: The form of a value; the module's docstring describes the format.
Form: TypeAlias = "Json"

_AS_THEY_ARE = (int, str, bool, type(None))
#: Functions that create objects of other classes from their fields, by class name.
Makers = Mapping[str, Callable[[Mapping[str, object]], object]]


def form_of(value: object) -> Form:
    """Return the form of an output, for ``made_again``; a part that is stored in its own file has the form None."""
    value = unwrapped(value)
    if type(value) in _AS_THEY_ARE or kind_of(value) is not None:
        return None
    if isinstance(value, Mapping):
        return _mapping_form(value)
    if isinstance(value, AbstractSet):
        return _form("frozenset" if isinstance(value, frozenset) else "set", in_order(value))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return _form("tuple" if isinstance(value, tuple) else "list", value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields: dict[object, object] = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        inner = _mapping_form(fields) or {"type": "dict"}
        return inner | {"class": f"{type(value).__module__}.{type(value).__qualname__}"}
    if isinstance(value, numpy.generic):
        value = value.item()
    if isinstance(value, float):
        return None if math.isfinite(value) else "float"
    for scalar, name in _SCALARS.items():
        if isinstance(value, scalar):
            return name
    if isinstance(value, _ACCUMULATORS):
        return {"type": "accumulator", "class": type(value).__name__}
    return None


def _form(name: str, items: Iterable[object]) -> Form:
    """Return the form of a sequence."""
    inside = _inside([form_of(one) for one in items])
    if not inside:
        return None if name == "list" else name
    return {"type": name, **inside}


def _inside(forms: list[Form]) -> dict[str, Json]:
    """Return the field ``items`` or ``every`` for these forms; empty if all forms are None."""
    if all(one is None for one in forms):
        return {}
    if all(one == forms[0] for one in forms):
        return {"every": forms[0]}
    return {"items": {str(place): one for place, one in enumerate(forms) if one is not None}}


def _mapping_form(value: Mapping[object, object]) -> dict[str, Json] | None:
    inside = _inside([form_of(one) for one in value.values()])
    if not all(type(key) is str for key in value):
        keys = list(value)
        inside |= {"keys": [_plain_key(key) for key in keys], "key_form": _form("list", keys)}
    return {"type": "dict", **inside} if inside else None


def _plain_key(key: object) -> Json:
    return [_plain_key(one) for one in key] if isinstance(key, tuple) else plain_scalar(key)


_ACCUMULATORS = (
    boost_histogram.accumulators.Mean,
    boost_histogram.accumulators.Sum,
    boost_histogram.accumulators.WeightedMean,
    boost_histogram.accumulators.WeightedSum,
)
# datetime must precede its base class date.
_SCALARS: dict[type, str] = {
    complex: "complex",
    bytes: "bytes",
    bytearray: "bytearray",
    datetime.datetime: "datetime",
    datetime.date: "date",
    datetime.time: "time",
    decimal.Decimal: "decimal",
}
_MAKE_OF_TEXT: dict[object, Callable[[str], object]] = {
    "float": float,
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "decimal": decimal.Decimal,
}
_MAKE_OF_FIELDS: dict[object, Callable[[dict[str, str]], object]] = {
    "complex": lambda plain: complex(float(plain["real"]), float(plain["imag"])),
    "bytes": lambda plain: base64.b64decode(plain["base64"]),
    "bytearray": lambda plain: bytearray(base64.b64decode(plain["base64"])),
}
_MAKE_COLLECTION: dict[object, Callable[[list[object]], object]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}


def made_again(plain: object, form: object, part: Callable[[str], object], makers: Makers) -> object:
    """Return the value that JSON data and its form represent.

    ``part`` reads a part's file, given its name, and raises KeyError for an unknown name. ``makers`` maps names of
    classes to functions that create their objects. Raises ValueError, KeyError or TypeError if data and form do not
    match.
    """
    if isinstance(plain, dict) and plain.keys() == {"file"} and isinstance(plain["file"], str):
        try:
            return part(plain["file"])
        except KeyError:
            pass  # not a part, but a dict in the wagon's output with the key "file"
    described: Mapping[str, object] = form if isinstance(form, dict) else {"type": form}
    name = described["type"]
    if name in _MAKE_OF_TEXT:
        return _MAKE_OF_TEXT[name](instance_of(plain, str))
    if name in _MAKE_OF_FIELDS:
        return _MAKE_OF_FIELDS[name](instance_of(plain, dict))
    if name == "accumulator":
        return _accumulator(instance_of(described["class"], str), instance_of(plain, dict)["fields"])
    if isinstance(plain, dict):
        return _mapping(plain, described, part, makers)
    if isinstance(plain, list):
        items = [made_again(one, _inner(described, place), part, makers) for place, one in enumerate(plain)]
        return _MAKE_COLLECTION[name or "list"](items)
    return plain


def _inner(form: Mapping[str, object], place: int) -> object:
    return form["every"] if "every" in form else instance_of(form.get("items", {}), dict).get(str(place))


def _mapping(
    plain: Mapping[str, object], form: Mapping[str, object], part: Callable[[str], object], makers: Makers
) -> object:
    keys: list[object] = list(plain)
    values = list(plain.values())
    if "keys" in form:
        keys = instance_of(made_again(form["keys"], form["key_form"], part, makers), list)
        # If different keys have the same string, such as 1 and "1", the mapping is stored as a list of key-value pairs.
        if len(keys) != len(values):
            values = [value for _, value in instance_of(plain["pairs"], list)]
    items = [made_again(value, _inner(form, place), part, makers) for place, value in enumerate(values)]
    made = dict(zip(keys, items, strict=True))
    kind = form.get("class")
    if isinstance(kind, str) and kind in makers:
        return makers[kind]({str(key): value for key, value in made.items()})
    return made


def _accumulator(name: str, fields: Mapping[str, float]) -> object:
    """Return an accumulator of boost_histogram, such as the content of a weighted histogram's bin."""
    values = {key: float(value) for key, value in fields.items()}
    kind = getattr(boost_histogram.accumulators, name)
    if name == "Sum":
        return kind(values["value"])
    if name == "WeightedSum":
        return kind(values["value"], values["variance"])
    if name == "Mean":
        return kind(values["count"], values["value"], values["variance"])
    return kind(values["sum_of_weights"], values["sum_of_weights_squared"], values["value"], values["variance"])
