"""The outputs of the wagons, taken apart: which part is a histogram, an array, a table, and what is plain data."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import awkward
import boost_histogram
import numpy

from branchline.writing.objects.root_names import SafeNames

#: What a part of an output is: decides the file that holds it.
HISTOGRAM, ARRAY, COLUMNS, TABLE = "histogram", "array", "columns", "table"


@dataclasses.dataclass
class Part:
    """One part of a wagon's output that gets a file of its own.

    ``key`` are the wagon's own words on the way to it, ``path`` their safe forms, the wagon's first.
    """

    wagon: str
    key: tuple[str, ...]
    path: tuple[str, ...]
    kind: str
    value: Any

    @property
    def title(self) -> str:
        """The wagon's own words for this part, for people."""
        return "/".join(self.key)


#: What JSON holds as it is; a float may be infinite, so it is looked at one by one.
_PLAIN_TYPES = (int, str, bool, type(None))

#: Stores a part and returns the reference to it in the plain data.
Store = Callable[[Part], Any]


def take_apart(wagon: str, output: Any, store: Store, path: tuple[str, ...]) -> Any:
    """Return ``output`` as data that JSON can hold; each part that needs a file of its own goes to ``store``."""
    return _Walk(wagon, store).plain(output, (), path)


class _Walk:
    """One walk through the output of one wagon."""

    def __init__(self, wagon: str, store: Store) -> None:
        self._wagon = wagon
        self._store = store

    def plain(self, value: Any, key: tuple[str, ...], path: tuple[str, ...]) -> Any:
        """Return ``value`` as JSON data, with its parts stored."""
        value = unwrapped(value)
        kind = kind_of(value)
        if kind is not None:
            return self._store(Part(self._wagon, key, path, kind, value))
        if isinstance(value, Mapping):
            return self._mapping(value, key, path)
        if isinstance(value, AbstractSet):
            return [self.plain(item, key, path) for item in in_order(value)]
        if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
            return self._sequence(value, key, path)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return self._mapping(fields, key, path)
        return plain_scalar(value)

    def _mapping(self, value: Mapping[Any, Any], key: tuple[str, ...], path: tuple[str, ...]) -> Any:
        names = SafeNames()
        pairs = []
        for item_key, item in value.items():
            text = key_text(item_key)
            pairs.append((item_key, self.plain(item, (*key, text), (*path, names.give(text)))))
        texts = [key_text(item_key) for item_key, _ in pairs]
        if len(set(texts)) == len(texts):
            return dict(zip(texts, (item for _, item in pairs), strict=True))
        # 1 and "1" are two keys of a dict and one of a JSON object.
        return {"pairs": [[plain_scalar(item_key), item] for item_key, item in pairs]}

    def _sequence(self, value: Sequence[Any], key: tuple[str, ...], path: tuple[str, ...]) -> list[Any]:
        if all(type(item) in _PLAIN_TYPES for item in value):
            return list(value)
        names = SafeNames()
        return [
            self.plain(item, (*key, str(index)), (*path, names.give(str(index)))) for index, item in enumerate(value)
        ]


def kind_of(value: Any) -> str | None:
    """Return the kind of file that ``value`` needs, or None for plain data."""
    if isinstance(value, boost_histogram.Histogram):
        return HISTOGRAM
    if isinstance(value, numpy.ndarray) and value.ndim > 0 and not value.dtype.hasobject:
        return ARRAY
    if isinstance(value, awkward.Array | awkward.Record):
        return COLUMNS
    # pandas and Arrow are not needed to run a train, so their types are known by name.
    module, name = type(value).__module__.partition(".")[0], type(value).__name__
    if (module, name) in {("pandas", "DataFrame"), ("pandas", "Series"), ("pyarrow", "Table")}:
        return TABLE
    return None


def is_part(output: Any) -> bool:
    """Tell whether an output is, as a whole, a part with a file of its own."""
    return kind_of(unwrapped(output)) is not None


def unwrapped(value: Any) -> Any:
    """Return what a thin wrapper such as coffea's ``column_accumulator`` holds, else the value itself."""
    if isinstance(value, numpy.ndarray) and (value.ndim == 0 or value.dtype.hasobject):
        return value.tolist()
    if type(value).__module__.startswith("coffea.") and hasattr(value, "value"):
        return value.value
    return value


def in_order(items: AbstractSet[Any]) -> list[Any]:
    """Return the items of a set in one order, so that the same result gives the same file."""
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=repr)


def key_text(key: Any) -> str:
    """Return a dict's key as text: a tuple's items are joined, as JSON has no other keys than text."""
    if isinstance(key, tuple):
        return ",".join(key_text(item) for item in key)
    if isinstance(key, str):
        return str(key)
    scalar = plain_scalar(key)
    return scalar if isinstance(scalar, str) else str(scalar)


def plain_scalar(value: Any) -> Any:
    """Return one value as JSON data. An unknown kind is described by class, text and fields, so nothing is lost."""
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
    return _described(value)


#: The fields of boost_histogram's accumulators, which have no __dict__.
_ACCUMULATOR_FIELDS = ("count", "value", "variance", "sum_of_weights", "sum_of_weights_squared")


def _described(value: Any) -> dict[str, Any]:
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
