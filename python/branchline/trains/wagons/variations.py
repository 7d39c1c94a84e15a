"""Variations of a wagon. The wagon runs on events with varied columns, and for several weights at a time."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from types import FunctionType
from typing import Any, overload

import awkward as ak
import numpy as np

from branchline.base.checks import texts
from branchline.base.quantities import MIB
from branchline.errors import WagonError
from branchline.trains.sums.accumulators import CannotAddError, shares_objects
from branchline.trains.wagons.events import NOMINAL, WEIGHT, Events, SharedColumns, VariedColumns
from branchline.trains.wagons.shared_weights import SharedRun, Weights
from branchline.trains.wagons.variation_names import side_of
from branchline.trains.wagons.wagons import OfUser, checked_function, is_coffea_processor

#: Wagons of this process that could not share a run between weights. From the next chunk on, they run once per weight.
_APART: weakref.WeakSet[VariedWagon] = weakref.WeakSet()
#: Wagons of this process that could not share a run between variations of columns.
_COLUMNS_APART: weakref.WeakSet[VariedWagon] = weakref.WeakSet()
#: Maximum size of the varied columns of the variations that share a run. A wagon needs several times as much for its
#: selections of all these variations.
_BATCH_BYTES_MAX = 64 * MIB
#: The object that each wagon returned in its shared run for the previous chunk, before it was copied for each weight.
_BEFORE: weakref.WeakKeyDictionary[VariedWagon, Any] = weakref.WeakKeyDictionary()
Columns = Mapping[str, Callable[[Events], object]]


@overload
def varied(
    wagon: None = None,
    *,
    weight: Callable[[Events], object] | None = None,
    weights: Mapping[str, Callable[[Events], object]] | None = None,
    columns: Mapping[str, Columns] | None = None,
    samples: Mapping[str, Sequence[str]] | None = None,
    only_simulation: bool = True,
) -> Callable[[object], VariedWagon]: ...


@overload
def varied(
    wagon: object,
    *,
    weight: Callable[[Events], object] | None = None,
    weights: Mapping[str, Callable[[Events], object]] | None = None,
    columns: Mapping[str, Columns] | None = None,
    samples: Mapping[str, Sequence[str]] | None = None,
    only_simulation: bool = True,
) -> VariedWagon: ...


def varied(
    wagon: object = None,
    *,
    weight: Callable[[Events], object] | None = None,
    weights: Mapping[str, Callable[[Events], object]] | None = None,
    columns: Mapping[str, Columns] | None = None,
    samples: Mapping[str, Sequence[str]] | None = None,
    only_simulation: bool = True,
) -> VariedWagon | Callable[[object], VariedWagon]:
    """Make a wagon that runs on the nominal events and on each variation. Its result is a dict with one result per
    variation.

    In the wagon, ``events.weight`` is the product of the nominal ``weight`` and, in a variation of ``weights``, the
    factor of that variation. ``columns`` are variations of columns: for each variation, functions that compute new
    columns such as ``"Jet.pt"`` or ``"MET_pt"``. All functions are called with events.

    The wagon runs only once for all variations if its operations on weights and varied columns work for several
    variations at a time: selections, fields, numpy and awkward functions, and histogram filling. What is not varied is
    then computed only once. Otherwise the wagon runs once per variation, with the same results.

    Names of two-sided variations end with ``_up`` and ``_down``, ``Up`` and ``Down``, or ``__1up`` and ``__1down``;
    plots and fits rely on these suffixes. ``samples`` restricts uncertainties to some datasets, given by patterns, such
    as ``{"top_pt": ["ttbar*"]}``; the results must be separate by dataset. Data (``is_data`` in the sample of the list)
    have weights of 1 and are not varied, unless ``only_simulation`` is False.

        spectrum = branchline.varied(
            momentum,
            weight=lambda events: events.genWeight,
            weights={"pileup_up": lambda events: events.puUp, "pileup_down": lambda events: events.puDown},
            columns={"jes_up": {"Jet.pt": lambda events: events.Jet.pt * 1.02}},
        )

    Without a ``wagon``, ``varied`` is a decorator for a function:

        @branchline.varied(weights={"pileup_up": pileup_up, "pileup_down": pileup_down})
        def momentum(events): ...

    Raises WagonError if ``wagon`` is not a wagon or is a coffea processor, and if two variations have the same name.
    """
    if wagon is None:

        def decorated(function: object) -> VariedWagon:
            made: VariedWagon = varied(
                function,
                weight=weight,
                weights=weights,
                columns=columns,
                samples=samples,
                only_simulation=only_simulation,
            )
            return made

        return decorated
    thing = checked_function(wagon) if isinstance(wagon, FunctionType) else wagon
    if isinstance(thing, type) or not callable(getattr(thing, "process", None)):
        raise WagonError(f"{wagon!r} is not a wagon that can be varied", hint="pass a function of events, or an object")
    if is_coffea_processor(thing):
        raise WagonError("a coffea processor makes its own variations, so its events cannot be varied from outside")
    weights, columns = dict(weights or {}), {name: dict(one) for name, one in (columns or {}).items()}
    twice = (weights.keys() & columns.keys()) | ({*weights, *columns} & {NOMINAL})
    if twice:
        raise WagonError(f"two variations are called {sorted(twice)[0]!r}")
    names = [*weights, *columns]
    patterns = {name: texts("samples", some, '["ttbar*"]') for name, some in (samples or {}).items()}
    unknown = sorted(patterns.keys() - {*names, *(side_of(name, names)[0] for name in names)})
    if unknown:
        raise WagonError(f"samples names the unknown variation {unknown[0]!r}", hint=f"choose from {', '.join(names)}")
    return VariedWagon(thing, weight, weights, columns, patterns, only_simulation=only_simulation)


def shares_runs(wagon: VariedWagon) -> bool:
    """Return whether the wagon's next run in this process is shared by all weights."""
    return wagon not in _APART


