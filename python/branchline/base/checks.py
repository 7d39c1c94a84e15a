"""Validate settings that callers pass: invalid values raise OptionError with a hint.

``instance_of`` checks values whose static type is lost when they are sent between processes.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from typing import TypeVar

from branchline.errors import OptionError

Value = TypeVar("Value")


def whole_number(what: str, value: object, least: int = 0) -> int:
    """Return a Python or NumPy integer as an int. Raises OptionError for other types and for values below ``least``.

    >>> whole_number("number of workers", 4)
    4
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # anything may be given; index checks it
    except TypeError:
        number = least - 1
    if number < least:
        raise OptionError(f"invalid {what}: {value!r}", hint=f"give an integer of at least {least}")
    return number


def number_within(what: str, value: object, least: float, most: float, hint: str) -> float:
    """Return the value as a float. Raises OptionError unless it is a number from ``least`` to ``most`` (inclusive)."""
    try:
        number = float(value)  # type: ignore[arg-type]  # anything may be given; float checks it
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if isinstance(value, str | bytes) or not least <= number <= most:
        raise OptionError(f"invalid {what}: {value!r}", hint=hint)
    return number


def texts(what: str, value: object, example: str) -> tuple[str, ...]:
    """Return the strings of an iterable. Raises OptionError for anything else, including a single string."""
    found = () if isinstance(value, str | bytes) or not isinstance(value, Iterable) else tuple(value)
    if not isinstance(value, Iterable) or isinstance(value, str | bytes) or not all(isinstance(n, str) for n in found):
        raise OptionError(f"{what} cannot be {value!r}", hint=f"give a list, such as {example}")
    return found


def folder_path(what: str, value: object) -> str | os.PathLike[str]:
    """Return the path of a folder. Raises OptionError unless the value is a string or a path."""
    if not isinstance(value, str | os.PathLike):
        raise OptionError(f"{what} cannot be {value!r}", hint="give the path of a directory")
    return value


def instance_of(value: object, kind: type[Value]) -> Value:
    """Return the value if it is an instance of ``kind``. Raises TypeError otherwise."""
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value
