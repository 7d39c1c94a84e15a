"""Efficiency: the two histograms of a TEfficiency, with the efficiencies and intervals that ROOT computes from them.

The interval functions follow the published definitions. They take arrays with one element per bin, ``passed`` of
``total`` events, and either a number of standard deviations ``kappa`` or a confidence ``level``, and return the lower
and upper limits. Those based on the beta distribution need SciPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from branchline.base.array_types import Flags, Floats
from branchline.errors import NotHereError, UnsupportedBranchError
from branchline.reading.objects.histogram_errors import refused
from branchline.reading.objects.object_record import Record, Recorded

if TYPE_CHECKING:
    from hist.axestuple import NamedAxesTuple

    from branchline.reading.objects.histogram import Histogram

# TEfficiency's interval types by number (EStatOption).
STATISTICS = (
    "Clopper-Pearson",
    "normal",
    "Wilson",
    "Agresti-Coull",
    "Feldman-Cousins",
    "Jeffrey",
    "uniform prior",
    "Bayesian",
    "mid-P",
)
BAYESIAN = ("Jeffrey", "uniform prior", "Bayesian")
# Status bits of TEfficiency (EStatusBits).
POSTERIOR_MODE, SHORTEST_INTERVAL, USE_BIN_PRIOR, USE_WEIGHTS = (1 << bit for bit in (15, 16, 17, 18))
# Number of bisection steps. For an interval of length 1 or less, it is enough for double precision.
HALVINGS = 60
# Replaces 0, which is not a valid parameter of the beta distribution.
LEAST = 1e-300


class Efficiency(Recorded):
    """The histograms ``passed`` and ``total`` of a TEfficiency. ``statistics`` and ``confidence_level`` are its stored
    settings, ``prior`` the parameters alpha and beta of its Bayesian prior.

        >>> efficiency = branchline.open("file.root")["trigger"]
        >>> low, high = efficiency.errors()
        >>> plt.errorbar(efficiency.axes[0].centers, efficiency.values(), yerr=(low, high))
    """

    def __init__(self, record: Record) -> None:
        # Imported lazily: writers of trees import this module, but do not need the packages for histograms.
        from branchline.reading.objects.histogram import Histogram

        self.name: str = record.raw("fName")
        self.title: str = record.raw("fTitle")
        self.passed: Histogram = record["fPassedHistogram"]
        self.total: Histogram = record["fTotalHistogram"]
        if not isinstance(self.passed, Histogram) or not isinstance(self.total, Histogram):
            raise refused(record, "one of its two histograms is missing or cannot be read")
        self.confidence_level: float = record.raw("fConfLevel")
        option = record.raw("fStatisticOption")
        self.statistics = STATISTICS[option] if 0 <= option < len(STATISTICS) else str(option)
        self.prior: tuple[float, float] = (record.raw("fBeta_alpha"), record.raw("fBeta_beta"))
        self.record: Record = record
        self._bits: int = record.raw("fBits")

    def __repr__(self) -> str:
        return f"<Efficiency {self.name!r} of {len(self.total.axes)} axes, {self.statistics} intervals>"

    @property
    def axes(self) -> NamedAxesTuple:
        """The axes of both histograms."""
        return self.total.axes

    def _is(self, bit: int) -> bool:
        return bool(self._bits & bit)

    def values(self, flow: bool = False) -> Floats:
        """The efficiency of each bin (TEfficiency::GetEfficiency), 0 for empty bins. For Bayesian statistics it is the
        mean of the posterior, or the mode if so configured.
        """
        if self.statistics in BAYESIAN:
            alpha, beta = self._posterior(flow=flow)
            with np.errstate(divide="ignore", invalid="ignore"):
                return _mode(alpha, beta) if self._is(POSTERIOR_MODE) else alpha / (alpha + beta)
        passed, total = self._numbers(flow=flow)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(total != 0, passed / total, 0.0)

    def errors(self, flow: bool = False) -> tuple[Floats, Floats]:
        """Distances to the lower and upper limit of the interval of each bin (GetEfficiencyErrorLow and Up).

        Raises UnsupportedBranchError for statistics that are not defined for these counts, NotHereError if SciPy is
        needed and not installed.
        """
        values, (passed, total) = self.values(flow=flow), self._numbers(flow=flow)
        if self.statistics in BAYESIAN:
            interval = shortest if self._is(SHORTEST_INTERVAL) else central
            low, high = interval(*self._posterior(flow=flow), self.confidence_level)
            return values - low, high - values
        if self._is(USE_WEIGHTS):
            return self._weighted_errors(flow=flow)
        if self.statistics == "Feldman-Cousins" and np.any((passed % 1 != 0) | (total % 1 != 0)):
            raise self._refused("of type Feldman-Cousins for non-integer counts")
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.statistics in BY_LEVEL:
                low, high = BY_LEVEL[self.statistics](passed, total, self.confidence_level)
            elif self.statistics in BY_KAPPA:
                kappa = NormalDist().inv_cdf((1 + self.confidence_level) / 2)
                low, high = BY_KAPPA[self.statistics](passed, total, kappa)
            else:
                raise self._refused(f"of type {self.statistics}")
        is_there = total != 0
        return values - np.where(is_there, np.maximum(low, 0), 0), np.where(is_there, np.minimum(high, 1), 1) - values

    def _numbers(self, *, flow: bool) -> tuple[Floats, Floats]:
        return np.asarray(self.passed.values(flow=flow), "f8"), np.asarray(self.total.values(flow=flow), "f8")

    def _posterior(self, *, flow: bool) -> tuple[Floats, Floats]:
        """Parameters of the posterior beta distribution of each bin."""
        passed, total = self._numbers(flow=flow)
        if self._is(USE_WEIGHTS):
            squares = np.asarray(self.total.variances(flow=flow))
            with np.errstate(divide="ignore", invalid="ignore"):
                norm = np.where(squares > 0, total / squares, 0.0)
            passed, total = passed * norm, total * norm
        alpha, beta = self._priors(flow=flow) if self._is(USE_BIN_PRIOR) else self.prior
        return passed + alpha, total - passed + beta

    def _priors(self, *, flow: bool) -> tuple[Floats, Floats]:
        """Parameters of the prior of each bin. Raises UnsupportedBranchError if their number differs from the number of
        bins.
        """
        stored = self.record.raw("fBeta_bin_params")
        shape = np.asarray(self.total.values(flow=True)).shape
        if len(stored) != math.prod(shape):
            raise self._refused(f"with a prior per bin, but stores {len(stored)} priors")
        numbers = np.array([(one.raw("first"), one.raw("second")) for one in stored], "f8")
        # In ROOT's order, the first axis varies fastest.
        alpha, beta = (column.reshape(shape[::-1]).T for column in numbers.T)
        if flow:
            return alpha, beta
        inner = tuple(slice(1, -1) for _ in shape)
        return alpha[inner], beta[inner]

    def _weighted_errors(self, *, flow: bool) -> tuple[Floats, Floats]:
        """The normal approximation for weighted events, clipped to [0, 1]."""
        if self.statistics != "normal":
            raise self._refused(f"of type {self.statistics} for weighted events")
        values, (_, total) = self.values(flow=flow), self._numbers(flow=flow)
        passed_squares, total_squares = self.passed.variances(flow=flow), self.total.variances(flow=flow)
        with np.errstate(divide="ignore", invalid="ignore"):
            variances = (passed_squares * (1 - 2 * values) + total_squares * values**2) / total**2
            deltas = NormalDist().inv_cdf((1 + self.confidence_level) / 2) * np.sqrt(variances)
        deltas = np.where(total == 0, 0.0, deltas)
        return np.minimum(deltas, values), np.minimum(deltas, 1 - values)

    def _refused(self, which: str) -> UnsupportedBranchError:
        what = f"{self.name} has intervals {which}, which are not supported"
        hint = "use values(), passed and total"
        return UnsupportedBranchError(what, path=self.record.origin.file_path, hint=hint)


def _mode(alpha: Floats, beta: Floats) -> Floats:
    """The mode of a beta distribution, with the edge cases of TEfficiency::BetaMode."""
    inner = (alpha - 1) / (alpha + beta - 2)
    at_borders = np.where(alpha < beta, 0.0, np.where(alpha > beta, 1.0, 0.5))
    return np.where((alpha > 1) & (beta > 1), inner, at_borders)


def normal(passed: Floats, total: Floats, kappa: float) -> tuple[Floats, Floats]:
    """The normal approximation."""
    average = passed / total
    delta = kappa * np.sqrt(average * (1 - average) / total)
    return average - delta, average + delta


def wilson(passed: Floats, total: Floats, kappa: float) -> tuple[Floats, Floats]:
    """The Wilson score interval (1927)."""
    average = passed / total
    mode = (passed + kappa**2 / 2) / (total + kappa**2)
    delta = kappa / (total + kappa**2) * np.sqrt(total * average * (1 - average) + kappa**2 / 4)
    return mode - delta, mode + delta


def agresti_coull(passed: Floats, total: Floats, kappa: float) -> tuple[Floats, Floats]:
    """The Agresti-Coull interval (1998)."""
    mode = (passed + kappa**2 / 2) / (total + kappa**2)
    delta = kappa * np.sqrt(mode * (1 - mode) / (total + kappa**2))
    return mode - delta, mode + delta


def _special() -> ModuleType:
    """Import SciPy's special functions. Raises NotHereError."""
    try:
        from scipy import special
    except ImportError:
        hint = "install it as branchline[statistics], or compute with passed and total"
        raise NotHereError("these intervals need SciPy, which is not installed", hint=hint) from None
    found: ModuleType = special
    return found


