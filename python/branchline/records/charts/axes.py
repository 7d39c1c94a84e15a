"""Axes of charts: ranges and ticks of numbers, logarithms, durations and dates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from branchline.base.quantities import count, duration

#: Maximum number of ticks on a time axis, so that their labels fit on a phone.
TIME_TICKS_MAX = 5
#: Length of a time axis in seconds from which its ticks are at the first days of months.
MONTHS_FROM_S = 100 * 86_400
#: Smallest number whose label has an SI prefix, and the prefixes by power of 1000.
SHORT_FROM, _PREFIXES = 10_000, ("", " k", " M", " G", " T")
#: Maximum number of powers of ten with a tick on a logarithmic axis.
DECADES_MAX = 6
# Possible tick intervals of a time axis, in seconds: round numbers of seconds, minutes, hours, days and weeks.
_TIME_STEPS_S = (1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2,
                 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
                 172_800, 604_800, 1_209_600, 2_419_200, 7_257_600, 31_449_600)  # fmt: skip


class Tick(NamedTuple):
    """A tick on an axis: its value and its label."""

    value: float
    text: str


@dataclass(frozen=True)
class Axis:
    """An axis from ``low`` to ``high``. ``label`` names the quantity and its unit."""

    label: str
    low: float
    high: float
    ticks: list[Tick]
    is_log: bool = False

    def at(self, value: float) -> float:
        """Return the position of a value, from 0 at ``low`` to 1 at ``high``; values outside are moved to the ends."""
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, low))
        return min(max((value - low) / (high - low), 0.0), 1.0) if high > low else 0.0

    def grid(self, values: Sequence[float], cells: int) -> list[int]:
        """Return the cells of a linear axis that contain the values, from 0 to ``cells`` - 1."""
        parts = (np.asarray(values, dtype=np.float64) - self.low) / (self.high - self.low)
        found: list[int] = (np.clip(parts, 0.0, 1.0) * (cells - 1)).astype("i8").tolist()
        return found


def number_axis(label: str, highest: float, lowest: float = 0.0, ticks_count: int = 4) -> Axis:
    """Return an axis from ``lowest``, or from the round value below it, to the round value above ``highest``."""
    if lowest >= 0:
        ticks = nice_ticks(highest, ticks_count)
    else:
        step = nice_ticks(highest - lowest, ticks_count)[1]
        first, last = math.floor(lowest / step + 0.001), math.ceil(highest / step - 0.001)
        ticks = [index * step for index in range(first, max(last, first + 1) + 1)]
    return Axis(label, ticks[0], ticks[-1], [Tick(value, short_text(value)) for value in ticks])


def range_axis(label: str, low: float, high: float, ticks_count: int = 5) -> Axis:
    """Return an axis from exactly ``low`` to ``high``, with ticks at round values between them."""
    step = nice_ticks(high - low, ticks_count)[1]
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return Axis(label, low, high, [Tick(index * step, short_text(index * step)) for index in range(first, last + 1)])


def log_axis(label: str, lowest: float, highest: float) -> Axis:
    """Return a logarithmic axis over whole powers of ten that contain the positive values ``lowest`` and
    ``highest``.
    """
    first, last = math.floor(math.log10(lowest) + 1e-9), math.ceil(math.log10(highest) - 1e-9)
    last = max(last, first + 1)
    step = -(-(last - first) // DECADES_MAX)
    ticks = [Tick(10.0**power, short_text(10.0**power)) for power in range(first, last + 1, step)]
    return Axis(label, 10.0**first, 10.0**last, ticks, is_log=True)


def value_axis(label: str, values: Sequence[float], decades: float) -> Axis:
    """Return an axis for values of at least 0: logarithmic if the positive ones span at least this number of powers of
    ten, else linear.
    """
    positive = [one for one in values if one > 0]
    if positive and max(positive) >= min(positive) * 10**decades:
        return log_axis(label, min(positive), max(positive))
    return number_axis(label, max(values, default=0.0))


def time_axis(label: str, begin_s: float, end_s: float, start: str = "") -> Axis:
    """Return an axis of times in seconds. With ``start`` (ISO 8601), times are relative to it, and labels are dates and
    times of day.
    """
    span = (end_s - begin_s) or 1.0
    step = next((one for one in _TIME_STEPS_S if one * TIME_TICKS_MAX >= span), span / TIME_TICKS_MAX)
    times = [index * step for index in range(math.ceil(begin_s / step - 1e-9), math.floor(end_s / step + 1e-9) + 1)]
    text = _date_text(start, span) if start else _duration_text
    ticks = _month_ticks(start, begin_s, end_s) if start and span > MONTHS_FROM_S else [Tick(t, text(t)) for t in times]
    return Axis(label, begin_s, begin_s + span, ticks)


def _month_ticks(start: str, begin_s: float, end_s: float) -> list[Tick]:
    """Return ticks at the first days of months, or of every few months."""
    zero = datetime.fromisoformat(start)
    first, last = (zero + timedelta(seconds=one) for one in (begin_s, end_s))
    months = range(12 * first.year + first.month - 1, 12 * last.year + last.month)
    step = -(-len(months) // TIME_TICKS_MAX)
    dates = [zero.replace(year=one // 12, month=one % 12 + 1, day=1, hour=0, minute=0) for one in months[::step]]
    found = [Tick((date - zero).total_seconds(), f"{date:%Y-%m}") for date in dates]
    return [one for one in found if begin_s <= one.value <= end_s]


def _duration_text(seconds: float) -> str:
    if abs(seconds) >= 120:
        return duration(seconds)
    if abs(seconds) >= 1:
        return f"{seconds:g} s"
    if not seconds:
        return "0"
    return f"{seconds * 1000:g} ms" if abs(seconds) >= 0.001 else f"{seconds * 1000 * 1000:g} \N{MICRO SIGN}s"


def _date_text(start: str, span: float) -> Callable[[float], str]:
    """Return a function from seconds after ``start`` to a label: a time of day, a date, or both."""
    begin = datetime.fromisoformat(start)
    form = "%m-%d" if span > 3 * 86_400 else "%m-%d %H:%M" if span > 43_200 else "%H:%M"
    return lambda seconds: format(begin + timedelta(seconds=seconds), form)


def nice_ticks(highest: float, ticks_count: int = 4) -> list[float]:
    """Return ticks at round values, from zero up to at least ``highest``."""
    if not math.isfinite(highest) or highest <= 0:
        return [0.0, 1.0]
    step = 10.0 ** math.floor(math.log10(highest / ticks_count))
    for factor in (1, 2, 2.5, 5, 10):
        if step * factor * ticks_count >= highest * 0.999:
            step *= factor
            break
    return [index * step for index in range(math.ceil(highest / step - 0.001) + 1)]


def tick_text(value: float) -> str:
    """Return a tick's label without redundant digits."""
    return count(value) if value == round(value) else f"{value:g}"


def short_text(value: float) -> str:
    """Return a label with an SI prefix if the number is large."""
    power = min(int(math.log10(abs(value)) // 3), len(_PREFIXES) - 1) if abs(value) >= SHORT_FROM else 0
    return f"{value / 1000**power:g}{_PREFIXES[power]}"
