"""One run of a wagon for several weights: whatever is made of the weights is made of each of them.

Selections and columns are then computed once and not once for each weight. What a wagon does with weights that cannot
be done for several at a time (``float(...)``, ``np.asarray(...)``, the contents of a histogram filled with them) ends
the run, and the wagon runs once for each weight: results are the same either way.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import awkward as ak
import boost_histogram
import numpy as np

# What `hist` asks a histogram before it is filled, of which nothing depends on its contents.
_KNOWN_BEFORE_FILLING = ("_storage_type", "rank", "axis")
# Where a copy of a result is told for which weights it is.
_PLACE = "branchline: place of the weights"


class NotSharedError(Exception):
    """A wagon did with weights what cannot be done for several at a time."""


class SharedRun:
    """A run of a wagon with several weights per event: makes its weights, and the results for each of them.

    ``names`` are those of the weights, ``weights`` one array of each.
    """

    def __init__(self, weights: Mapping[str, ak.Array]) -> None:
        _catch_fills()
        self.names = list(weights)
        self.weights = Weights(self, list(weights.values()))
        self.ended = False
        self._filled: dict[int, _Filled] = {}

    def end(self) -> NoReturn:
        """Ends the run; whoever catches the error cannot go on, for ``ended`` stays."""
        self.ended = True
        raise NotSharedError("this is done for one weight at a time")

    @contextmanager
    def running(self) -> Iterator[None]:
        """While the wagon runs. Histograms that it filled are as they were before when this ends."""
        try:
            yield
        finally:
            for one in self._filled.values():
                one.histogram._hist = one.before

    def results(self, result: Any) -> Mapping[str, Any]:
        """Copies of what the wagon returned, by the names of the weights. Raises NotSharedError."""
        if self.ended or any(one.is_changed() for one in self._filled.values()):
            self.end()
        results = {}
        for place, name in enumerate(self.names):
            memo: dict[Any, Any] = {key: one.copies[place] for key, one in self._filled.items()}
            memo[_PLACE] = place
            results[name] = copy.deepcopy(result, memo)
        return results

    def of_each(self, make: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What a function makes of each of the weights among its arguments."""
        try:
            made = [make(*_of(place, arguments), **_of(place, options)) for place in range(len(self.names))]
        except Exception:
            # It may fail for one weight alone.
            self.ended = True
            raise
        if isinstance(made[0], list | tuple):
            return type(made[0])(Weights(self, list(parts)) for parts in zip(*made, strict=True))
        return Weights(self, made)

    def fill(self, fill: Callable[..., Any], histogram: Any, arguments: tuple[Any, ...], options: Any) -> Any:
        """Fills a copy of the histogram for each of the weights."""
        filled = self._filled.get(id(histogram))
        if filled is None:
            filled = _Filled.of(histogram, len(self.names))
            self._filled[id(histogram)] = filled
            histogram._hist = _Guard(self, filled.before)
        arguments = tuple(
            np.asarray(one) if isinstance(one, ak.Array) and type(one) is not Weights else one for one in arguments
        )
        try:
            for place, one in enumerate(filled.copies):
                fill(one, *_of(place, arguments), **_of(place, options))
        except Exception:
            self.ended = True
            raise
        return histogram


class Weights(np.lib.mixins.NDArrayOperatorsMixin):
    """Several weights of each event, or what was made of them: functions of numpy and awkward are applied to each."""

    __slots__ = ("_run", "_values")
    # Without it a loop would ask for events one by one.
    __iter__ = None

    def __init__(self, run: SharedRun, values: list[Any]) -> None:
        self._run = run
        self._values = values

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        # For wagons that ask what they got.
        return type(self._values[0])

    def at(self, place: int) -> Any:
        """The values for one of the weights."""
        return self._values[place]

    @property
    def run(self) -> SharedRun:
        """The run that they belong to."""
        return self._run

    def __getitem__(self, where: Any) -> Any:
        return self._run.of_each(lambda values, own: values[own], self, where)

    def __len__(self) -> int:
        lengths = {len(one) for one in self._values}
        return lengths.pop() if len(lengths) == 1 else self._run.end()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or "out" in options:
            self._run.end()
        return self._run.of_each(ufunc, *inputs, **options)

    def __array_function__(self, function: Any, _types: Any, arguments: Any, options: Any) -> Any:
        return self._run.of_each(function, *arguments, **options)

    def __awkward_function__(self, function: Any, _likes: Any, arguments: Any, options: Any) -> Any:
        return self._run.of_each(function, *arguments, **options)

    def __deepcopy__(self, memo: Any) -> Any:
        return copy.deepcopy(self._values[memo[_PLACE]], memo) if _PLACE in memo else self._run.end()

    def __getattr__(self, name: str) -> NoReturn:
        # Packages look for what an array can do by such names, and do without.
        if name.startswith("__"):
            raise AttributeError(name)
        self._run.end()

    def _end(self, *_: Any, **__: Any) -> NoReturn:
        self._run.end()

    __array__ = __bool__ = __float__ = __int__ = __index__ = __complex__ = _end
    __contains__ = __setitem__ = __copy__ = __repr__ = __str__ = __format__ = __reduce_ex__ = _end


@dataclass
class _Filled:
    """A histogram that was filled with weights: its contents before, and a copy for each of them."""

    histogram: Any
    before: Any
    copies: list[Any]
    described: Any

    @classmethod
    def of(cls, histogram: Any, count: int) -> _Filled:
        copies = [histogram.copy() for _ in range(count)]
        return cls(histogram, histogram._hist, copies, _description(histogram))

    def is_changed(self) -> bool:
        """Whether its name or its axes are others than when it was first filled."""
        return bool(_description(self.histogram) != self.described)


def _description(histogram: Any) -> Any:
    axes = [(repr(one), dict(vars(one))) for one in histogram.axes]
    return repr({name: one for name, one in vars(histogram).items() if name != "axes"}), repr(axes)


class _Guard:
    """In place of the contents of a histogram, of which there are several: who wants to see them ends the run."""

    def __init__(self, run: SharedRun, before: Any) -> None:
        self.run = run
        self._before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._before, name) if name in _KNOWN_BEFORE_FILLING else self.run.end()

    def _end(self, *_: Any, **__: Any) -> NoReturn:
        self.run.end()

    __copy__ = __deepcopy__ = __reduce_ex__ = __eq__ = __ne__ = __repr__ = __str__ = __array__ = _end
    __hash__ = None  # type: ignore[assignment]


def _of(place: int, value: Any) -> Any:
    """A value with one of the weights for all of them."""
    kind = type(value)
    if kind is Weights:
        return value.at(place)
    if kind is tuple or kind is list:
        return kind(_of(place, one) for one in value)
    if kind is dict:
        return {key: _of(place, one) for key, one in value.items()}
    return value


@functools.cache
def _catch_fills() -> None:
    """Has histograms filled with several weights at a time. All others are filled as ever."""
    fill = boost_histogram.Histogram.fill

    @functools.wraps(fill)
    def fill_each(self: Any, *arguments: Any, **options: Any) -> Any:
        if type(self._hist) is _Guard:
            return self._hist.run.fill(fill, self, arguments, options)
        for one in (*options.values(), *arguments):
            if type(one) is Weights:
                return one.run.fill(fill, self, arguments, options)
        return fill(self, *arguments, **options)

    boost_histogram.Histogram.fill = fill_each  # type: ignore[method-assign]
