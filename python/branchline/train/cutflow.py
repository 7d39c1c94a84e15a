"""A cutflow: how many events, and how much weight, pass a series of cuts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from branchline.errors import WagonError


@dataclass
class Cutflow:
    """Counts of events after each of a series of cuts, with sums of weights and of their squares.

    Cutflows of chunks add step by step; the order is that of the first one that has the step.

        def selected(events):
            flow = branchline.Cutflow.of(events.weight)
            mask = flow.cut("two muons", ak.num(events.Muon.pt) >= 2)
            mask = flow.cut("missing momentum", events.MET_pt > 30)
            return {"cutflow": flow, "met": histogram(events[mask])}

    Raises WagonError for a mask of another length, or one that is not of true and false.
    """

    names: list[str] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    sums: list[float] = field(default_factory=list)
    squares: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, weights: Any, first: str = "all") -> Cutflow:
        """One that begins with all events, of which these are the weights; a number of events has weights of 1."""
        flow = cls()
        values = np.ones(weights) if isinstance(weights, int) else np.asarray(weights, dtype=np.float64)
        flow._weights, flow._mask = values, np.ones(len(values), dtype=bool)
        flow._note(first)
        return flow

    def __post_init__(self) -> None:
        self._weights: np.ndarray | None = None
        self._mask: np.ndarray | None = None

    def __getstate__(self) -> Mapping[str, Any]:
        # The weights of a chunk stay with it.
        return vars(self) | {"_weights": None, "_mask": None}

    def cut(self, name: str, mask: Any) -> np.ndarray:
        """Adds a cut, and returns the mask of the events that pass it and all cuts before."""
        if self._weights is None or self._mask is None:
            raise WagonError(
                "cuts are added to the cutflow of a chunk", hint="begin with branchline.Cutflow.of(weights)"
            )
        if name in self.names:
            raise WagonError(f"two cuts of a cutflow are called {name!r}")
        values = np.asarray(mask)
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
        """The same events with weights multiplied by a factor."""
        return Cutflow(
            list(self.names),
            list(self.events),
            [one * factor for one in self.sums],
            [one * factor**2 for one in self.squares],
        )

    def __iter__(self) -> Iterator[tuple[str, int, float]]:
        return iter(zip(self.names, self.events, self.sums, strict=True))

    def __str__(self) -> str:
        width = max((len(one) for one in self.names), default=0)
        return "\n".join(
            f"{name:<{width}}  {events:>12,}  {one:>14.6g}".replace(",", " ") for name, events, one in self
        )