def shares_columns(wagon: VariedWagon) -> bool:
    """Return whether the wagon's next run in this process is also shared by variations of columns."""
    return wagon not in _COLUMNS_APART


class VariedWagon(OfUser):
    """A wagon with variations, created by ``branchline.varied``."""

    def __init__(
        self,
        thing: Any,
        weight: Callable[[Events], object] | None,
        weights: Mapping[str, Callable[[Events], object]],
        columns: Mapping[str, Columns],
        samples: Mapping[str, Sequence[str]],
        *,
        only_simulation: bool,
    ) -> None:
        self.thing = thing
        self._weight = weight
        self._weights = weights
        self._columns = columns
        self._samples = samples
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
        """The user's class or function."""
        return self.thing.code if isinstance(self.thing, OfUser) else type(self.thing)

    @property
    def variations(self) -> tuple[str, ...]:
        """The names of the variations, starting with the nominal one."""
        return NOMINAL, *self._weights, *self._columns

    def process(self, events: Events) -> Mapping[str, object]:
        """Return the results for a chunk, by name of the variation."""
        is_data = bool(events.metadata.get("is_data")) and self._only_simulation
        nominal = _weights_of(events, None if is_data else self._weight)
        weights = {NOMINAL: nominal}
        if is_data:
            return dict(self._with_weights(events, weights))
        dataset = str(events.metadata.get("dataset", ""))
        factors = {name: factor for name, factor in self._weights.items() if self._applies(name, dataset)}
        varied_columns = {name: columns for name, columns in self._columns.items() if self._applies(name, dataset)}
        weights |= {name: nominal * factor(events) for name, factor in factors.items()}
        is_shared = varied_columns and shares_columns(self)
        results = self._with_columns(events, weights, varied_columns) if is_shared else None
        if results is None:
            results = dict(self._with_weights(events, weights))
            for name, columns in varied_columns.items():
                made = {column: make(events) for column, make in columns.items()}
                varied_events = events.varied(name, made)
                # Recompute the weight, which may depend on the varied columns.
                weight = _weights_of(varied_events, self._weight)
                results[name] = self.thing.process(varied_events.varied(name, {WEIGHT: weight}))
        _refuse_same_objects(results)
        return results

    def _applies(self, variation: str, dataset: str) -> bool:
        """Return whether a variation applies to a dataset."""
        uncertainty = side_of(variation, self.variations)[0]
        patterns = [one for name in (variation, uncertainty) for one in self._samples.get(name, ())]
        return not patterns or any(fnmatchcase(dataset, one) for one in patterns)

    def _with_columns(
        self, events: Events, weights: Mapping[str, ak.Array], varied_columns: Mapping[str, Columns]
    ) -> dict[str, object] | None:
        """Return the results for all weights and columns from as few shared runs as memory allows; None if the wagon
        must run once per variation of columns.
        """
        results: dict[str, object] = {}
        nominal, remaining = weights[NOMINAL], weights
        for columns in _batches(events, varied_columns):
            found = self._together(events, remaining, columns, nominal)
            if found is None:
                _COLUMNS_APART.add(self)
                return None
            results |= found
            remaining = {}
        return results

    def _with_weights(self, events: Events, weights: Mapping[str, ak.Array]) -> Mapping[str, object]:
        """Return the results by weight name. Runs the wagon only once for all weights if possible."""
        results = None
        if len(weights) > 1 and shares_runs(self):
            results = self._together(events, weights, {}, weights[NOMINAL])
            if results is None:
                _APART.add(self)
        if results is None:
            results = {
                name: self.thing.process(events.varied(name, {WEIGHT: weight})) for name, weight in weights.items()
            }
        return results

    def _together(
        self, events: Events, weights: Mapping[str, ak.Array], columns: Mapping[str, VariedColumns], nominal: ak.Array
    ) -> Mapping[str, object] | None:
        """Return the results of a shared run; None if the wagon must run once per variation. Errors in the shared run
        are ignored, because separate runs raise them again if they are the wagon's.
        """
        run = SharedRun([*weights, *columns])
        before = _BEFORE.get(self)
        try:
            shared_columns = SharedColumns(run, [*[events.columns_of_variation] * len(weights), *columns.values()])
            shared = events.shared(shared_columns)
            shared.when_asked_for_variation(run.end)
            with run.running():
                # The weight may depend on the varied columns.
                own = _weights_of(shared, self._weight) if columns else nominal
                places = range(len(weights), len(run.names))
                of_columns = [own.at(place) if type(own) is Weights else nominal for place in places]
                shared_columns.set_weights([*weights.values(), *of_columns], len(events))
                _BEFORE[self] = self.thing.process(shared)
                if shares_objects(before, _BEFORE[self]):
                    run.end()
                return run.results(_BEFORE[self])
        except Exception:  # noqa: BLE001 - separate runs show whether the wagon itself fails
            return None

    def postprocess(self, total: Mapping[str, object]) -> Mapping[str, object]:
        """Apply the wagon's ``postprocess`` to the sum of each variation."""
        finish = getattr(self.thing, "postprocess", None)
        if finish is None:
            return total
        finished = {name: finish(one) for name, one in total.items()}
        return {name: total[name] if one is None else one for name, one in finished.items()}


