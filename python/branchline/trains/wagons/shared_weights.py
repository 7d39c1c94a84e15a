"""A single run of a wagon for several variations: each operation on varied arrays is applied to all of them.

What is not varied is thus computed only once, and an operation whose arguments are equal in several variations is
computed once for these. Below, *weights* also stands for other arrays that have one value per variation.

An operation that needs a single weight (``float(...)``, ``np.asarray(...)``, or reading a histogram filled with the
weights) ends the shared run. The wagon then runs once per variation, with the same results.

Two operations cannot be intercepted, because Python does not call a method of the weights: ``type(weight) is
ak.Array``, and C code that checks for float (``json.dumps(ak.sum(weight))``). The latter raises TypeError, which ends
the shared run unless the wagon catches the error.
"""

from __future__ import annotations

import copy
import functools
import operator
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import awkward as ak
import boost_histogram
import numpy as np

from branchline.trains.sums.cutflow import Cutflow

# Attributes that `hist` reads before filling and that do not depend on the histogram's contents.
_KNOWN_BEFORE_FILLING = ("_storage_type", "rank", "axis")
# Key in the memo of a deep copy. Its value is the index of the weight for which the copy is made.
_PLACE = "branchline: place of the weights"
# Types of results that become shared weights. Results of other types, such as None, end the shared run, because a wagon
# could inspect them.
_ARRAYS = (ak.Array, ak.Record, np.ndarray, np.generic)
# Functions that write to one of their arguments. They end the shared run, because there is only one such argument for
# all weights.
_WRITING = (np.copyto, np.put, np.putmask, np.place, np.put_along_axis, np.fill_diagonal)


class NotSharedError(Exception):
    """A wagon used weights in a way that works only for a single weight."""


