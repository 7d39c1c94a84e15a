"""Named variations of a wagon: it runs on events with other columns, and for several weights at a time."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, overload

import awkward as ak
import numpy as np

from branchline.errors import WagonError
from branchline.trains.sums.accumulators import CannotAddError, shares_objects
from branchline.trains.wagons.events import NOMINAL, WEIGHT, Events
from branchline.trains.wagons.shared_weights import SharedRun, Weights
from branchline.trains.wagons.wagons import OfUser, checked_function, is_coffea_processor

#: Wagons of this process that ran for one weight at a time, as they will in the next chunk.
_APART: weakref.WeakSet[VariedWagon] = weakref.WeakSet()
#: What the run for all weights of the chunk before returned, and not the copies that were made of it.
_BEFORE: weakref.WeakKeyDictionary[VariedWagon, Any] = weakref.WeakKeyDictionary()
Columns = Mapping[str, Callable[[Any], Any]]


@overload
def varied(
    wagon: None = None,
    *,
    weight: Callable[[Any], Any] | None = None,
    weights: Mapping[str, Callable[[Any], Any]] | None = None,
    columns: Mapping[str, Columns] | None = None,
    only_simulation: bool = True,
) -> Callable[[Any], VariedWagon]: ...


@overload
def varied(
    wagon: Any,
    *,
    weight: Callable[[Any], Any] | None = None,
    weights: Mapping[str, Callable[[Any], Any]] | None = None,
    columns: Mapping[str, Columns] | None = None,
    only_simulation: bool = True,
) -> VariedWagon: ...


def varied(
    wagon: Any = None,
    *,
    weight: Callable[[Any], Any] | None = None,
    weights: Mapping[str, Callable[[Any], Any]] | None = None,
    columns: Mapping[str, Columns] | None = None,
    only_simulation: bool = True,
) -> VariedWagon | Callable[[Any], VariedWagon]:
    """A wagon that runs for the nominal events and for each variation: its result is a dict by their names.

    It runs once for the nominal weights and all ``weights`` together, as far as what it does with ``events.weight`` can
    be done for several weights at a time: selections, calculations with functions of numpy and awkward, histograms
    that are filled. Otherwise it runs once for each, with the same results.

    ``events.weight`` in the wagon is the product of the nominal ``weight`` and, in a variation of ``weights``, of its
    factor. ``columns`` are variations of columns: by their names the functions that make the new ones, such as
    ``"Jet.pt"`` or ``"MET_pt"``. All functions take events. Names end with ``_up`` and ``_down`` for the two sides, as
    pictures and fits know them. Data (``is_data`` in the sample of the list) have weights of 1 and are not varied,
    unless ``only_simulation`` is False.

        spectrum = branchline.varied(
            momentum,
            weight=lambda events: events.genWeight,
            weights={"pileup_up": lambda events: events.puUp, "pileup_down": lambda events: events.puDown},
            columns={"jes_up": {"Jet.pt": lambda events: events.Jet.pt * 1.02}},
        )

    Without a ``wagon`` it decorates a function, which is then the wagon:

        @branchline.varied(weights={"pileup_up": pileup_up, "pileup_down": pileup_down})
        def momentum(events): ...

    Raises WagonError for what is no wagon, for a coffea processor, and for two variations of one name.
    """
    if wagon is None:

        def decorated(function: Any) -> VariedWagon:
            made: VariedWagon = varied(
                function, weight=weight, weights=weights, columns=columns, only_simulation=only_simulation
            )
            return made

        return decorated
    thing = checked_function(wagon) if isinstance(wagon, FunctionType) else wagon
    if isinstance(thing, type) or not callable(getattr(thing, "process", None)):
        raise WagonError(f"{wagon!r} is no wagon that could be varied", hint="give a function of events, or an object")
    if is_coffea_processor(thing):
        raise WagonError("a coffea processor makes its own variations, its events cannot be varied from outside")
    weights, columns = dict(weights or {}), {name: dict(one) for name, one in (columns or {}).items()}
    twice = (weights.keys() & columns.keys()) | ({*weights, *columns} & {NOMINAL})
    if twice:
        raise WagonError(f"two variations are called {sorted(twice)[0]!r}")
    return VariedWagon(thing, weight, weights, columns, only_simulation=only_simulation)


def shares_runs(wagon: VariedWagon) -> bool:
    """Whether the next run of the wagon in this process is one for all its weights."""
    return wagon not in _APART


class VariedWagon(OfUser):
    """A wagon and its variations; ``branchline.varied`` makes it."""

    def __init__(
        self,
        thing: Any,
        weight: Callable[[Any], Any] | None,
        weights: Mapping[str, Callable[[Any], Any]],
        columns: Mapping[str, Columns],
        *,
        only_simulation: bool,
    ) -> None:
        self.thing = thing
        self._weight = weight
        self._weights = weights
        self._columns = columns
        self._only_simulation = only_simulation

    def __repr__(self) -> str:
        return f"<wagon {self.name}, varied: {', '.join(self.variations)}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("thing", "select") or "thing" not in vars(self):
            raise AttributeError(name)
        if name == "name" and not hasattr(self.thing, "name"):
            return type(self.thing).__name__
        return getattr(self.thing, name)

    @property
    def code(self) -> Any:
        """The class or the function of the user."""
        return self.thing.code if isinstance(self.thing, OfUser) else type(self.thing)

    @property
    def variations(self) -> tuple[str, ...]:
        """The names in its results, the nominal one first."""
        return NOMINAL, *self._weights, *self._columns

    def process(self, events: Events) -> Mapping[str, Any]:
        """The results by the name of the variation."""
        is_data = bool(events.metadata.get("is_data")) and self._only_simulation
        nominal = _weights_of(events, None if is_data else self._weight)
        weights = {NOMINAL: nominal}
        if not is_data:
            weights |= {name: nominal * factor(events) for name, factor in self._weights.items()}
        results = dict(self._with_weights(events, weights))
        if is_data:
            return results
        for name, columns in self._columns.items():
            made = {column: make(events) for column, make in columns.items()}
            varied_events = events.varied(name, made)
            # A weight may follow from the column that is varied.
            weight = _weights_of(varied_events, self._weight)
            results[name] = self.thing.process(varied_events.varied(name, {WEIGHT: weight}))
        _refuse_same_objects(results)
        return results

    def _with_weights(self, events: Events, weights: Mapping[str, ak.Array]) -> Mapping[str, Any]:
        """The results for each of the weights: of one run of the wagon, if it can be."""
        results = self._together(events, weights) if len(weights) > 1 and shares_runs(self) else None
        if results is None:
            results = {
                name: self.thing.process(events.varied(name, {WEIGHT: weight})) for name, weight in weights.items()
            }
        return results

    def _together(self, events: Events, weights: Mapping[str, ak.Array]) -> Mapping[str, Any] | None:
        """The results of one run of the wagon; None if it has to run for one weight at a time. What it raises then
        counts, and is raised there again.
        """
        run = SharedRun(list(weights))
        before = _BEFORE.get(self)
        shared = events.varied(NOMINAL, {WEIGHT: Weights(run, list(weights.values()))})
        shared.when_asked_for_variation(run.end)
        try:
            with run.running():
                _BEFORE[self] = self.thing.process(shared)
                if shares_objects(before, _BEFORE[self]):
                    run.end()
                return run.results(_BEFORE[self])
        except Exception:  # noqa: BLE001 - whatever it was, a run for each weight tells whether it is the wagon's
            _APART.add(self)
            return None

    def postprocess(self, total: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the wagon makes of each sum."""
        finish = getattr(self.thing, "postprocess", None)
        if finish is None:
            return total
        finished = {name: finish(one) for name, one in total.items()}
        return {name: total[name] if one is None else one for name, one in finished.items()}


def _weights_of(events: Events, make: Callable[[Any], Any] | None) -> ak.Array:
    """The weights that a function gives, which may be one number for all events; without one they are 1."""
    weights = 1.0 if make is None else make(events)
    return ak.Array(np.full(len(events), weights) if isinstance(weights, int | float | np.number) else weights)


def _refuse_same_objects(results: Mapping[str, Any]) -> None:
    (nominal, first), *others = results.items()
    for name, result in others:
        if shares_objects(first, result):
            raise CannotAddError(
                f"process() returned one object for the variations {nominal!r} and {name!r}, which would have the "
                "content of both: make a new one in process()"
            )
