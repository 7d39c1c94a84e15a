"""Efficiency: a TEfficiency as its two histograms, with the efficiencies and intervals that ROOT computes of them."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from branchline.errors import NotHereError, UnsupportedBranchError
from branchline.objects.counts import refused
from branchline.objects.histogram import Histogram
from branchline.objects.record import Record

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
# Bits of TEfficiency: EStatusBits.
POSTERIOR_MODE, SHORTEST_INTERVAL, USE_BIN_PRIOR, USE_WEIGHTS = (1 << bit for bit in (15, 16, 17, 18))


class Efficiency:
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
        self.record = record
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

        Raises UnsupportedBranchError for statistics of which only ROOT has the intervals, NotHereError where those of
        the beta distribution need SciPy and it is not installed.
        """
        if self._is(USE_BIN_PRIOR) or (self.statistics in BAYESIAN and self._is(SHORTEST_INTERVAL)):
            raise self._refused("with a prior for each bin, or with shortest intervals")
        if self._is(USE_WEIGHTS):
            return self._weighted_errors(flow=flow)
        passed, total = self._numbers(flow=flow)
        values = self.values(flow=flow)
        if self.statistics in BAYESIAN:
            low, high = self._beta_interval(*self._posterior(flow=flow), *self._posterior(flow=flow))
            return values - low, high - values
        interval = _INTERVALS.get(self.statistics)
        if self.statistics == "Clopper-Pearson":
            low, high = self._beta_interval(passed, total - passed + 1, passed + 1, total - passed)
        elif interval is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                low, high = interval(passed, total, NormalDist().inv_cdf((1 + self.confidence_level) / 2))
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
        return passed + self.prior[0], total - passed + self.prior[1]

    def _beta_interval(self, alpha_low: Any, beta_low: Any, alpha_high: Any, beta_high: Any) -> tuple[Any, Any]:
        """The central interval, of two beta distributions; 0 and 1 where they have none."""
        try:
            from scipy.special import betaincinv  # type: ignore[import-untyped]
        except ImportError:
            hint = "install it as branchline[efficiencies], or compute with passed and total"
            raise NotHereError("these intervals need SciPy, which is not installed", hint=hint) from None
        part = (1 - self.confidence_level) / 2
        low = np.where(
            alpha_low > 0, betaincinv(np.maximum(alpha_low, 1e-300), np.maximum(beta_low, 1e-300), part), 0.0
        )
        high = np.where(beta_high > 0, betaincinv(alpha_high, np.maximum(beta_high, 1e-300), 1 - part), 1.0)
        return low, high

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


def _normal(passed: Any, total: Any, kappa: float) -> tuple[Any, Any]:
    average = passed / total
    delta = kappa * np.sqrt(average * (1 - average) / total)
    return average - delta, average + delta


def _wilson(passed: Any, total: Any, kappa: float) -> tuple[Any, Any]:
    average = passed / total
    mode = (passed + kappa**2 / 2) / (total + kappa**2)
    delta = kappa / (total + kappa**2) * np.sqrt(total * average * (1 - average) + kappa**2 / 4)
    return mode - delta, mode + delta


def _agresti_coull(passed: Any, total: Any, kappa: float) -> tuple[Any, Any]:
    mode = (passed + kappa**2 / 2) / (total + kappa**2)
    delta = kappa * np.sqrt(mode * (1 - mode) / (total + kappa**2))
    return mode - delta, mode + delta


_INTERVALS: dict[str, Callable[[Any, Any, float], tuple[Any, Any]]] = {
    "normal": _normal,
    "Wilson": _wilson,
    "Agresti-Coull": _agresti_coull,
}
