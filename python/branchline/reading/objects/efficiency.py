"""Efficiency: a TEfficiency as its two histograms, with the efficiencies and intervals that ROOT computes of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from branchline.errors import UnsupportedBranchError
from branchline.reading.objects import intervals
from branchline.reading.objects.counts import refused
from branchline.reading.objects.histogram import Histogram
from branchline.reading.objects.object_record import Record
from branchline.reading.objects.recorded import Recorded

# TEfficiency's kinds of intervals by their numbers (EStatOption).
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
Interval = Callable[[Any, Any, float], tuple[Any, Any]]
BY_LEVEL: dict[str, Interval] = {
    "Clopper-Pearson": intervals.clopper_pearson,
    "Feldman-Cousins": intervals.feldman_cousins,
    "mid-P": intervals.mid_p,
}
BY_KAPPA: dict[str, Interval] = {
    "normal": intervals.normal,
    "Wilson": intervals.wilson,
    "Agresti-Coull": intervals.agresti_coull,
}
# Bits of TEfficiency: EStatusBits.
POSTERIOR_MODE, SHORTEST_INTERVAL, USE_BIN_PRIOR, USE_WEIGHTS = (1 << bit for bit in (15, 16, 17, 18))


class Efficiency(Recorded):
    """The histograms ``passed`` and ``total`` of a TEfficiency; ``statistics`` and ``confidence_level`` are those that
    it was given, ``prior`` the parameters alpha and beta of a Bayesian one.

        >>> efficiency = branchline.open("file.root")["trigger"]
        >>> low, high = efficiency.errors()
        >>> plt.errorbar(efficiency.axes[0].centers, efficiency.values(), yerr=(low, high))
    """

    def __init__(self, record: Record) -> None:
        self.name: str = record.raw("fName")
        self.title: str = record.raw("fTitle")
        self.passed: Histogram = record["fPassedHistogram"]
        self.total: Histogram = record["fTotalHistogram"]
        if not isinstance(self.passed, Histogram) or not isinstance(self.total, Histogram):
            raise refused(record, "its two histograms are not there, or cannot be read")
        self.confidence_level: float = record.raw("fConfLevel")
        option = record.raw("fStatisticOption")
        self.statistics = STATISTICS[option] if 0 <= option < len(STATISTICS) else str(option)
        self.prior: tuple[float, float] = (record.raw("fBeta_alpha"), record.raw("fBeta_beta"))
        self.record: Record = record
        self._bits: int = record.raw("fBits")

    def __repr__(self) -> str:
        return f"<Efficiency {self.name!r} of {len(self.total.axes)} axes, {self.statistics} intervals>"

    @property
    def axes(self) -> Any:
        """The axes of both histograms."""
        return self.total.axes

    def _is(self, bit: int) -> bool:
        return bool(self._bits & bit)

    def values(self, flow: bool = False) -> Any:
        """The efficiency in each bin (TEfficiency::GetEfficiency), 0 where there was nothing; of a Bayesian one the
        mean of the posterior, or its mode if that was chosen.
        """
        if self.statistics in BAYESIAN:
            alpha, beta = self._posterior(flow=flow)
            with np.errstate(divide="ignore", invalid="ignore"):
                return _mode(alpha, beta) if self._is(POSTERIOR_MODE) else alpha / (alpha + beta)
        passed, total = self._numbers(flow=flow)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(total != 0, passed / total, 0.0)

    def errors(self, flow: bool = False) -> tuple[Any, Any]:
        """The distances to the lower and to the upper end of the interval in each bin (GetEfficiencyErrorLow and Up).

        Raises UnsupportedBranchError for statistics that are not defined for these counts, NotHereError where those of
        the beta distribution need SciPy and it is not installed.
        """
        values, (passed, total) = self.values(flow=flow), self._numbers(flow=flow)
        if self.statistics in BAYESIAN:
            interval = intervals.shortest if self._is(SHORTEST_INTERVAL) else intervals.central
            low, high = interval(*self._posterior(flow=flow), self.confidence_level)
            return values - low, high - values
        if self._is(USE_WEIGHTS):
            return self._weighted_errors(flow=flow)
        if self.statistics == "Feldman-Cousins" and np.any((passed % 1 != 0) | (total % 1 != 0)):
            raise self._refused("of the kind Feldman-Cousins for counts that are no whole numbers")
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.statistics in BY_LEVEL:
                low, high = BY_LEVEL[self.statistics](passed, total, self.confidence_level)
            elif self.statistics in BY_KAPPA:
                kappa = NormalDist().inv_cdf((1 + self.confidence_level) / 2)
                low, high = BY_KAPPA[self.statistics](passed, total, kappa)
            else:
                raise self._refused(f"of the kind {self.statistics}")
        is_there = total != 0
        return values - np.where(is_there, np.maximum(low, 0), 0), np.where(is_there, np.minimum(high, 1), 1) - values

    def _numbers(self, *, flow: bool) -> tuple[Any, Any]:
        return np.asarray(self.passed.values(flow=flow), "f8"), np.asarray(self.total.values(flow=flow), "f8")

    def _posterior(self, *, flow: bool) -> tuple[Any, Any]:
        """Parameters of the beta distribution in each bin."""
        passed, total = self._numbers(flow=flow)
        if self._is(USE_WEIGHTS):
            squares = np.asarray(self.total.variances(flow=flow))
            with np.errstate(divide="ignore", invalid="ignore"):
                norm = np.where(squares > 0, total / squares, 0.0)
            passed, total = passed * norm, total * norm
        alpha, beta = self._priors(flow=flow) if self._is(USE_BIN_PRIOR) else self.prior
        return passed + alpha, total - passed + beta

    def _priors(self, *, flow: bool) -> tuple[Any, Any]:
        """The parameters of the prior in each bin. Raises UnsupportedBranchError if there are not as many as bins."""
        stored = self.record.raw("fBeta_bin_params")
        shape = np.asarray(self.total.values(flow=True)).shape
        if len(stored) != math.prod(shape):
            raise self._refused(f"with a prior for each bin, of which it has {len(stored)}")
        numbers = np.array([(one.raw("first"), one.raw("second")) for one in stored], "f8")
        # ROOT's first axis runs fastest.
        alpha, beta = (column.reshape(shape[::-1]).T for column in numbers.T)
        if flow:
            return alpha, beta
        inner = tuple(slice(1, -1) for _ in shape)
        return alpha[inner], beta[inner]

    def _weighted_errors(self, *, flow: bool) -> tuple[Any, Any]:
        """The normal approximation for weighted events, within 0 and 1."""
        if self.statistics != "normal":
            raise self._refused(f"of the kind {self.statistics} for weighted events")
        values, (_, total) = self.values(flow=flow), self._numbers(flow=flow)
        passed_squares, total_squares = self.passed.variances(flow=flow), self.total.variances(flow=flow)
        with np.errstate(divide="ignore", invalid="ignore"):
            variances = (passed_squares * (1 - 2 * values) + total_squares * values**2) / total**2
            deltas = NormalDist().inv_cdf((1 + self.confidence_level) / 2) * np.sqrt(variances)
        deltas = np.where(total == 0, 0.0, deltas)
        return np.minimum(deltas, values), np.minimum(deltas, 1 - values)

    def _refused(self, which: str) -> UnsupportedBranchError:
        what = f"{self.name} has intervals {which}, which are not computed"
        hint = "values(), passed and total are there"
        return UnsupportedBranchError(what, path=self.record.origin.file_path, hint=hint)


def _mode(alpha: Any, beta: Any) -> Any:
    """The mode of a beta distribution, as TEfficiency::BetaMode takes it at the borders."""
    inner = (alpha - 1) / (alpha + beta - 2)
    at_borders = np.where(alpha < beta, 0.0, np.where(alpha > beta, 1.0, 0.5))
    return np.where((alpha > 1) & (beta > 1), inner, at_borders)
