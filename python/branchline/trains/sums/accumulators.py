"""Adds up the outputs of wagons, without modifying objects that other code may refer to."""

from __future__ import annotations

import copy
import sys
from collections import Counter
from collections.abc import Callable, Mapping, MutableMapping
from collections.abc import Set as AbstractSet
from numbers import Number
from typing import Any, Protocol, cast

import numpy as np

from branchline.base.texts import message_of
from branchline.errors import BranchlineError, TableError

#: Types in which sums are computed, by dtype kind. Values of 64 bits or more keep their type, such as uint64 and
#: extended precision. Booleans are not widened, since adding them means "or".
_WIDE = {"i": np.dtype(np.int64), "u": np.dtype(np.int64), "f": np.dtype(np.float64), "c": np.dtype(np.complex128)}
_INT64_MAX = np.iinfo(np.int64).max


def widened(value: object) -> object:
    """Convert a NumPy number or array to the type used for sums. Any other value is returned unchanged."""
    if not isinstance(value, np.generic | np.ndarray) or value.dtype.kind not in _WIDE:
        return value
    if value.ndim == 0 and type(value) is np.ndarray:
        # The sum of two NumPy arrays without axes is a number, so convert such an array to a number here as well.
        value = value[()]
    wide = _WIDE[value.dtype.kind]
    if value.dtype.itemsize < wide.itemsize:
        return value.astype(wide)
    return value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("="))


def is_number(value: object) -> bool:
    """Return whether sums of values of this type can overflow. False for Python's integers."""
    return isinstance(value, float | complex) or (
        isinstance(value, np.generic | np.ndarray) and value.dtype.kind in _WIDE
    )


def add_numbers(first: Any, second: Any) -> object:
    """Return the sum of two numbers or arrays. ``is_number`` must hold for at least one of them.

    Raises OverflowError if a sum of integers does not fit into 64 bits, or if a sum of finite floats is infinite.
    """
    first, second = widened(first), widened(second)
    if {_dtype_kind(first), _dtype_kind(second)} == {"i", "u"}:
        # NumPy would add a signed and an unsigned integer as float64, which rounds above 2**53.
        first, second = _signed(first), _signed(second)
    # Ignore NumPy's error settings, because the result is checked below.
    with np.errstate(all="ignore"):
        total = first + second
        kind = _dtype_kind(total)
        if kind == "i" and np.any((first ^ total) & (second ^ total) < 0):
            raise _overflow("int64")
        if kind == "u" and np.any(total < first):
            raise _overflow("uint64")
        is_finite = kind not in ("f", "c") or np.all(np.isfinite(total))
        if not is_finite and np.any(np.isinf(total) & np.isfinite(first) & np.isfinite(second)):
            raise OverflowError(f"the sum of finite numbers is too large for {np.asarray(total).dtype}")
    return total


def _dtype_kind(value: object) -> str:
    if isinstance(value, np.generic | np.ndarray):
        return str(value.dtype.kind)
    return "f" if isinstance(value, float) else "c" if isinstance(value, complex) else ""


def _signed(value: Any) -> object:
    if value.dtype.kind == "u" and np.any(value > _INT64_MAX):
        raise _overflow("int64")
    return value.astype(np.int64)


def _overflow(kind: str) -> OverflowError:
    return OverflowError(f"the sum does not fit into {kind}; return Python integers, which have no limit, or floats")


_UNCHANGING = (type(None), Number, np.generic, str, bytes, frozenset)


class CannotAddError(BranchlineError):
    """Two outputs of a wagon cannot be added. ``keys`` is the path within the outputs to the values that cannot be
    added.
    """

    def __init__(self, what: str, keys: tuple[str, ...] = ()) -> None:
        super().__init__(what)
        self.keys = keys

    def inside(self, key: str) -> CannotAddError:
        """Return the same error with another key prepended to its path."""
        return CannotAddError(self.what, (key, *self.keys))

    def __str__(self) -> str:
        where = f"at [{']['.join(self.keys)}]: " if self.keys else ""
        return where + self.what

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.what, self.keys))


def shares_objects(previous: object, output: object) -> bool:
    """Return whether two outputs share a mutable object: the outputs themselves, or values under the same key."""
    if isinstance(output, _UNCHANGING):
        return False
    if isinstance(previous, tuple) and isinstance(output, tuple):
        return any(shares_objects(one, other) for one, other in zip(previous, output, strict=False))
    if previous is output:
        return True
    if isinstance(previous, Mapping) and isinstance(output, Mapping):
        return any(shares_objects(previous[key], value) for key, value in output.items() if key in previous)
    return False


