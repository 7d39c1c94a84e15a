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


def to_plain(value: Any) -> Any:
    """A dataclass and all in it as dicts and lists; every other value as it is."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: to_plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: to_plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(one) for one in value]
    return value


def from_plain(wanted: Any, plain: Any) -> Any:
    """A value of the wanted type from plain data: fields that the type does not have are left out, those that the data
    lack have their defaults, and None where a field cannot be None has its default too. Raises ValueError.
    """
    if dataclasses.is_dataclass(wanted):
        return _dataclass_from(wanted, plain)
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is list:
        return [from_plain(arguments[0], one) for one in _checked(plain, list)]
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
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is types.UnionType:
        inner = [one for one in arguments if one is not types.NoneType]
        if len(inner) == 1 and (value is not None or types.NoneType not in arguments):
            _check_type(value, inner[0], where)
    elif dataclasses.is_dataclass(wanted):
        check_types(value, where)
    elif origin is list:
        for one in value:
            _check_type(one, arguments[0], f"{where}[]")
    elif origin is dict:
        for key, one in value.items():
            _check_type(one, arguments[1], f"{where}.{key:.40}")
    else:
        _check_scalar(value, wanted, where)


def _check_scalar(value: Any, wanted: Any, where: str) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = is_number and math.isfinite(value) and abs(value) < _NUMBERS_END
    good = {
        str: isinstance(value, str),
        bool: isinstance(value, bool),
        int: fits and isinstance(value, int),
        float: fits,
    }
    if not good.get(wanted, True):
        raise ValueError(f"{where} is {value!r:.80}, which is no {getattr(wanted, '__name__', wanted)}")


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
