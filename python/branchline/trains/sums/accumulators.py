"""Adding up what wagons return, without ever changing an object that somebody else may still hold."""

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
from branchline.trains.sums.wide_numbers import add_numbers, is_number, widened

_UNCHANGING = (type(None), Number, np.generic, str, bytes, frozenset)


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


def shares_objects(previous: Any, output: Any) -> bool:
    """True if two outputs are, or hold under the same key, one object that can change."""
    if isinstance(output, _UNCHANGING):
        return False
    if isinstance(previous, tuple) and isinstance(output, tuple):
        return any(shares_objects(one, other) for one, other in zip(previous, output, strict=False))
    if previous is output:
        return True
    if isinstance(previous, Mapping) and isinstance(output, Mapping):
        return any(shares_objects(previous[key], value) for key, value in output.items() if key in previous)
    return False


def add(first: Any, second: Any) -> Any:
    """The sum of two accumulators of the same kind, as a new object.

    None is neutral. Numbers, NumPy arrays of one shape, histograms and whatever else knows ``+`` are added. Mappings
    are added key by key, a key that one lacks being taken from the other; sets are united; lists, awkward arrays,
    Arrow tables and pandas frames are put one behind the other; tuples are added element by element; strings and bytes
    must be equal. NumPy's integers are summed in 64 bits, its floats in at least 64 bits. Raises CannotAddError for
    anything else, and for sums that overflow.
    """
    total = Total(first)
    total.add(second)
    return total.value


class Total:
    """A sum that outputs are added to, as by ``add``; what has been collected in it is not copied for each of them."""

    def __init__(self, first: Any = None) -> None:
        self._node = None if first is None else _node_of(first)

    def add(self, output: Any) -> None:
        """Adds an output. Raises CannotAddError, and then the sum is as it was."""
        self.prepared(output)()

    def prepared(self, output: Any) -> Commit:
        """Checks whether an output adds, and gives what adds it without fail. Raises CannotAddError."""
        if output is None:
            return _nothing
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


def _nothing() -> None:
    """Adds nothing."""


class _Node(Protocol):
    """A sum of one kind."""

    @property
    def value(self) -> Any: ...
    def takes(self, output: Any) -> bool: ...
    def prepared(self, output: Any) -> Commit: ...


def _node_of(first: Any) -> _Node:
    if isinstance(first, Mapping) and not _has_own_addition(first):
        return _OfMappings(first)
    if isinstance(first, tuple):
        return _OfTuples(first)
    if type(first) in (list, set, frozenset):
        return _Collected(first)
    return _Single(first) if _joining(first) is None else _Joined(first)


def is_joined(output: Any) -> bool:
    """Whether outputs of this kind are put one behind the other, which is the same however they are grouped."""
    return isinstance(output, list) or _joining(output) is not None


class _Single:
    """What is replaced by a new object for each output."""

    def __init__(self, value: Any) -> None:
        self.value = widened(value)

    def takes(self, _output: Any) -> bool:
        return True

    def prepared(self, output: Any) -> Commit:
        both = _sum(self.value, output)

        def commit() -> None:
            self.value = both

        return commit


class _OfMappings:
    """Mappings, added key by key; of the type of the first."""

    def __init__(self, first: Mapping[Any, Any]) -> None:
        self._first = first
        self._totals: dict[Any, Total] | None = None

    @property
    def value(self) -> Any:
        totals = self._each()
        if len(totals) == len(self._first) and all(totals[key].value is one for key, one in self._first.items()):
            return self._first
        total = copy.copy(self._first) if isinstance(self._first, MutableMapping) else dict(self._first)
        for key, one in totals.items():
            total[key] = one.value
        return total

    def _each(self) -> dict[Any, Total]:
        if self._totals is None:
            self._totals = {key: Total(value) for key, value in self._first.items()}
        return self._totals

    def takes(self, output: Any) -> bool:
        return isinstance(output, Mapping)

    def prepared(self, output: Mapping[Any, Any]) -> Commit:
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
    """Tuples, added element by element."""

    def __init__(self, first: tuple[Any, ...]) -> None:
        self._first = first
        self._totals = [Total(value) for value in first]

    @property
    def value(self) -> Any:
        values = [total.value for total in self._totals]
        return type(self._first)(*values) if hasattr(self._first, "_fields") else tuple(values)

    def takes(self, output: Any) -> bool:
        return isinstance(output, tuple)

    def prepared(self, output: tuple[Any, ...]) -> Commit:
        if len(self._totals) != len(output):
            raise CannotAddError(f"tuples of {len(self._totals)} and of {len(output)} elements do not add")
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
    """Lists one behind the other, or sets united, in one that grows."""

    def __init__(self, first: list[Any] | set[Any] | frozenset[Any]) -> None:
        self._first = first
        self._grown: list[Any] | set[Any] | None = None

    @property
    def value(self) -> Any:
        if self._grown is None:
            return self._first
        return self._grown if type(self._first) is type(self._grown) else type(self._first)(self._grown)

    def takes(self, output: Any) -> bool:
        return type(output) is type(self._first)

    def prepared(self, output: Any) -> Commit:
        return lambda: self._grow(output)

    def _grow(self, output: Any) -> None:
        if self._grown is None:
            self._grown = list(self._first) if isinstance(self._first, list) else set(self._first)
        if isinstance(self._grown, list):
            self._grown.extend(output)
        else:
            self._grown.update(output)