class SharedRun:
    """A run of a wagon with several weights per event, which computes one result per weight. ``names`` are the names of
    the weights.
    """

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.ended = False
        self._filled: dict[int, _Filled] = {}

    def end(self) -> NoReturn:
        """End the shared run with an error. Even if the wagon catches the error, ``ended`` stays set."""
        self.ended = True
        raise NotSharedError("this works only for one weight at a time")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Enclose the run of the wagon. Afterwards, the histograms that the wagon filled are restored."""
        outer = getattr(_RUNNING, "run", None)
        with _REPLACEMENTS.active():
            _RUNNING.run = self
            try:
                yield
            finally:
                _RUNNING.run = outer
                for one in self._filled.values():
                    one.restore()
                self._filled = {}

    def results(self, result: object) -> Mapping[str, Any]:
        """Return copies of the wagon's result, by name of the weight. Raises NotSharedError."""
        if self.ended or any(one.is_changed() for one in self._filled.values()):
            self.end()
        results, given = {}, set()
        for place, name in enumerate(self.names):
            memo: dict[Any, Any] = {_PLACE: (self, place)}
            for key, one in self._filled.items():
                filled = one.copies[place]
                memo[key] = filled.copy() if id(filled) in given else filled
                given.add(id(filled))
            results[name] = copy.deepcopy(result, memo)
        return results

    def of_each(self, make: Callable[..., Any], *arguments: object, **options: object) -> Any:
        """Call a function once per weight. Shared weights in the arguments are replaced by their values for this
        weight.
        """
        given = (*arguments, *options.values())
        # The function may exhaust an iterator, or call an argument with side effects. Neither may happen more than
        # once.
        if any(hasattr(type(one), "__next__") or (callable(one) and not isinstance(one, type)) for one in given):
            self.end()
        with self._ending():
            weights = list(self._weights_in((arguments, options)))
            found: dict[tuple[int, ...], object] = {}
            made = []
            for place in range(len(self.names)):
                # Variations with the same arguments share the result.
                key = tuple([id(one.at(place)) for one in weights])
                if key not in found:
                    found[key] = make(*self._of(place, arguments), **self._of(place, options))
                made.append(found[key])
            return self._joined(made, is_shared=len(found) == 1)

    def fill(self, fill: Callable[..., Any], histogram: Any, arguments: tuple[object, ...], options: Any) -> Any:
        """Fill one copy of the histogram per weight."""
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
            weights = list(self._weights_in((arguments, options)))
            keys = [(id(one), *[id(each.at(place)) for each in weights]) for place, one in enumerate(filled.copies)]
            # Weights with the same arguments so far share a copy, which is divided when their arguments differ.
            last = {key[0]: key for key in dict.fromkeys(keys)}
            done: dict[tuple[int, ...], object] = {}
            for place, (one, key) in enumerate(zip(filled.copies, keys, strict=True)):
                if key not in done:
                    done[key] = one if key == last[key[0]] else one.copy()
                    fill(done[key], *self._of(place, arguments), **self._of(place, options))
            filled.copies = [done[key] for key in keys]
            if filled.grows and not filled.grown():
                self.end()
        return histogram

    def cutflow(self, make: Callable[[object], Cutflow], weights: object) -> SharedCutflow:
        """Return a cutflow for all weights. ``make`` returns one for the weights of one variation."""
        with self._ending():
            return SharedCutflow(self, [make(self._of(place, weights)) for place in range(len(self.names))])

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """End the shared run after an error, even if the wagon catches it: the error may occur for only one of the
        weights.
        """
        try:
            yield
        except Exception:
            self.ended = True
            raise

    def _of(self, place: int, value: Any) -> Any:
        """Replace shared weights in a value by their values for the weight with index ``place``."""
        kind = type(value)
        if kind is Weights:
            return value.at(place) if value.run is self else self.end()
        if kind is tuple or kind is list:
            return kind(self._of(place, one) for one in value)
        if kind is dict:
            return {key: self._of(place, one) for key, one in value.items()}
        return value

    def _weights_in(self, value: object) -> Iterator[Weights]:
        """Yield the shared weights in a value."""
        if type(value) is Weights:
            yield value if value.run is self else self.end()
        elif type(value) is dict:
            yield from self._weights_in(list(value.values()))
        elif type(value) is tuple or type(value) is list:
            for one in value:
                yield from self._weights_in(one)

    def _joined(self, made: list[Any], *, is_shared: bool) -> Any:
        """Join the results for all weights into shared weights. ``is_shared`` means that the function was called once
        for all weights.
        """
        if is_shared:
            return made[0]
        kinds = {type(one) for one in made}
        kind = kinds.pop()
        # If the function returned the same array for every weight, it wrote to an array that existed before.
        if kinds or (issubclass(kind, np.ndarray) and all(one is made[0] for one in made)):
            self.end()
        if kind in (tuple, list) and len({len(one) for one in made}) == 1 and made[0]:
            return kind(self._joined(list(parts), is_shared=False) for parts in zip(*made, strict=True))
        return Weights(self, made) if issubclass(kind, _ARRAYS) else self.end()


class Weights(np.lib.mixins.NDArrayOperatorsMixin):
    """Several weights per event, or results computed from several weights. Functions of numpy and awkward are applied
    to the values of each weight.
    """

    __slots__ = ("_run", "_values")
    _run: SharedRun
    _values: list[Any]

    def __init__(self, run: SharedRun, values: list[Any]) -> None:
        object.__setattr__(self, "_run", run)
        object.__setattr__(self, "_values", values)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        # Wagons may check whether the weights are an array.
        return type(self._values[0])

    def at(self, place: int) -> Any:
        """Return the values for one weight."""
        return self._values[place]

    @property
    def run(self) -> SharedRun:
        """The shared run to which these weights belong."""
        return self._run

    def __getitem__(self, where: object) -> Any:
        return self._run.of_each(operator.getitem, self, where)

    def __len__(self) -> int:
        lengths = set(map(len, self._values))
        return lengths.pop() if len(lengths) == 1 else self._run.end()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: object, **options: object) -> Any:
        if method != "__call__" or "out" in options:
            self._run.end()
        return self._run.of_each(ufunc, *inputs, **options)

    def __array_function__(self, function: Any, _types: object, arguments: Any, options: Any) -> Any:
        if function in _WRITING or "out" in options:
            self._run.end()
        return self._run.of_each(function, *arguments, **options)

    def __awkward_function__(self, function: Any, _likes: object, arguments: Any, options: Any) -> Any:
        return self._run.of_each(function, *arguments, **options)

    def __deepcopy__(self, memo: Any) -> Any:
        copied = memo.get(_PLACE)
        if copied is None or copied[0] is not self._run:
            self._run.end()
        return copy.deepcopy(self._values[copied[1]], memo)

    def __getattr__(self, name: str) -> object:
        # Libraries look up names with two underscores to detect optional features.
        if name.startswith("__") and not hasattr(type(self._values[0]), name):
            raise AttributeError(name)
        is_part = all(map(_has_part(name), self._values))
        return self._run.of_each(getattr, self, name) if is_part else self._run.end()

    def _end(self, *_: object, **__: object) -> NoReturn:
        self._run.end()

    __array__ = __bool__ = __float__ = __int__ = __index__ = __complex__ = __round__ = __hash__ = _end
    # Intercept these: otherwise, Python would access events one at a time.
    __iter__ = __contains__ = __reversed__ = _end
    __setitem__ = __delitem__ = __setattr__ = __delattr__ = _end
    __copy__ = __repr__ = __str__ = __format__ = __dir__ = __reduce_ex__ = _end


