"""Cutflows: how many events pass each cut in a series, and the sum of their weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from branchline.base.quantities import count, weights_column
from branchline.errors import WagonError
from branchline.records.sensors.record import CutflowRecord, CutRecord

#: Maximum number of a wagon's cutflows in the job record, where each cutflow is displayed as a table. The results
#: contain all cutflows.
_RECORDED_MAX = 20


@dataclass
class Cutflow:
    """Counts of events after each cut in a series, with sums of weights and of squared weights.

    Cutflows of chunks are added cut by cut. Cuts that the first cutflow lacks are appended.

        def selected(events):
            flow = branchline.Cutflow.of(events.weight)
            mask = flow.cut("two muons", ak.num(events.Muon.pt) >= 2)
            mask = flow.cut("missing momentum", events.MET_pt > 30)
            return {"cutflow": flow, "met": histogram(events[mask])}

    Raises WagonError for a mask of the wrong length, or of a type other than bool.
    """

    names: list[str] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    sums: list[float] = field(default_factory=list)
    squares: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, weights: object, first: str = "all") -> Cutflow:
        """Start a cutflow with all events. ``weights`` has one weight per event, or is the number of events if all
        weights are 1.

        Raises WagonError for other values.
        """
        flow = cls()
        if isinstance(weights, int | np.integer) and weights >= 0:
            values = np.ones(int(weights))
        else:
            values = _plain(weights, "the weights of a cutflow")
        if values.ndim != 1 or values.dtype.kind not in "buif":
            what = f"the weights of a cutflow have the shape {values.shape} and the type {values.dtype}"
            raise WagonError(what, hint="give one number for each event, or the number of events")
        values = values.astype(np.float64)
        flow._weights, flow._mask = values, np.ones(len(values), dtype=bool)
        flow._note(first)
        return flow

    def __post_init__(self) -> None:
        self._weights: np.ndarray | None = None
        self._mask: np.ndarray | None = None

    def __getstate__(self) -> Mapping[str, object]:
        # The weights and the mask belong to one chunk, so they are not pickled.
        return vars(self) | {"_weights": None, "_mask": None}

    def cut(self, name: str, mask: object) -> np.ndarray:
        """Add a cut, and return the mask of the events that pass this cut and all earlier cuts."""
        if self._weights is None or self._mask is None:
            raise WagonError(
                "a cut needs a cutflow that was created for a chunk", hint="begin with branchline.Cutflow.of(weights)"
            )
        if not isinstance(name, str):
            raise WagonError(f"the name of a cut must be a string, got {name!r}")
        if name in self.names:
            raise WagonError(f"two cuts of a cutflow are called {name!r}")
        values = _plain(mask, f"the mask of cut {name!r}")
        if values.dtype != np.bool_ or values.shape != self._mask.shape:
            what = f"the mask of cut {name!r} has {values.shape} values of {values.dtype}"
            raise WagonError(what, hint=f"give true or false for each of the {len(self._mask)} events")
        self._mask = self._mask & values
        self._note(name)
        return self._mask

    def _note(self, name: str) -> None:
        assert self._weights is not None
        passed = self._weights[self._mask]
        self.names.append(name)
        self.events.append(len(passed))
        self.sums.append(float(passed.sum()))
        self.squares.append(float((passed**2).sum()))

    def __add__(self, other: Cutflow) -> Cutflow:
        if not isinstance(other, Cutflow):
            return NotImplemented
        total = Cutflow(list(self.names), list(self.events), list(self.sums), list(self.squares))
        for name, events, one, square in zip(other.names, other.events, other.sums, other.squares, strict=True):
            if name not in total.names:
                total.names.append(name)
                total.events.append(0)
                total.sums.append(0.0)
                total.squares.append(0.0)
            place = total.names.index(name)
            total.events[place] += events
            total.sums[place] += one
            total.squares[place] += square
        return total

    def scaled(self, factor: float) -> Cutflow:
        """Return the cutflow with all weights multiplied by a factor."""
        return Cutflow(
            list(self.names),
            list(self.events),
            [one * factor for one in self.sums],
            [one * factor**2 for one in self.squares],
        )

    def __iter__(self) -> Iterator[tuple[str, int, float]]:
        return iter(zip(self.names, self.events, self.sums, strict=True))

    def __str__(self) -> str:
        rows = list(zip(self.names, map(count, self.events), weights_column(self.sums), strict=True))
        widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
        return "\n".join(
            f"{name:<{widths[0]}}  {events:>{widths[1]}}  {one:>{widths[2]}}" for name, events, one in rows
        )


def _plain(values: object, what: str) -> np.ndarray:
    """Convert values to an array. Raises WagonError for lists of unequal lengths, and for missing values, which neither
    pass nor fail a cut.
    """
    hint = "give one value for each event: ak.fill_none(values, False) treats missing values as not passed"
    try:
        plain = np.asanyarray(values)
    except (TypeError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), "")
        raise WagonError(f"{what} cannot be converted to one value per event: {reason}", hint=hint) from error
    if np.ma.is_masked(plain):
        raise WagonError(f"{what} has missing values", hint=hint)
    return np.asarray(plain)


def cutflows_in(output: object, name: str = "") -> Iterator[tuple[str, Cutflow]]:
    """Yield (path, cutflow) for each cutflow in a wagon's output, in dicts at any depth. The path consists of ``name``
    and the keys that lead to the cutflow.
    """
    if isinstance(output, Cutflow):
        yield name, output
    elif isinstance(output, Mapping):
        for key, value in output.items():
            yield from cutflows_in(value, f"{name}/{key}" if name else str(key))


def cutflow_records(output: object) -> tuple[list[CutflowRecord], int]:
    """Return records of the first cutflows in a wagon's output, for the job record, and the number of cutflows left
    out.
    """
    found = cutflows_in(output)
    records = [
        CutflowRecord(name, [CutRecord(cut, events, one if math.isfinite(one) else None) for cut, events, one in flow])
        for name, flow in islice(found, _RECORDED_MAX)
    ]
    return records, sum(1 for _ in found)