def add(first: object, second: object) -> Any:
    """Return the sum of two accumulators of the same kind, as a new object.

    - None leaves the other accumulator unchanged.
    - Numbers, NumPy arrays of the same shape, histograms and other types with ``+`` are added. NumPy integers are
      summed in 64 bits, floats in at least 64 bits.
    - Mappings are added key by key; a key that only one of them has is copied.
    - Tuples are added element by element.
    - Sets are united.
    - Lists, awkward arrays, Arrow tables and pandas frames are concatenated.
    - Strings and bytes must be equal.

    Raises CannotAddError for other types, and for sums that overflow.
    """
    total = Total(first)
    total.add(second)
    return total.value


class Total:
    """A running sum of outputs, equivalent to repeated ``add`` but without copying the sum each time."""

    def __init__(self, first: object = None) -> None:
        self._node = None if first is None else _node_of(first)

    def add(self, output: object) -> None:
        """Add an output. Raises CannotAddError, without changing the sum, if the output does not match the sum."""
        self.prepared(output)()

    def prepared(self, output: object) -> Commit:
        """Check that an output can be added, and return a function that adds the output without failing. Raises
        CannotAddError.
        """
        if output is None:
            return lambda: None
        if self._node is None:
            return lambda: self._become(_node_of(output))
        if self._node.takes(output):
            return self._node.prepared(output)
        both = _Single(_sum(self._node.value, output))
        return lambda: self._become(both)

    def _become(self, node: _Node) -> None:
        self._node = node

    @property
    def value(self) -> Any:
        """The sum; None if nothing was added."""
        return None if self._node is None else self._node.value


Commit = Callable[[], None]


class _Node(Protocol):
    """A sum of outputs that all have the same type."""

    @property
    def value(self) -> Any: ...
    def takes(self, output: object) -> bool: ...
    def prepared(self, output: Any) -> Commit: ...


def _node_of(first: Any) -> _Node:
    # Mappings that define ``+`` are added with it, except Counter, whose ``+`` drops values that are not positive.
    if isinstance(first, Mapping) and (isinstance(first, Counter) or not hasattr(type(first), "__add__")):
        return _OfMappings(first)
    if isinstance(first, tuple):
        return _OfTuples(first)
    if type(first) in (list, set, frozenset):
        return _Collected(first)
    return _Single(first) if _joining(first) is None else _Joined(first)


def is_joined(output: object) -> bool:
    """Return whether outputs of this type are concatenated. Such a sum does not depend on how its parts are grouped."""
    return isinstance(output, list) or _joining(output) is not None


class _Single:
    """A sum that is replaced by a new object when an output is added."""

    def __init__(self, value: object) -> None:
        self.value = widened(value)

    def takes(self, _output: object) -> bool:
        return True

    def prepared(self, output: object) -> Commit:
        both = _sum(self.value, output)

        def commit() -> None:
            self.value = both

        return commit


class _OfMappings:
    """A sum of mappings, which are added key by key. The sum has the type of the first mapping."""

    def __init__(self, first: Mapping[object, object]) -> None:
        self._first = first
        self._totals: dict[object, Total] | None = None

    @property
    def value(self) -> Any:
        totals = self._each()
        if len(totals) == len(self._first) and all(totals[key].value is one for key, one in self._first.items()):
            return self._first
        total = copy.copy(self._first) if isinstance(self._first, MutableMapping) else dict(self._first)
        for key, one in totals.items():
            total[key] = one.value
        return total

    def _each(self) -> dict[object, Total]:
        if self._totals is None:
            self._totals = {key: Total(value) for key, value in self._first.items()}
        return self._totals

    def takes(self, output: object) -> bool:
        return isinstance(output, Mapping)

    def prepared(self, output: Mapping[object, object]) -> Commit:
        totals, commits = self._each(), []
        for key, value in output.items():
            try:
                commits.append((key, totals[key].prepared(value) if key in totals else None))
            except CannotAddError as error:
                raise error.inside(repr(key)) from error.__cause__

        def commit() -> None:
            for key, known in commits:
                if known is None:
                    totals[key] = Total(output[key])
                else:
                    known()

        return commit


class _OfTuples:
    """A sum of tuples, which are added element by element."""

    def __init__(self, first: tuple[object, ...]) -> None:
        self._first = first
        self._totals = [Total(value) for value in first]

    @property
    def value(self) -> Any:
        values = [total.value for total in self._totals]
        return type(self._first)(*values) if hasattr(self._first, "_fields") else tuple(values)

    def takes(self, output: object) -> bool:
        return isinstance(output, tuple)

    def prepared(self, output: tuple[object, ...]) -> Commit:
        if len(self._totals) != len(output):
            raise CannotAddError(f"tuples of {len(self._totals)} and of {len(output)} elements cannot be added")
        commits = []
        for index, value in enumerate(output):
            try:
                commits.append(self._totals[index].prepared(value))
            except CannotAddError as error:
                raise error.inside(str(index)) from error.__cause__

        def commit() -> None:
            for one in commits:
                one()

        return commit


