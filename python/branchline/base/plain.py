"""Convert dataclasses to plain dicts, lists, numbers and strings, and back."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, Protocol, TypeAlias, TypeVar, overload


class DataclassInstance(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[object]]]


Record = TypeVar("Record", bound=DataclassInstance)
Value = TypeVar("Value")
#: A value that JSON can represent.
Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | float | None"
# Exclusive maximum of integers: databases store 64 bits.
_NUMBERS_END = 2**63
# Types of most values in a record, which are checked first for speed.
_SCALARS = {str, int, float, bool, types.NoneType}


@overload
def to_plain(value: DataclassInstance) -> dict[str, object]: ...
@overload
def to_plain(value: object) -> object: ...
def to_plain(value: object) -> object:
    """Convert a dataclass, and all values in it, to dicts and lists. Other values are returned unchanged."""
    if type(value) in _SCALARS:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: to_plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: to_plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(one) for one in value]
    return value


def finite(plain: object) -> object:
    """Replace non-finite numbers by None, since JSON cannot represent them (RFC 8259, section 6)."""
    if isinstance(plain, float):
        return plain if math.isfinite(plain) else None
    if isinstance(plain, Mapping):
        return {key: finite(one) for key, one in plain.items()}
    if isinstance(plain, list | tuple):
        return [finite(one) for one in plain]
    return plain


def from_plain(kind: type[Record], plain: object) -> Record:
    """Create a dataclass from plain data. Unknown fields are ignored. Missing fields, and None in fields whose type
    does not allow it, get their defaults. Raises ValueError.
    """
    given = _mapping(plain)
    values = {
        name: _value_from(wanted, given[name])
        for name, wanted in field_types(kind).items()
        if name in given and not (given[name] is None and not _takes_none(wanted))
    }
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"invalid {kind.__name__}: {error}") from None


def _value_from(wanted: object, plain: object) -> object:
    if isinstance(wanted, type) and dataclasses.is_dataclass(wanted):
        return from_plain(wanted, plain)
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is list:
        return [_value_from(arguments[0], one) for one in _checked(plain, list)]
    if origin is tuple and arguments[1:] == (Ellipsis,):
        return tuple(
            _value_from(arguments[0], one) for one in _checked(plain, tuple if isinstance(plain, tuple) else list)
        )
    if origin is dict:
        return {str(key): _value_from(arguments[1], one) for key, one in _mapping(plain).items()}
    if origin is types.UnionType:
        inner = [one for one in arguments if one is not types.NoneType]
        # A union of several types is not converted.
        return plain if plain is None or len(inner) > 1 else _value_from(inner[0], plain)
    return plain


def check_types(value: DataclassInstance, where: str = "") -> None:
    """Raise ValueError if a field of a dataclass, or of a nested dataclass, has a value of the wrong type, a number
    that is not finite, or an integer that does not fit into 64 bits. ``from_plain`` does not check scalars.
    """
    for name, wanted in field_types(type(value)).items():
        _check_type(getattr(value, name), wanted, f"{where}.{name}" if where else name)


def _check_type(value: object, wanted: Hashable, where: str) -> None:
    kind, inner = _form(wanted)
    if kind is types.UnionType:
        if inner is not None and value is not None:
            _check_type(value, inner, where)
    elif kind is dict:
        for key, one in _mapping(value).items():
            _check_type(one, inner, f"{where}.{key!s:.40}")
    elif kind is list:
        for one in _checked(value, tuple if isinstance(value, tuple) else list):
            _check_type(one, inner, f"{where}[]")
    elif kind is object:
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            raise _wrong_type(value, wanted, where)
        check_types(value, where)
    elif not _is_good(value, wanted):
        raise _wrong_type(value, wanted, where)


def _wrong_type(value: object, wanted: object, where: str) -> ValueError:
    return ValueError(f"{where} is {value!r:.80}, expected {getattr(wanted, '__name__', wanted)}")


@lru_cache(maxsize=256)
def _form(wanted: Hashable) -> tuple[object, Hashable]:
    """Return the kind of a type and the type of its items.

    The kind is UnionType, dict or list; ``object`` for a dataclass; None for other types. For a union of one type and
    None, the second value is that type.
    """
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is types.UnionType:
        inner = [one for one in arguments if one is not types.NoneType]
        return types.UnionType, inner[0] if len(inner) == 1 and types.NoneType in arguments else None
    if origin in (dict, list):
        return origin, arguments[-1]
    if origin is tuple and arguments[1:] == (Ellipsis,):
        return list, arguments[0]
    return (object if dataclasses.is_dataclass(wanted) else None), None


def _is_good(value: object, wanted: object) -> bool:
    if wanted is str or wanted is bool:
        return isinstance(value, str if wanted is str else bool)
    if wanted is int or wanted is float:
        if isinstance(value, bool) or not isinstance(value, int if wanted is int else int | float):
            return False
        return math.isfinite(value) and abs(value) < _NUMBERS_END
    return True


def record_of(kind: type[Record], measured: object) -> Record:
    """Create a record of type ``kind`` from the attributes of another object that have the same names as the record's
    fields. Fields whose attribute is missing or None get their defaults.
    """
    values = {one.name: getattr(measured, one.name, None) for one in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in values.items() if value is not None})


@lru_cache(maxsize=64)
def field_types(wanted: type[DataclassInstance]) -> dict[str, Hashable]:
    """Return the types of a dataclass's fields."""
    return typing.get_type_hints(wanted)


def _takes_none(kind: object) -> bool:
    return kind is object or types.NoneType in typing.get_args(kind)


def _checked(plain: object, kind: type[Value]) -> Value:
    if not isinstance(plain, kind):
        raise _not_a(plain, kind)
    return plain


def _mapping(plain: object) -> Mapping[object, object]:
    if not isinstance(plain, Mapping):
        raise _not_a(plain, Mapping)
    return plain


def _not_a(plain: object, kind: type) -> ValueError:
    return ValueError(f"invalid record: expected {kind.__name__}, got {plain!r:.80}")