def clopper_pearson(passed: Floats, total: Floats, level: float) -> tuple[Floats, Floats]:
    """The Clopper-Pearson interval (1934)."""
    inverse, part = _special().betaincinv, (1 - level) / 2
    low = inverse(np.maximum(passed, LEAST), np.maximum(total - passed + 1, LEAST), part)
    high = inverse(passed + 1, np.maximum(total - passed, LEAST), 1 - part)
    return np.where(passed > 0, low, 0.0), np.where(total > passed, high, 1.0)


def central(alpha: Floats, beta: Floats, level: float) -> tuple[Floats, Floats]:
    """The central interval of a beta distribution, with equal probability on both sides. The lower limit is 0 if alpha
    is 0, the upper limit is 1 if beta is 0.
    """
    inverse, part = _special().betaincinv, (1 - level) / 2
    low = inverse(np.maximum(alpha, LEAST), np.maximum(beta, LEAST), part)
    high = inverse(np.maximum(alpha, LEAST), np.maximum(beta, LEAST), 1 - part)
    return np.where(alpha > 0, low, 0.0), np.where(beta > 0, high, 1.0)


def shortest(alpha: Floats, beta: Floats, level: float) -> tuple[Floats, Floats]:
    """The shortest interval of a beta distribution. If the mode is inside, the density is equal at both ends; if it is
    at one border, the interval starts there; if there are modes at both borders, the central interval is returned.
    """
    special = _special()
    safe_alpha, safe_beta = np.maximum(alpha, LEAST), np.maximum(beta, LEAST)

    def ends(below: Floats) -> tuple[Floats, Floats]:
        upper = np.minimum(below + level, 1.0)
        return special.betaincinv(safe_alpha, safe_beta, below), special.betaincinv(safe_alpha, safe_beta, upper)

    def log_density(at: Floats) -> Floats:
        density: Floats = special.xlogy(alpha - 1, at) + special.xlog1py(beta - 1, -at)
        return density

    def is_too_low(below: Floats) -> Flags:
        low, high = ends(below)
        return log_density(high) > log_density(low)

    with np.errstate(all="ignore"):
        low, high = ends(_border(is_too_low, np.zeros_like(alpha), np.full_like(alpha, 1 - level)))
        at_zero, at_one = ends(np.zeros_like(alpha))[1], ends(np.full_like(alpha, 1 - level))[0]
    middle_low, middle_high = central(alpha, beta, level)
    falls, rises = alpha <= 1, beta <= 1
    cases = [falls & rises, falls, rises]
    return np.select(cases, [middle_low, 0.0, at_one], low), np.select(cases, [middle_high, at_zero, 1.0], high)