class _Collected:
    """A sum of lists, which are concatenated, or of sets, which are united. The sum is a single object that grows."""

    def __init__(self, first: list[object] | set[object] | frozenset[object]) -> None:
        self._first = first
        self._grown: list[object] | set[object] | None = None

    @property
    def value(self) -> Any:
        if self._grown is None:
            return self._first
        return self._grown if type(self._first) is type(self._grown) else type(self._first)(self._grown)

    def takes(self, output: object) -> bool:
        return type(output) is type(self._first)

    def prepared(self, output: object) -> Commit:
        return lambda: self._grow(output)

    def _grow(self, output: Any) -> None:
        if self._grown is None:
            self._grown = list(self._first) if isinstance(self._first, list) else set(self._first)
        if isinstance(self._grown, list):
            self._grown.extend(output)
        else:
            self._grown.update(output)


class _Joined:
    """A sum of awkward arrays, pandas frames or Arrow tables, which are concatenated when the sum is requested."""

    def __init__(self, first: object) -> None:
        self._parts = [first]

    @property
    def value(self) -> Any:
        if len(self._parts) > 1:
            join = _joining(self._parts[0])
            assert join is not None
            self._parts = [_join(join, self._parts)]
        return self._parts[0]

    def takes(self, output: object) -> bool:
        return _joining(output) is not None and _joining(output) == _joining(self._parts[0])

    def prepared(self, output: object) -> Commit:
        join = _joining(output)
        assert join is not None
        # Check the types by concatenating the tables without their rows.
        _join(join, [_none_of(self._parts[0]), _none_of(output)])
        return lambda: self._parts.append(output)


def _sum(first: Any, second: Any) -> object:
    """Return the sum of two values that are not collections."""
    if isinstance(first, AbstractSet) and isinstance(second, AbstractSet):
        return first | second
    if isinstance(first, (str, bytes)) or isinstance(second, (str, bytes)):
        if type(first) is type(second) and first == second:
            return first
        raise CannotAddError(f"strings cannot be added unless they are equal: {first!r} and {second!r}")
    are_arrays = isinstance(first, np.ndarray) or isinstance(second, np.ndarray)
    if are_arrays and np.shape(first) != np.shape(second):
        raise CannotAddError(f"arrays of shapes {np.shape(first)} and {np.shape(second)} cannot be added")
    if not are_arrays and isinstance(first, Number) != isinstance(second, Number):
        raise _unlike(first, second)
    return _add_by_operator(first, second)


def _joining(table: object) -> Callable[[list[object]], object] | None:
    """Return the function that concatenates tables of this type; None if the value is not a table."""
    kind = type(table).__module__.partition(".")[0]
    library = sys.modules.get(kind)
    if kind == "pandas" and library is not None:
        return cast("Callable[[list[object]], object]", library.concat)
    if kind == "pyarrow" and library is not None:
        return (
            cast("Callable[[list[object]], object]", library.concat_tables)
            if isinstance(table, library.Table)
            else None
        )
    awkward = sys.modules.get("awkward")
    if awkward is not None and isinstance(table, awkward.Array):
        return cast("Callable[[list[object]], object]", awkward.concatenate)
    return None


def _none_of(table: Any) -> object:
    """Return a table with the same columns but without rows."""
    return table.iloc[:0] if hasattr(table, "iloc") else table[:0]


def _join(join: Callable[[list[object]], object], parts: list[object]) -> object:
    try:
        return join(parts)
    except Exception as error:
        raise CannotAddError(f"cannot concatenate the two: {error}") from error


def _add_by_operator(first: Any, second: Any) -> object:
    try:
        if is_number(first) or is_number(second):
            return add_numbers(first, second)
        if hasattr(type(first), "__add__"):
            return first + second
        if hasattr(type(first), "__iadd__"):
            total = copy.deepcopy(first)
            total += second
            return total
    except (CannotAddError, KeyboardInterrupt):
        raise
    except (OverflowError, TableError) as error:
        raise CannotAddError(str(error)) from error
    except BaseException as error:
        what = f"{_kind(first)} + {_kind(second)} raised {type(error).__name__}: {message_of(error)}"
        raise CannotAddError(what) from error
    raise _unlike(first, second)


def _unlike(first: object, second: object) -> CannotAddError:
    if type(first) is type(second):
        return CannotAddError(f"objects of {_kind(first)} cannot be added (define __add__ in the class)")
    return CannotAddError(f"{_kind(first)} and {_kind(second)} cannot be added")


def _kind(thing: object) -> str:
    kind = type(thing)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
