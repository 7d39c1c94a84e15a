"""One run of a wagon for several weights: whatever is made of the weights is made of each of them.

Selections and columns are then computed once and not once for each weight. What a wagon does with weights that cannot
be done for several at a time (``float(...)``, ``np.asarray(...)``, the contents of a histogram filled with them) ends
the run, and the wagon runs once for each weight: results are the same either way. Two questions are out of reach, as
Python answers them without asking the object: ``type(weight) is ak.Array``, and code in C that takes a float by its
type (``json.dumps(ak.sum(weight))``). The latter raises TypeError, which ends the run unless the wagon catches it.
"""

from __future__ import annotations

import copy
import functools
import sys
import threading
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
# What may be made of weights for several at a time. Of anything else, as of None, a wagon can ask what it is.
_ARRAYS = (ak.Array, ak.Record, np.ndarray, np.generic)
# They write to one of their arguments, which there is once and not once for each weight.
_WRITING = (np.copyto, np.put, np.putmask, np.place, np.put_along_axis, np.fill_diagonal)


class NotSharedError(Exception):
    """A wagon did with weights what cannot be done for several at a time."""


class SharedRun:
    """A run of a wagon with several weights per event, of these ``names``: makes the results for each of them."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.ended = False
        self._filled: dict[int, _Filled] = {}

    def end(self) -> NoReturn:
        """Ends the run; whoever catches the error cannot go on, for ``ended`` stays."""
        self.ended = True
        raise NotSharedError("this is done for one weight at a time")

    @contextmanager
    def running(self) -> Iterator[None]:
        """While the wagon runs. Histograms that it filled are as they were before when this ends."""
        with _FILLS.caught():
            try:
                yield
            finally:
                for one in self._filled.values():
                    one.restore()
                self._filled = {}

    def results(self, result: Any) -> Mapping[str, Any]:
        """Copies of what the wagon returned, by the names of the weights. Raises NotSharedError."""
        if self.ended or any(one.is_changed() for one in self._filled.values()):
            self.end()
        results = {}
        for place, name in enumerate(self.names):
            memo: dict[Any, Any] = {key: one.copies[place] for key, one in self._filled.items()}
            memo[_PLACE] = self, place
            results[name] = copy.deepcopy(result, memo)
        return results

    def of_each(self, make: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What a function makes of each of the weights among its arguments."""
        if any(_is_used_once(one) for one in (*arguments, *options.values())):
            self.end()
        with self._ending():
            made = [make(*self._of(place, arguments), **self._of(place, options)) for place in range(len(self.names))]
            return self._joined(made)

    def fill(self, fill: Callable[..., Any], histogram: Any, arguments: tuple[Any, ...], options: Any) -> Any:
        """Fills a copy of the histogram for each of the weights."""
        with self._ending():
            filled = self._filled.get(id(histogram))
            if filled is None:
                filled = _Filled.of(histogram, len(self.names))
                if filled is None:
                    self.end()
                self._filled[id(histogram)] = filled
                histogram._hist = _Guard(self, filled)
            arguments = tuple(
                np.asarray(one) if isinstance(one, ak.Array) and type(one) is not Weights else one for one in arguments
            )
            if filled.grows and filled.is_changed():
                self.end()
            for place, one in enumerate(filled.copies):
                fill(one, *self._of(place, arguments), **self._of(place, options))
            if filled.grows and not filled.grown():
                self.end()
        return histogram

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Whoever catches an error of this cannot go on: it may be one of a single weight."""
        try:
            yield
        except Exception:
            self.ended = True
            raise

    def _of(self, place: int, value: Any) -> Any:
        """A value with one of the weights for all of them."""
        kind = type(value)
        if kind is Weights:
            return value.at(place) if value.run is self else self.end()
        if kind is tuple or kind is list:
            return kind(self._of(place, one) for one in value)
        if kind is dict:
            return {key: self._of(place, one) for key, one in value.items()}
        return value

    def _joined(self, made: list[Any]) -> Any:
        """What was made of each weight as one."""
        kinds = {type(one) for one in made}
        kind = kinds.pop()
        # The same array for each was there before, and was written to.
        if kinds or (issubclass(kind, np.ndarray) and made[0] is made[-1]):
            self.end()
        if kind in (tuple, list) and len({len(one) for one in made}) == 1 and made[0]:
            return kind(self._joined(list(parts)) for parts in zip(*made, strict=True))
        return Weights(self, made) if issubclass(kind, _ARRAYS) else self.end()


def _is_used_once(value: Any) -> bool:
    """Whether a function may use it up, or call it and so do something more than once."""
    return hasattr(type(value), "__next__") or (callable(value) and not isinstance(value, type))


class Weights(np.lib.mixins.NDArrayOperatorsMixin):
    """Several weights of each event, or what was made of them: functions of numpy and awkward are applied to each."""

    __slots__ = ("_run", "_values")
    _run: SharedRun
    _values: list[Any]

    def __init__(self, run: SharedRun, values: list[Any]) -> None:
        object.__setattr__(self, "_run", run)
        object.__setattr__(self, "_values", values)

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
        lengths = set(map(len, self._values))
        return lengths.pop() if len(lengths) == 1 else self._run.end()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or "out" in options:
            self._run.end()
        return self._run.of_each(ufunc, *inputs, **options)

    def __array_function__(self, function: Any, _types: Any, arguments: Any, options: Any) -> Any:
        if function in _WRITING or "out" in options:
            self._run.end()
        return self._run.of_each(function, *arguments, **options)

    def __awkward_function__(self, function: Any, _likes: Any, arguments: Any, options: Any) -> Any:
        return self._run.of_each(function, *arguments, **options)

    def __deepcopy__(self, memo: Any) -> Any:
        copied = memo.get(_PLACE)
        if copied is None or copied[0] is not self._run:
            self._run.end()
        return copy.deepcopy(self._values[copied[1]], memo)

    def __getattr__(self, name: str) -> NoReturn:
        # Packages look for what an array can do by such names, and do without.
        if name.startswith("__") and not hasattr(type(self._values[0]), name):
            raise AttributeError(name)
        self._run.end()

    def _end(self, *_: Any, **__: Any) -> NoReturn:
        self._run.end()

    __array__ = __bool__ = __float__ = __int__ = __index__ = __complex__ = __round__ = __hash__ = _end
    # Without these a loop would ask for events one by one.
    __iter__ = __contains__ = __reversed__ = _end
    __setitem__ = __delitem__ = __setattr__ = __delattr__ = _end
    __copy__ = __repr__ = __str__ = __format__ = __dir__ = __reduce_ex__ = _end


@dataclass
class _Filled:
    """A histogram that was filled with weights: its contents before, and a copy for each of them."""

    histogram: Any
    before: Any
    copies: list[Any]
    grows: bool
    described: Any

    @classmethod
    def of(cls, histogram: Any, count: int) -> _Filled | None:
        """None where somebody else has the contents, as a view of them has, and would miss what is filled."""
        copies = [histogram.copy() for _ in range(count)]
        if _holders(histogram) != _holders(copies[0]):
            return None
        return cls(histogram, histogram._hist, copies, bool(histogram._has_growth), _description(histogram))

    def grown(self) -> bool:
        """Has the histogram show the axes that its copies have now; False where they differ."""
        if len({repr(_axes_described(one)) for one in self.copies}) > 1:
            return False
        self.histogram.axes = self.copies[0]._generate_axes_()
        self.described = _description(self.histogram)
        return True

    def is_changed(self) -> bool:
        """Whether its name or its axes are others than they were when it was filled."""
        return bool(_description(self.histogram) != self.described)

    def restore(self) -> None:
        """The histogram is as it was before."""
        self.histogram._hist = self.before
        if self.grows:
            self.histogram.axes = self.histogram._generate_axes_()


def _holders(histogram: Any) -> int:
    """How many have the contents of a histogram. Its own axes do not count."""
    histogram.axes = ()
    count = sys.getrefcount(histogram._hist)
    histogram.axes = histogram._generate_axes_()
    return count


def _axes_described(histogram: Any) -> Any:
    return [(repr(one), dict(vars(one))) for one in histogram.axes]


def _description(histogram: Any) -> Any:
    others = {name: one for name, one in vars(histogram).items() if name != "axes"}
    return repr(others), repr(_axes_described(histogram))


class _Guard:
    """In place of the contents of a histogram, of which there are several: who wants to see them ends the run."""

    def __init__(self, run: SharedRun, filled: _Filled) -> None:
        self.run = run
        self._filled = filled

    def __getattr__(self, name: str) -> Any:
        return getattr(self._filled.copies[0]._hist, name) if name in _KNOWN_BEFORE_FILLING else self.run.end()

    def _end(self, *_: Any, **__: Any) -> NoReturn:
        self.run.end()

    __copy__ = __deepcopy__ = __reduce_ex__ = __eq__ = __ne__ = __repr__ = __str__ = __array__ = _end
    __hash__ = None  # type: ignore[assignment]


class _Fills:
    """While wagons run for several weights: has histograms filled with several at a time, all others as ever."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = 0

    @contextmanager
    def caught(self) -> Iterator[None]:
        """``boost_histogram.Histogram.fill`` is another one meanwhile."""
        with self._lock:
            if not self._runs:
                self._fill = boost_histogram.Histogram.fill
                self._ours = _filling_each(self._fill)
                boost_histogram.Histogram.fill = self._ours  # type: ignore[method-assign]
            self._runs += 1
        try:
            yield
        finally:
            with self._lock:
                self._runs -= 1
                # Another one has been put in place by the wagon, and calls ours.
                if not self._runs and boost_histogram.Histogram.fill is self._ours:
                    boost_histogram.Histogram.fill = self._fill  # type: ignore[method-assign]


def _filling_each(fill: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fill)
    def fill_each(self: Any, *arguments: Any, **options: Any) -> Any:
        if type(self._hist) is _Guard:
            return self._hist.run.fill(fill, self, arguments, options)
        for one in (*options.values(), *arguments):
            if type(one) is Weights:
                return one.run.fill(fill, self, arguments, options)
        return fill(self, *arguments, **options)

    return fill_each


_FILLS = _Fills()