def mid_p(passed: Floats, total: Floats, level: float) -> tuple[Floats, Floats]:
    """The mid-P variant of Clopper-Pearson, which counts the observed outcome with half of its probability (Lancaster,
    1961).
    """
    special, part = _special(), (1 - level) / 2
    left = total - passed

    def above(rate: Floats) -> Floats:
        """The probability of more than ``passed`` events plus half the probability of exactly ``passed``."""
        as_many = np.where(passed > 0, special.betainc(np.maximum(passed, LEAST), left + 1, rate), 1.0)
        more = np.where(left > 0, special.betainc(passed + 1, np.maximum(left, LEAST), rate), 0.0)
        return (as_many + more) / 2

    zeros, ones = np.zeros_like(total), np.ones_like(total)
    low = _border(lambda rate: above(rate) < part, zeros, ones)
    high = _border(lambda rate: above(rate) < 1 - part, zeros, ones)
    return np.where(passed > 0, low, 0.0), np.where(left > 0, high, 1.0)


def feldman_cousins(passed: Floats, total: Floats, level: float) -> tuple[Floats, Floats]:
    """The Feldman-Cousins interval (1998) for integer counts: the rates at which the outcomes with larger likelihood
    ratios have a total probability below ``level``.

    As counts are discrete, this set of rates may have gaps; the limits are then the ones that bisection from 0 to 1
    converges to.
    """

    def is_below(rate: Floats) -> Flags:
        return (passed > rate * total) & (_probability_before(passed, total, rate) >= level)

    def is_above(rate: Floats) -> Flags:
        return (passed < rate * total) & (_probability_before(passed, total, rate) >= level)

    zeros, ones = np.zeros_like(total), np.ones_like(total)
    low, high = _border(is_below, zeros, ones), _border(lambda rate: ~is_above(rate), zeros, ones)
    return np.where(passed > 0, low, 0.0), np.where(passed < total, high, 1.0)


