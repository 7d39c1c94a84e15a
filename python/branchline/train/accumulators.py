"""Adding up what wagons return, without ever changing an object that somebody else may still hold."""

from __future__ import annotations

import copy
import sys
from collections import Counter
from collections.abc import Mapping, MutableMapping
from collections.abc import Set as AbstractSet
from numbers import Number
from typing import Any

import numpy as np

from branchline.errors import BranchlineError


class CannotAddError(BranchlineError):
    """Two outputs of a wagon do not add; ``keys`` leads to the place inside of them."""

    def __init__(self, what: str, keys: tuple[str, ...] = ()) -> None:
        super().__init__(what)
        self.keys = keys

    def inside(self, key: str) -> CannotAddError:
        """The same error, seen from one level further out."""
        return CannotAddError(self.what, (key, *self.keys))

    def __str__(self) -> str:
        where = f"at [{']['.join(self.keys)}]: " if self.keys else ""
        return where + self.what

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.what, self.keys))


def add(first: Any, second: Any) -> Any:
    """The sum of two accumulators of the same kind, as a new object.

    None is neutral. Numbers, NumPy arrays of one shape, histograms and whatever else knows ``+`` are added. Mappings
    are added key by key, a key that one lacks being taken from the other; sets are united; lists, awkward arrays,
    Arrow tables and pandas frames are put one behind the other; tuples are added element by element; strings and bytes
    must be equal. Raises CannotAddError for anything else.
    """
    if first is None:
        return second
    if second is None:
        return first
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return _add_mappings(first, second)
    if isinstance(first, tuple) and isinstance(second, tuple):
        return _add_tuples(first, second)
    if isinstance(first, AbstractSet) and isinstance(second, AbstractSet):
        return first | second
    if isinstance(first, (str, bytes)) or isinstance(second, (str, bytes)):
        return _same_text(first, second)
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return _add_arrays(first, second)
    if isinstance(first, Number) != isinstance(second, Number):
        raise _unlike(first, second)
    table = _joined_tables(first, second)
    return _add_by_operator(first, second) if table is None else table


def _add_mappings(first: Mapping[Any, Any], second: Mapping[Any, Any]) -> Any:
    if _has_own_addition(first):
        return _add_by_operator(first, second)
    total = copy.copy(first) if isinstance(first, MutableMapping) else dict(first)
    for key, value in second.items():
        try:
            total[key] = add(first[key], value) if key in first else value
        except CannotAddError as error:
            raise error.inside(repr(key)) from error.__cause__
    return total


def _has_own_addition(mapping: Mapping[Any, Any]) -> bool:
    """True for a mapping that brings its own ``+``; Counter's is not taken, for it drops what is not positive."""
    return hasattr(type(mapping), "__add__") and not isinstance(mapping, Counter)


def _add_tuples(first: tuple[Any, ...], second: tuple[Any, ...]) -> Any:
    if len(first) != len(second):
        raise CannotAddError(f"tuples of {len(first)} and of {len(second)} elements do not add")
    elements = []
    for index, (one, other) in enumerate(zip(first, second, strict=True)):
        try:
            elements.append(add(one, other))
        except CannotAddError as error:
            raise error.inside(str(index)) from error.__cause__
    return type(first)(*elements) if hasattr(first, "_fields") else tuple(elements)


def _same_text(first: Any, second: Any) -> Any:
    if type(first) is type(second) and first == second:
        return first
    raise CannotAddError(f"texts do not add unless they are equal: {first!r} and {second!r}")


def _add_arrays(first: Any, second: Any) -> Any:
    if np.shape(first) != np.shape(second):
        raise CannotAddError(f"arrays of shapes {np.shape(first)} and {np.shape(second)} do not add")
    return _add_by_operator(first, second)


def _joined_tables(first: Any, second: Any) -> Any:
    """Awkward arrays, pandas frames and Arrow tables one behind the other; None if the two are no such thing."""
    kind = type(first).__module__.partition(".")[0]
    if kind not in ("awkward", "pandas", "pyarrow", "coffea") or kind != type(second).__module__.partition(".")[0]:
        return None
    library = sys.modules[kind]
    try:
        if kind == "pandas":
            return library.concat([first, second])
        if kind == "pyarrow" and isinstance(first, library.Table):
            return library.concat_tables([first, second])
        awkward = sys.modules.get("awkward")
        if awkward is not None and isinstance(first, awkward.Array):
            return awkward.concatenate([first, second])
    except Exception as error:
        raise CannotAddError(f"these two do not go one behind the other: {error}") from error
    return None


def _add_by_operator(first: Any, second: Any) -> Any:
    try:
        if hasattr(type(first), "__add__"):
            return first + second
        if hasattr(type(first), "__iadd__"):
            total = copy.deepcopy(first)
            total += second
            return total
    except CannotAddError:
        raise
    except Exception as error:
        raise CannotAddError(f"{_kind(first)} + {_kind(second)} raised {type(error).__name__}: {error}") from error
    raise _unlike(first, second)


def _unlike(first: Any, second: Any) -> CannotAddError:
    if type(first) is type(second):
        return CannotAddError(f"objects of {_kind(first)} do not know how to add (give the class an __add__)")
    return CannotAddError(f"{_kind(first)} and {_kind(second)} do not add")


def _kind(thing: Any) -> str:
    kind = type(thing)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
