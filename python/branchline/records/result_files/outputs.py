"""Splits wagon outputs into histograms, arrays, tables and plain data."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import awkward
import boost_histogram
import numpy

from branchline.base.plain import Json
from branchline.writing.objects.root_names import SafeNames

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

#: Kinds of parts of an output; the kind determines the file format.
HISTOGRAM, ARRAY, COLUMNS, TABLE = "histogram", "array", "columns", "table"


@dataclasses.dataclass
class Part:
    """A part of a wagon's output that is stored in its own file.

    ``key`` is the sequence of keys in the wagon's output that leads to the part. ``path`` is the same sequence in a
    form that is safe for file names, preceded by the wagon's name.
    """

    wagon: str
    key: tuple[str, ...]
    path: tuple[str, ...]
    kind: str
    value: object

    @property
    def title(self) -> str:
        """The keys that lead to the part in the wagon's output, joined with slashes for display."""
        return "/".join(self.key)


#: Types that JSON can represent unchanged; float is missing because infinite values need a check.
_PLAIN_TYPES = (int, str, bool, type(None))

#: A function that stores a part and returns a reference, which replaces the part in the plain data.
Store = Callable[[Part], Json]


def take_apart(wagon: str, output: object, store: Store, path: tuple[str, ...]) -> Json:
    """Return ``output`` as JSON data; parts that need a file of their own are passed to ``store``."""
    return _Walk(wagon, store).plain(output, (), path)


class _Walk:
    """A traversal of a wagon's output."""

    def __init__(self, wagon: str, store: Store) -> None:
        self._wagon = wagon
        self._store = store

    def plain(self, value: object, key: tuple[str, ...], path: tuple[str, ...]) -> Json:
        """Return ``value`` as JSON data.

        Histograms, arrays and similar objects are passed to the store, and replaced by the reference that the store
        returns.
        """
        value = unwrapped(value)
        kind = kind_of(value)
        if kind is not None:
            return self._store(Part(self._wagon, key, path, kind, value))
        if isinstance(value, Mapping):
            return self._mapping(value, key, path)
        if isinstance(value, AbstractSet):
            return [self.plain(item, key, path) for item in in_order(value)]
        if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
            if all(type(item) in _PLAIN_TYPES for item in value):
                return list(value)
            names = SafeNames()
            return [
                self.plain(item, (*key, str(place)), (*path, names.give(str(place))))
                for place, item in enumerate(value)
            ]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields: dict[object, object] = {
                field.name: getattr(value, field.name) for field in dataclasses.fields(value)
            }
            return self._mapping(fields, key, path)
        return plain_scalar(value)

    def _mapping(self, value: Mapping[object, object], key: tuple[str, ...], path: tuple[str, ...]) -> Json:
        names = SafeNames()
        pairs = []
        for item_key, item in value.items():
            text = key_text(item_key)
            pairs.append((item_key, self.plain(item, (*key, text), (*path, names.give(text)))))
        texts = [key_text(item_key) for item_key, _ in pairs]
        if len(set(texts)) == len(texts):
            return dict(zip(texts, (item for _, item in pairs), strict=True))
        # The keys 1 and "1" are different in a dict but the same in a JSON object.
        return {"pairs": [[plain_scalar(item_key), item] for item_key, item in pairs]}


def kind_of(value: object) -> str | None:
    """Return whether ``value`` is a HISTOGRAM, ARRAY, COLUMNS or TABLE; None for plain data."""
    if isinstance(value, boost_histogram.Histogram):
        return HISTOGRAM
    if isinstance(value, numpy.ndarray) and value.ndim > 0 and not value.dtype.hasobject:
        return ARRAY
    if isinstance(value, awkward.Array | awkward.Record):
        return COLUMNS
    # pandas and Arrow are optional, so their types are recognized by name, without an import.
    module, name = type(value).__module__.partition(".")[0], type(value).__name__
    if (module, name) in {("pandas", "DataFrame"), ("pandas", "Series"), ("pyarrow", "Table")}:
        return TABLE
    return None


def is_part(output: object) -> bool:
    """Return whether an output consists of a single part, which is stored in its own file."""
    return kind_of(unwrapped(output)) is not None


def unwrapped(value: object) -> object:
    """Return the content of a thin wrapper, such as coffea's ``column_accumulator``; other values are returned
    unchanged.
    """
    if isinstance(value, numpy.ndarray) and (value.ndim == 0 or value.dtype.hasobject):
        return value.tolist()
    if type(value).__module__.startswith("coffea.") and hasattr(value, "value"):
        return value.value
    return value


def in_order(items: AbstractSet[SupportsRichComparison]) -> list[SupportsRichComparison]:
    """Return a set's items in a deterministic order, so that the same result is written to the same bytes."""
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=repr)


def key_text(key: object) -> str:
    """Return a dict's key as a string, because JSON keys are strings; the items of a tuple are joined."""
    if isinstance(key, tuple):
        return ",".join(key_text(item) for item in key)
    if isinstance(key, str):
        return str(key)
    scalar = plain_scalar(key)
    return scalar if isinstance(scalar, str) else str(scalar)


#: Fields of boost_histogram's accumulators, which have no __dict__.
_ACCUMULATOR_FIELDS = ("count", "value", "variance", "sum_of_weights", "sum_of_weights_squared")


def plain_scalar(value: object) -> Json:
    """Return a single value as JSON data. An object of an unknown type is described by its class, its ``repr``, and its
    fields that are numbers, strings or booleans.
    """
    if isinstance(value, numpy.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, complex):
        return {"real": plain_scalar(value.real), "imag": plain_scalar(value.imag)}
    if isinstance(value, bytes | bytearray):
        return {"base64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, tuple):
        return [plain_scalar(item) for item in value]
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    fields = getattr(value, "__dict__", None) or {
        name: getattr(value, name) for name in _ACCUMULATOR_FIELDS if hasattr(value, name)
    }
    simple = {
        str(name): plain_scalar(field)
        for name, field in fields.items()
        if isinstance(field, bool | int | float | complex | str | numpy.generic)
    }
    return {"class": kind, "text": repr(value), "fields": simple}