def _probability_before(passed: Floats, total: Floats, rate: Floats) -> Floats:
    """The total probability of all outcomes with a larger likelihood ratio than ``passed``.

    The ratio decreases on both sides of the expected number, so these are the outcomes between ``passed`` and the
    outcome on the other side with the same ratio.
    """
    special = _special()
    is_above = passed > rate * total
    # Use symmetry: swap passed and failed events where ``passed`` is below the expected number.
    number, chance = np.where(is_above, passed, total - passed), np.where(is_above, rate, 1 - rate)

    def log_ratio(of: Floats) -> Floats:
        some = special.xlogy(of, chance * total / np.maximum(of, 1))
        ratio: Floats = some + special.xlogy(total - of, (1 - chance) * total / np.maximum(total - of, 1))
        return ratio

    def below(of: Floats) -> Floats:
        """The probability that a count is less than ``of``."""
        is_some = (of > 0) & (of <= total)
        more = special.betainc(np.where(is_some, of, 1), np.where(is_some, total - of + 1, 1), chance)
        return np.where(is_some, 1 - more, np.where(of > 0, 1.0, 0.0))

    own = log_ratio(number)
    # Invariant: the smallest outcome with a larger ratio is in (low, high].
    low, high = np.full_like(total, -1.0), np.minimum(np.floor(chance * total) + 1, number)
    for _ in range(HALVINGS):
        if not np.any(high - low > 1):
            break
        middle = np.floor((low + high) / 2)
        is_larger = (log_ratio(middle) > own) | (high - low <= 1)
        low, high = np.where(is_larger, low, middle), np.where(is_larger & (high - low > 1), middle, high)
    return np.maximum(below(number) - below(high), 0.0)


def _border(is_below: Callable[[Floats], Flags], low: Floats, high: Floats) -> Floats:
    """Find by bisection the point up to which a condition holds: an end of the range if it holds everywhere or nowhere
    in the range.
    """
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        below = is_below(middle)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


Interval = Callable[[Floats, Floats, float], tuple[Floats, Floats]]
# Interval functions by TEfficiency's interval type. Those in BY_LEVEL take a confidence level, those in BY_KAPPA a
# number of standard deviations.
BY_LEVEL: dict[str, Interval] = {
    "Clopper-Pearson": clopper_pearson,
    "Feldman-Cousins": feldman_cousins,
    "mid-P": mid_p,
}
BY_KAPPA: dict[str, Interval] = {
    "normal": normal,
    "Wilson": wilson,
    "Agresti-Coull": agresti_coull,
}
