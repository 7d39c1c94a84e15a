"""Dataclasses as plain dicts, lists, numbers and texts, and back."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, Protocol, TypeVar


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


Record = TypeVar("Record", bound=_Dataclass)
# Databases have whole numbers of 64 bits.
_NUMBERS_END = 2**63
# Most values of a record, known without looking further.
_SCALARS = {str, int, float, bool, types.NoneType}


def to_plain(value: Any) -> Any:
    """A dataclass and all in it as dicts and lists; every other value as it is."""
    if type(value) in _SCALARS:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: to_plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: to_plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(one) for one in value]
    return value


def finite(plain: Any) -> Any:
    """Plain data with None in place of numbers that are not finite, which JSON does not have (RFC 8259, section 6)."""
    if isinstance(plain, float):
        return plain if math.isfinite(plain) else None
    if isinstance(plain, Mapping):
        return {key: finite(one) for key, one in plain.items()}
    if isinstance(plain, list | tuple):
        return [finite(one) for one in plain]
    return plain


def from_plain(wanted: Any, plain: Any) -> Any:
    """A value of the wanted type from plain data: fields that the type does not have are left out, those that the data
    lack have their defaults, and None where a field cannot be None has its default too. Raises ValueError.
    """
    if dataclasses.is_dataclass(wanted):
        return _dataclass_from(wanted, plain)
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is list:
        return [from_plain(arguments[0], one) for one in _checked(plain, list)]
    if origin is tuple and arguments[1:] == (Ellipsis,):
        return tuple(from_plain(arguments[0], one) for one in _checked(plain, list | tuple))
    if origin is dict:
        return {str(key): from_plain(arguments[1], one) for key, one in _checked(plain, Mapping).items()}
    if origin is types.UnionType:
        inner = [one for one in arguments if one is not types.NoneType]
        # A value of several types is taken as it is.
        return plain if plain is None or len(inner) > 1 else from_plain(inner[0], plain)
    return plain


def check_types(value: _Dataclass, where: str = "") -> None:
    """Raises ValueError if a field of a dataclass, or of one inside of it, has a value of another type than it should,
    or a number that is not finite or does not fit into 64 bits. ``from_plain`` takes scalars as they come.
    """
    for name, wanted in field_types(type(value)).items():
        _check_type(getattr(value, name), wanted, f"{where}.{name}" if where else name)


def _check_type(value: Any, wanted: Any, where: str) -> None:
    kind, inner = _form(wanted)
    if kind is types.UnionType:
        if inner is not None and value is not None:
            _check_type(value, inner, where)
    elif kind is dict:
        for key, one in value.items():
            _check_type(one, inner, f"{where}.{key:.40}")
    elif kind is list:
        for one in value:
            _check_type(one, inner, f"{where}[]")
    elif kind is object:
        check_types(value, where)
    elif not _is_good(value, wanted):
        raise ValueError(f"{where} is {value!r:.80}, which is no {getattr(wanted, '__name__', wanted)}")


@lru_cache(maxsize=256)
def _form(wanted: Any) -> tuple[Any, Any]:
    """What a type is: a union with None, a dict or a list, and of what; ``object`` for a dataclass; None for others."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is types.UnionType:
        inner = [one for one in arguments if one is not types.NoneType]
        return types.UnionType, inner[0] if len(inner) == 1 and types.NoneType in arguments else None
    if origin in (dict, list):
        return origin, arguments[-1]
    if origin is tuple and arguments[1:] == (Ellipsis,):
        return list, arguments[0]
    return (object if dataclasses.is_dataclass(wanted) else None), None


def _is_good(value: Any, wanted: Any) -> bool:
    if wanted is str or wanted is bool:
        return isinstance(value, wanted)
    if wanted is int or wanted is float:
        is_number = isinstance(value, int if wanted is int else int | float) and not isinstance(value, bool)
        return is_number and math.isfinite(value) and abs(value) < _NUMBERS_END
    return True


def record_of(kind: type[Record], measured: object) -> Record:
    """A record of this dataclass with the values of the fields that a measured value has. Fields that it lacks, or that
    are None in it, have their defaults.
    """
    names = [one.name for one in dataclasses.fields(kind)]
    values = {name: getattr(measured, name, None) for name in names}
    return kind(**{name: value for name, value in values.items() if value is not None})


@lru_cache(maxsize=64)
def field_types(wanted: Any) -> dict[str, Any]:
    """The types of a dataclass's fields."""
    return typing.get_type_hints(wanted)


def _dataclass_from(wanted: Any, plain: Any) -> Any:
    given = _checked(plain, Mapping)
    kinds = field_types(wanted)
    values = {
        name: from_plain(kind, given[name])
        for name, kind in kinds.items()
        if name in given and not (given[name] is None and not _takes_none(kind))
    }
    try:
        return wanted(**values)
    except TypeError as error:
        raise ValueError(f"this is no {wanted.__name__}: {error}") from None


def _takes_none(kind: Any) -> bool:
    return kind is Any or types.NoneType in typing.get_args(kind)


def _checked(plain: Any, kind: Any) -> Any:
    if not isinstance(plain, kind):
        raise ValueError(f"a record has {plain!r:.80} in the place of a {kind.__name__}")
    return plain