def _weights_of(events: Events, make: Callable[[Events], object] | None) -> ak.Array:
    """Return the weights of the events. ``make`` may return a single number, which applies to all events. Without
    ``make``, all weights are 1.
    """
    weights = 1.0 if make is None else make(events)
    if type(weights) is Weights:
        return weights
    return ak.Array(np.full(len(events), weights) if isinstance(weights, int | float | np.number) else weights)


def _batches(events: Events, varied_columns: Mapping[str, Columns]) -> Iterator[dict[str, VariedColumns]]:
    """Yield the varied columns of the variations that share a run."""
    batch: dict[str, VariedColumns] = {}
    size_bytes = 0
    for name, columns in varied_columns.items():
        made = {column: make(events) for column, make in columns.items()}
        batch[name] = events.varied_columns(made)
        size_bytes += sum(int(getattr(one, "nbytes", 0)) for one in made.values())
        if size_bytes > _BATCH_BYTES_MAX:
            yield batch
            batch, size_bytes = {}, 0
    if batch:
        yield batch


def _refuse_same_objects(results: Mapping[str, object]) -> None:
    (nominal, first), *others = results.items()
    for name, result in others:
        if shares_objects(first, result):
            raise CannotAddError(
                f"process() returned one object for the variations {nominal!r} and {name!r}, which would have the "
                "content of both; create a new object in process()"
            )