class SharedCutflow:
    """The cutflows of a wagon for all weights. Reading their numbers ends the shared run."""

    __slots__ = ("_flows", "_masks", "_run")

    def __init__(self, run: SharedRun, flows: list[Cutflow]) -> None:
        self._run = run
        self._flows = flows
        self._masks: list[object] = [None] * len(flows)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return Cutflow

    def cut(self, name: str, mask: object) -> object:
        """Add a cut for each weight, and return the masks. Weights with the same masks so far share the new one."""
        with self._run._ending():
            weights = list(self._run._weights_in((mask,)))
            masks: dict[tuple[int, ...], object] = {}
            made = []
            for place, flow in enumerate(self._flows):
                passed = flow.cut(name, self._run._of(place, mask))
                key = (id(self._masks[place]), *[id(one.at(place)) for one in weights])
                made.append(masks.setdefault(key, passed))
            self._masks = made
            return self._run._joined(made, is_shared=len(masks) == 1)

    def __deepcopy__(self, memo: Any) -> Any:
        copied = memo.get(_PLACE)
        if copied is None or copied[0] is not self._run:
            self._run.end()
        return copy.deepcopy(self._flows[copied[1]], memo)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") and not hasattr(Cutflow, name):
            raise AttributeError(name)
        self._run.end()

    def _end(self, *_: object, **__: object) -> NoReturn:
        self._run.end()

    __iter__ = __add__ = __radd__ = __eq__ = __ne__ = _end
    __copy__ = __repr__ = __str__ = __format__ = __dir__ = __reduce_ex__ = _end
    __hash__ = None  # type: ignore[assignment]


def _has_part(name: str) -> Callable[[object], bool]:
    """Return whether an array has a field of this name, or a property of its behavior, such as the mass of a vector."""

    def has_part(array: object) -> bool:
        kind = ak.Record if isinstance(array, ak.Record) else ak.Array
        if not isinstance(array, kind) or hasattr(kind, name):
            return False
        return name in ak.fields(array) or isinstance(getattr(type(array), name, None), property)

    return has_part


@dataclass
class _Filled:
    """A histogram that was filled with shared weights: its previous contents, and one copy per weight."""

    histogram: Any
    before: object
    copies: list[Any]
    grows: bool
    described: object

    @classmethod
    def of(cls, histogram: Any, count: int) -> _Filled | None:
        """Create the copies of a histogram. Returns None if another object, such as a view, refers to the contents,
        because that object would not see the new contents.
        """
        first = histogram.copy()
        if _holders(histogram) != _holders(first):
            return None
        return cls(histogram, histogram._hist, [first] * count, bool(histogram._has_growth), _description(histogram))

    def grown(self) -> bool:
        """Copy the axes, which may have grown, from the copies to the histogram. Returns False if the copies have
        different axes.
        """
        if len({repr(_axes_described(one)) for one in self.copies}) > 1:
            return False
        self.histogram.axes = self.copies[0]._generate_axes_()
        self.described = _description(self.histogram)
        return True

    def is_changed(self) -> bool:
        """Return whether the histogram's name or axes have changed since it was filled."""
        return bool(_description(self.histogram) != self.described)

    def restore(self) -> None:
        """Restore the contents and axes that the histogram had before it was filled."""
        self.histogram._hist = self.before
        if self.grows:
            self.histogram.axes = self.histogram._generate_axes_()


