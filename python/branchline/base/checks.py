"""Checks of values that callers give for settings: each wrong one gives an OptionError with what to give instead."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from pathlib import Path

from branchline.errors import OptionError


def whole_number(what: str, value: object, least: int = 0) -> int:
    """A whole number, also one of NumPy's. Raises OptionError for one below ``least`` and for anything else.

    >>> whole_number("number of workers", 4)
    4
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # anything may be given; index checks it
    except TypeError:
        number = least - 1
    if number < least:
        raise OptionError(f"a {what} of {value!r} is impossible", hint=f"give a whole number, {least} or more")
    return number


def number_within(what: str, value: object, least: float, most: float, hint: str) -> float:
    """A number from ``least`` to ``most``, both included. Raises OptionError."""
    try:
        number = float(value)  # type: ignore[arg-type]  # anything may be given; float checks it
    except (TypeError, ValueError):
        number = float("nan")
    if isinstance(value, str | bytes) or not least <= number <= most:
        raise OptionError(f"a {what} of {value!r} is impossible", hint=hint)
    return number


def texts(what: str, value: object, example: str) -> tuple[str, ...]:
    """Texts of a list or of another iterable. Raises OptionError; for one text too, whose letters nobody means."""
    found = () if isinstance(value, str | bytes) or not isinstance(value, Iterable) else tuple(value)
    if not isinstance(value, Iterable) or isinstance(value, str | bytes) or not all(isinstance(n, str) for n in found):
        raise OptionError(f"{what} cannot be {value!r}", hint=f"give a list, such as {example}")
    return found


def folder_path(what: str, value: object) -> Path:
    """The path of a folder. Raises OptionError."""
    if not isinstance(value, str | os.PathLike):
        raise OptionError(f"{what} cannot be {value!r}", hint="give the path of a directory")
    return Path(value)
