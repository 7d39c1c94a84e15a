"""Efficiencies of Python's values, in the bytes of TEfficiency (version 2)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from branchline.errors import OptionError
from branchline.reading.objects.efficiency import BAYESIAN, STATISTICS, USE_WEIGHTS
from branchline.writing.objects.buffer import ON_HEAP, counted, doubles, named, pointed, root_list
from branchline.writing.objects.histograms import RootHistogram
from branchline.writing.objects.values import histogram_form

#: The confidence level of TEfficiency: one standard deviation.
ONE_SIGMA = 0.682689492137
#: An empty vector of pairs, object by object: uproot does not read it member by member, as ROOT writes it.
NO_PRIORS_OF_BINS = counted(10, struct.pack(">i", 0))
#: TEfficiency::kIsBayesian.
IS_BAYESIAN = 1 << 14


@dataclass(frozen=True)
class NewEfficiency:
    """A TEfficiency to be written. `as_TEfficiency` makes it."""

    passed: RootHistogram
    total: RootHistogram
    title: str
    statistics: str
    confidence_level: float
    prior: tuple[float, float]

    def __repr__(self) -> str:
        return f"<NewEfficiency of {len(self.total.axes)} axes, {self.statistics} intervals>"

    def streamed(self, name: str) -> bytes:
        """Its bytes after a key."""
        histograms = (
            pointed(form.class_name, replace(form, title=f"{self.title} ({what})").streamed(f"{name}_{what}"))
            for what, form in (("passed", self.passed), ("total", self.total))
        )
        passed, total = histograms
        bits = USE_WEIGHTS if self.total.squares.size else 0
        bits |= IS_BAYESIAN if self.statistics in BAYESIAN else 0
        return counted(
            2,
            named(name, self.title, ON_HEAP | bits),
            counted(2, struct.pack(">hhh", 602, 1, 1)),  # line
            counted(2, struct.pack(">hh", 0, 1001)),  # fill
            counted(3, struct.pack(">hhf", 1, 1, 1.0)),  # marker
            doubles(self.prior),
            NO_PRIORS_OF_BINS,
            doubles([self.confidence_level]),
            root_list(()),  # functions
            passed,
            struct.pack(">i", STATISTICS.index(self.statistics)),
            total,
            doubles([1.0]),
        )


def as_TEfficiency(  # noqa: N802 - ROOT's name, as as_TGraph
    passed: Any,
    total: Any,
    title: str = "",
    *,
    statistics: str | None = None,
    confidence_level: float = ONE_SIGMA,
    prior: tuple[float, float] = (1.0, 1.0),
) -> NewEfficiency:
    """An efficiency to be written, of two histograms with the same bins: of hist or boost-histogram, or what
    ``np.histogram`` and its like return, over one to three axes. With weights both have them (``Weight`` storage).

    ``statistics`` is the kind of intervals, ``"Clopper-Pearson"`` unless there are weights, then ``"normal"``; also
    ``"Wilson"``, ``"Agresti-Coull"``, ``"Feldman-Cousins"``, ``"mid-P"``, and the Bayesian ``"Jeffrey"``,
    ``"uniform prior"`` and ``"Bayesian"``, the last with ``prior``, the parameters of its beta distribution.

    Raises OptionError for histograms that do not belong together, UnsupportedBranchError for what is no histogram.

        >>> bins = np.array([0.0, 1.0, 2.0])
        >>> with branchline.recreate("out.root") as file:
        ...     file["e"] = branchline.as_TEfficiency((np.array([1, 3]), bins), (np.array([2, 4]), bins))
        >>> branchline.open("out.root")["e"].values().tolist()
        [0.5, 0.75]
    """
    forms = histogram_form(passed, "passed"), histogram_form(total, "total")
    is_weighted = _check(*forms)
    chosen = statistics or ("normal" if is_weighted else STATISTICS[0])
    if chosen not in STATISTICS:
        raise OptionError(f"{chosen!r} are no intervals of TEfficiency", hint=f"one of {', '.join(STATISTICS)}")
    if is_weighted and chosen != "normal" and chosen not in BAYESIAN:
        what = f"TEfficiency has no {chosen} intervals of weighted histograms"
        raise OptionError(what, hint=f"one of normal, {', '.join(BAYESIAN)}")
    if not 0 < confidence_level < 1:
        raise OptionError(f"a confidence level of {confidence_level!r} is impossible", hint="between 0 and 1")
    alpha, beta = {"Jeffrey": (0.5, 0.5), "uniform prior": (1.0, 1.0)}.get(chosen, prior)
    if not (alpha > 0 and beta > 0):
        raise OptionError(f"a prior of {prior!r} is impossible", hint="two numbers above 0")
    return NewEfficiency(*forms, title, chosen, float(confidence_level), (float(alpha), float(beta)))


def _check(passed: RootHistogram, total: RootHistogram) -> bool:
    """Whether both are weighted. Raises OptionError for histograms that do not belong together."""
    if passed.weights is not None or total.weights is not None or len(total.axes) > 3:
        raise OptionError("an efficiency is of counts over one to three axes", hint="give histograms of counts")
    edges = [[axis.edges for axis in form.axes] for form in (passed, total)]
    are_same = len(edges[0]) == len(edges[1]) and all(map(np.array_equal, *edges))
    if not are_same:
        raise OptionError("the two histograms of an efficiency have other bins", hint="fill both with the same axes")
    if bool(passed.squares.size) != bool(total.squares.size):
        raise OptionError("one histogram of an efficiency has weights, the other has none", hint="give both the same")
    if np.isnan(passed.contents).any() or np.isnan(total.contents).any():
        raise OptionError("the counts of an efficiency have NaN among them", hint="look at what filled the histograms")
    too_many = passed.contents > total.contents * (1 + 1e-12)
    if np.any(too_many) and not passed.squares.size:
        place = tuple(int(one) for one in np.argwhere(too_many)[0])
        what = f"more passed than there were, in bin {place} of all with under- and overflow"
        raise OptionError(what, hint="give the histogram of those that passed first, then that of all")
    return bool(total.squares.size)
