"""What Python had where a wagon's JSON file has something else, and the values made again by it.

A form is JSON, too: None where JSON says it all, the name of a type (``"tuple"``, ``"float"``), or an object with
``type`` and what is inside: ``items`` are forms by their place, ``every`` is the one form of all, ``keys`` are the keys
of a dict that are no texts, with ``key_form``.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

import boost_histogram
import numpy

from branchline.records.result_files.outputs import in_order, kind_of, plain_scalar, unwrapped

#: What JSON can hold.
Form: TypeAlias = Any

_AS_THEY_ARE = (int, str, bool, type(None))
#: Makes values of classes that are no plain data: by their names, from their fields.
Makers = Mapping[str, Callable[[Mapping[str, Any]], Any]]


def form_of(value: Any) -> Form:
    """Return the form of an output, for ``made_again``; parts with files of their own have the form None."""
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
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        inner: Form = _mapping_form(fields) or {"type": "dict"}
        return inner | {"class": f"{type(value).__module__}.{type(value).__qualname__}"}
    return _scalar_form(value)


def _form(name: str, items: Iterable[Any]) -> Any:
    """Return the form of a sequence."""
    inside = _inside([form_of(one) for one in items])
    if not inside:
        return None if name == "list" else name
    return {"type": name, **inside}


def _inside(forms: list[Any]) -> Form:
    """Return the forms by their place, or as one if all are the same."""
    if all(one is None for one in forms):
        return {}
    if all(one == forms[0] for one in forms):
        return {"every": forms[0]}
    return {"items": {str(place): one for place, one in enumerate(forms) if one is not None}}


def _mapping_form(value: Mapping[Any, Any]) -> Any:
    inside = _inside([form_of(one) for one in value.values()])
    if not all(type(key) is str for key in value):
        keys = list(value)
        inside |= {"keys": [_plain_key(key) for key in keys], "key_form": _form("list", keys)}
    return {"type": "dict", **inside} if inside else None


def _plain_key(key: Any) -> Any:
    return [_plain_key(one) for one in key] if isinstance(key, tuple) else plain_scalar(key)


def _scalar_form(value: Any) -> Any:
    if isinstance(value, numpy.generic):
        value = value.item()
    if isinstance(value, float):
        return None if math.isfinite(value) else "float"
    for kind, name in _SCALARS.items():
        if isinstance(value, kind):
            return name
    if isinstance(value, _ACCUMULATORS):
        return {"type": "accumulator", "class": type(value).__name__}
    return None


_ACCUMULATORS = (
    boost_histogram.accumulators.Mean,
    boost_histogram.accumulators.Sum,
    boost_histogram.accumulators.WeightedMean,
    boost_histogram.accumulators.WeightedSum,
)
# A datetime is a date, too.
_SCALARS: dict[type, str] = {
    complex: "complex",
    bytes: "bytes",
    bytearray: "bytearray",
    datetime.datetime: "datetime",
    datetime.date: "date",
    datetime.time: "time",
    decimal.Decimal: "decimal",
}
_MAKE_SCALAR: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "complex": lambda plain: complex(float(plain["real"]), float(plain["imag"])),
    "bytes": lambda plain: base64.b64decode(plain["base64"]),
    "bytearray": lambda plain: bytearray(base64.b64decode(plain["base64"])),
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "decimal": decimal.Decimal,
}
_MAKE_COLLECTION: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}


def made_again(plain: Any, form: Any, part: Callable[[str], Any], makers: Makers) -> Any:
    """Return the value that JSON and its form stand for.

    ``part`` reads the file that stands in the place of a part, by its name, and raises KeyError for a name that is
    none. ``makers`` make values of classes that are no plain data. Raises ValueError, KeyError or TypeError where the
    two do not belong together.
    """
    if isinstance(plain, dict) and plain.keys() == {"file"} and isinstance(plain["file"], str):
        try:
            return part(plain["file"])
        except KeyError:
            pass  # The wagon's own dict.
    described: Form = form if isinstance(form, dict) else {"type": form}
    name = described["type"]
    if name in _MAKE_SCALAR:
        return _MAKE_SCALAR[name](plain)
    if name == "accumulator":
        return _accumulator(described["class"], plain["fields"])
    if isinstance(plain, dict):
        return _mapping(plain, described, part, makers)
    if isinstance(plain, list):
        items = [made_again(one, _inner(described, place), part, makers) for place, one in enumerate(plain)]
        return _MAKE_COLLECTION[name or "list"](items)
    return plain


def _inner(form: Mapping[str, Any], place: int) -> Any:
    return form["every"] if "every" in form else form.get("items", {}).get(str(place))


def _mapping(plain: Mapping[str, Any], form: Form, part: Callable[[str], Any], makers: Makers) -> Any:
    keys: list[Any] = list(plain)
    values: list[Any] = list(plain.values())
    if "keys" in form:
        keys = made_again(form["keys"], form["key_form"], part, makers)
        # Two keys with one text, as 1 and "1", are written as pairs.
        if len(keys) != len(values):
            values = [value for _, value in plain["pairs"]]
    items = [made_again(value, _inner(form, place), part, makers) for place, value in enumerate(values)]
    made = dict(zip(keys, items, strict=True))
    return makers[form["class"]](made) if form.get("class") in makers else made


def _accumulator(name: str, fields: Mapping[str, Any]) -> Any:
    """Return an accumulator of boost_histogram, as a bin of a weighted histogram is."""
    values = {key: float(value) for key, value in fields.items()}
    kind: Any = getattr(boost_histogram.accumulators, name)
    if name == "Sum":
        return kind(values["value"])
    if name == "WeightedSum":
        return kind(values["value"], values["variance"])
    if name == "Mean":
        return kind(values["count"], values["value"], values["variance"])
    return kind(values["sum_of_weights"], values["sum_of_weights_squared"], values["value"], values["variance"])