def _holders(histogram: Any) -> int:
    """Return the reference count of a histogram's contents, not counting references by the histogram's own axes."""
    histogram.axes = ()
    count = sys.getrefcount(histogram._hist)
    histogram.axes = histogram._generate_axes_()
    return count


def _axes_described(histogram: Any) -> object:
    return [(repr(one), dict(vars(one))) for one in histogram.axes]


def _description(histogram: object) -> object:
    others = {name: one for name, one in vars(histogram).items() if name != "axes"}
    return repr(others), repr(_axes_described(histogram))


class _Guard:
    """Replaces the contents of a histogram that is filled for several weights. Any access to the contents ends the
    shared run.
    """

    def __init__(self, run: SharedRun, filled: _Filled) -> None:
        self.run = run
        self._filled = filled

    def __getattr__(self, name: str) -> Any:
        return getattr(self._filled.copies[0]._hist, name) if name in _KNOWN_BEFORE_FILLING else self.run.end()

    def _end(self, *_: object, **__: object) -> NoReturn:
        self.run.end()

    __copy__ = __deepcopy__ = __reduce_ex__ = __eq__ = __ne__ = __repr__ = __str__ = __array__ = _end
    __hash__ = None  # type: ignore[assignment]


class _Replacements:
    """Intercepts the filling of histograms, the selection of arrays, and cutflows while a wagon runs for several
    weights. Calls without shared weights work as usual.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = 0
        self._methods: list[tuple[type, str, object, object]] = []

    @contextmanager
    def active(self) -> Iterator[None]:
        """Replace the methods of ``_REPLACED`` during the block."""
        with self._lock:
            if not self._runs:
                for owner, name, replacing in _REPLACED:
                    method = vars(owner)[name]
                    self._methods.append((owner, name, method, replacing(method)))
                    setattr(owner, name, self._methods[-1][-1])
            self._runs += 1
        try:
            yield
        finally:
            with self._lock:
                self._runs -= 1
                while not self._runs and self._methods:
                    owner, name, method, ours = self._methods.pop()
                    # If a wagon has replaced this function, keep the wagon's function, which may call this one.
                    if vars(owner)[name] is ours:
                        setattr(owner, name, method)


def _filling_each(fill: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(fill)
    def fill_each(self: Any, *arguments: object, **options: object) -> object:
        if type(self._hist) is _Guard:
            return self._hist.run.fill(fill, self, arguments, options)
        for one in (*options.values(), *arguments):
            if type(one) is Weights:
                return one.run.fill(fill, self, arguments, options)
        return fill(self, *arguments, **options)

    return fill_each


def _selecting_each(getitem: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(getitem)
    def get_each(self: object, where: object) -> object:
        for one in where if type(where) is tuple else (where,):
            if type(one) is Weights:
                return one.run.of_each(getitem, self, where)
        return getitem(self, where)

    return get_each


def _cutflows_of_each(of: Any) -> object:
    @functools.wraps(of.__func__)
    def of_each(cls: type[Cutflow], weights: object, first: str = "all") -> object:
        run = getattr(_RUNNING, "run", None)
        if run is None:
            return of.__func__(cls, weights, first)
        return run.cutflow(lambda own: of.__func__(cls, own, first), weights)

    return classmethod(of_each)


#: The shared run of each thread.
_RUNNING = threading.local()
_REPLACED: tuple[tuple[type, str, Callable[..., object]], ...] = (
    (Cutflow, "of", _cutflows_of_each),
    (boost_histogram.Histogram, "fill", _filling_each),
    (ak.Array, "__getitem__", _selecting_each),
)
_REPLACEMENTS = _Replacements()
