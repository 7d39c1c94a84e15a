"""Sums of numbers and NumPy arrays that do not overflow: integers in 64 bits, floats in at least 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

#: By the kind of the dtype. uint64 and extended precision stay as they are; so do booleans, which add as "or".
_WIDE = {"i": np.dtype(np.int64), "u": np.dtype(np.int64), "f": np.dtype(np.float64), "c": np.dtype(np.complex128)}
_INT64_MAX = np.iinfo(np.int64).max


def widened(value: Any) -> Any:
    """Return a NumPy number or array in the type in which it is summed; anything else as it is."""
    if not isinstance(value, np.generic | np.ndarray) or value.dtype.kind not in _WIDE:
        return value
    if value.ndim == 0 and type(value) is np.ndarray:
        # The sum of two arrays without axes is a number, too.
        value = value[()]
    wide = _WIDE[value.dtype.kind]
    if value.dtype.itemsize < wide.itemsize:
        return value.astype(wide)
    return value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("="))


def is_number(value: Any) -> bool:
    """Return whether sums of this type can overflow. Python's integers cannot."""
    return isinstance(value, float | complex) or (
        isinstance(value, np.generic | np.ndarray) and value.dtype.kind in _WIDE
    )


def add_numbers(first: Any, second: Any) -> Any:
    """Return the sum of two numbers or arrays, of which ``is_number`` holds for at least one.

    Raises OverflowError if the sum of integers does not fit into 64 bits, or that of finite floats is infinite.
    """
    first, second = widened(first), widened(second)
    if {_kind(first), _kind(second)} == {"i", "u"}:
        # NumPy would add them as float64, which rounds above 2**53.
        first, second = _signed(first), _signed(second)
    # The result is checked below, whatever NumPy's error state is.
    with np.errstate(all="ignore"):
        total = first + second
        kind = _kind(total)
        if kind == "i" and np.any((first ^ total) & (second ^ total) < 0):
            raise _overflow("int64")
        if kind == "u" and np.any(total < first):
            raise _overflow("uint64")
        if kind in ("f", "c") and not np.all(np.isfinite(total)):
            _check_finite(first, second, total)
    return total


def _kind(value: Any) -> str:
    if isinstance(value, np.generic | np.ndarray):
        return str(value.dtype.kind)
    return "f" if isinstance(value, float) else "c" if isinstance(value, complex) else ""


def _signed(value: Any) -> Any:
    if value.dtype.kind == "u" and np.any(value > _INT64_MAX):
        raise _overflow("int64")
    return value.astype(np.int64)


def _check_finite(first: Any, second: Any, total: Any) -> None:
    """Raise OverflowError where finite numbers have an infinite sum."""
    if np.any(np.isinf(total) & np.isfinite(first) & np.isfinite(second)):
        raise OverflowError(f"the sum of finite numbers is too large for {np.asarray(total).dtype}")


def _overflow(kind: str) -> OverflowError:
    return OverflowError(f"the sum does not fit into {kind}; return Python integers, which have no limit, or floats")
