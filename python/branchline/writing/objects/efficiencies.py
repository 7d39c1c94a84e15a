"""Creates efficiencies from Python values, and encodes them as TEfficiency (version 2)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

import numpy as np

from branchline.errors import OptionError
from branchline.reading.objects.efficiency import BAYESIAN, STATISTICS, USE_WEIGHTS
from branchline.writing.objects.buffer import ON_HEAP, counted, doubles, named, pointed, root_list
from branchline.writing.objects.histograms import RootHistogram
from branchline.writing.objects.values import histogram_form

#: Default confidence level of TEfficiency: the probability within one standard deviation.
ONE_SIGMA = 0.682689492137
#: An empty vector of pairs. It is streamed object-wise because uproot cannot read ROOT's own, member-wise streaming.
NO_PRIORS_OF_BINS = counted(10, struct.pack(">i", 0))
#: Status bit of efficiencies with Bayesian intervals (TEfficiency::kIsBayesian).
IS_BAYESIAN = 1 << 14


@dataclass(frozen=True)
class NewEfficiency:
    """A TEfficiency to write, created by `as_TEfficiency`."""

    passed: RootHistogram
    total: RootHistogram
    title: str
    statistics: str
    confidence_level: float
    prior: tuple[float, float]

    def __repr__(self) -> str:
        return f"<NewEfficiency of {len(self.total.axes)} axes, {self.statistics} intervals>"

    def streamed(self, name: str) -> bytes:
        """Return the bytes of the efficiency, without the key."""
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
    passed: object,
    total: object,
    title: str = "",
    *,
    statistics: str | None = None,
    confidence_level: float = ONE_SIGMA,
    prior: tuple[float, float] = (1.0, 1.0),
) -> NewEfficiency:
    """Create a writable efficiency from two histograms with identical bins and one to three axes.

    The histograms may be from hist or boost-histogram, or results of ``np.histogram`` and similar functions. Either
    both or none of them have weights (``Weight`` storage).

    ``statistics`` is the kind of confidence interval. The default is ``"Clopper-Pearson"``, or ``"normal"`` for
    weighted histograms. Other frequentist intervals are ``"Wilson"``, ``"Agresti-Coull"``, ``"Feldman-Cousins"`` and
    ``"mid-P"``; Bayesian intervals are ``"Jeffrey"``, ``"uniform prior"`` and ``"Bayesian"``. For ``"Bayesian"``,
    ``prior`` contains the parameters of the beta distribution.

    Raises OptionError for histograms that do not match, and UnsupportedBranchError for values other than histograms.

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
        raise OptionError(f"unknown statistics {chosen!r}", hint=f"choose one of {', '.join(STATISTICS)}")
    if is_weighted and chosen != "normal" and chosen not in BAYESIAN:
        what = f"TEfficiency does not support {chosen} intervals for weighted histograms"
        raise OptionError(what, hint=f"choose one of normal, {', '.join(BAYESIAN)}")
    if not 0 < confidence_level < 1:
        raise OptionError(f"invalid confidence level {confidence_level!r}", hint="give a number between 0 and 1")
    alpha, beta = {"Jeffrey": (0.5, 0.5), "uniform prior": (1.0, 1.0)}.get(chosen, prior)
    if not (alpha > 0 and beta > 0):
        raise OptionError(f"invalid prior {prior!r}", hint="give two numbers above 0")
    return NewEfficiency(*forms, title, chosen, float(confidence_level), (float(alpha), float(beta)))


def _check(passed: RootHistogram, total: RootHistogram) -> bool:
    """Return whether both histograms are weighted. Raises OptionError for histograms that do not match."""
    if passed.weights is not None or total.weights is not None or len(total.axes) > 3:
        raise OptionError("an efficiency needs counts over one to three axes", hint="give histograms of counts")
    edges = [[axis.edges for axis in form.axes] for form in (passed, total)]
    are_same = len(edges[0]) == len(edges[1]) and all(map(np.array_equal, *edges))
    if not are_same:
        raise OptionError("the histograms of an efficiency have different bins", hint="fill both with the same axes")
    if bool(passed.squares.size) != bool(total.squares.size):
        raise OptionError("only one histogram of an efficiency has weights", hint="give both weights, or neither")
    if np.isnan(passed.contents).any() or np.isnan(total.contents).any():
        raise OptionError("the counts of an efficiency contain NaN", hint="check how the histograms were filled")
    too_many = passed.contents > total.contents * (1 + 1e-12)
    if np.any(too_many) and not passed.squares.size:
        place = tuple(int(one) for one in np.argwhere(too_many)[0])
        what = f"more entries passed than in total, in bin {place} (counted with under- and overflow)"
        raise OptionError(what, hint="give the histogram of passed entries first, then the one of all entries")
    return bool(total.squares.size)