class _Joined:
    """Awkward arrays, pandas frames or Arrow tables, put one behind the other when the sum is wanted."""

    def __init__(self, first: Any) -> None:
        self._parts = [first]

    @property
    def value(self) -> Any:
        if len(self._parts) > 1:
            join = _joining(self._parts[0])
            assert join is not None
            self._parts = [_join(join, self._parts)]
        return self._parts[0]

    def takes(self, output: Any) -> bool:
        return _joining(output) is not None and _joining(output) == _joining(self._parts[0])

    def prepared(self, output: Any) -> Commit:
        join = _joining(output)
        assert join is not None
        # Whether the two go together is seen on their types alone.
        _join(join, [_none_of(self._parts[0]), _none_of(output)])
        return lambda: self._parts.append(output)


def _sum(first: Any, second: Any) -> Any:
    """The sum of two things that are not collections."""
    if isinstance(first, AbstractSet) and isinstance(second, AbstractSet):
        return first | second
    if isinstance(first, (str, bytes)) or isinstance(second, (str, bytes)):
        return _same_text(first, second)
    are_arrays = isinstance(first, np.ndarray) or isinstance(second, np.ndarray)
    if are_arrays and np.shape(first) != np.shape(second):
        raise CannotAddError(f"arrays of shapes {np.shape(first)} and {np.shape(second)} do not add")
    if not are_arrays and isinstance(first, Number) != isinstance(second, Number):
        raise _unlike(first, second)
    return _add_by_operator(first, second)


def _has_own_addition(mapping: Mapping[Any, Any]) -> bool:
    """True for a mapping that brings its own ``+``; Counter's is not taken, for it drops what is not positive."""
    return hasattr(type(mapping), "__add__") and not isinstance(mapping, Counter)


def _same_text(first: Any, second: Any) -> Any:
    if type(first) is type(second) and first == second:
        return first
    raise CannotAddError(f"texts do not add unless they are equal: {first!r} and {second!r}")


def _joining(table: Any) -> Callable[[list[Any]], Any] | None:
    """The function that puts tables like this one behind each other; None if it is no table."""
    kind = type(table).__module__.partition(".")[0]
    library = sys.modules.get(kind)
    if kind == "pandas" and library is not None:
        return cast("Callable[[list[Any]], Any]", library.concat)
    if kind == "pyarrow" and library is not None:
        return cast("Callable[[list[Any]], Any]", library.concat_tables) if isinstance(table, library.Table) else None
    awkward = sys.modules.get("awkward")
    if awkward is not None and isinstance(table, awkward.Array):
        return cast("Callable[[list[Any]], Any]", awkward.concatenate)
    return None


def _none_of(table: Any) -> Any:
    """A table without rows."""
    return table.iloc[:0] if hasattr(table, "iloc") else table[:0]


def _join(join: Callable[[list[Any]], Any], parts: list[Any]) -> Any:
    try:
        return join(parts)
    except Exception as error:
        raise CannotAddError(f"these two do not go one behind the other: {error}") from error


def _add_by_operator(first: Any, second: Any) -> Any:
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


def _unlike(first: Any, second: Any) -> CannotAddError:
    if type(first) is type(second):
        return CannotAddError(f"objects of {_kind(first)} do not know how to add (give the class an __add__)")
    return CannotAddError(f"{_kind(first)} and {_kind(second)} do not add")


def _kind(thing: Any) -> str:
    kind = type(thing)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
