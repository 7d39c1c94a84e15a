"""Numbers as people read them: rounded sensibly, with their unit, MB being 10^6 bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence

_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def significant(value: float, digits: int = 3) -> str:
    """Return ``value`` with about ``digits`` significant digits, thousands apart, never in exponent form."""
    if not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    # The exponent after rounding: 999.6 has as many digits before the point as 1000.
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    decimals = max(0, digits - 1 - exponent)
    return f"{value:,.{decimals}f}".replace(",", " ")


def count(number: float) -> str:
    """Return a whole number with its thousands apart: ``12 300``."""
    return f"{round(number):,}".replace(",", " ")


def weighted(total: float) -> str:
    """A sum of weights: a count where it is whole, else six digits."""
    return count(total) if float(total).is_integer() else significant(total, 6)


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun in the right form: ``1 file``, ``12 300 files``."""
    return f"{count(number)} {noun if number == 1 else plural or noun + 's'}"


def size(number_bytes: float) -> str:
    """Return a size in bytes, kB, MB, ... (powers of ten) with three significant digits."""
    value = float(number_bytes)
    unit = 0
    # 999.5 would be shown as 1 000 of the smaller unit.
    while abs(value) >= 999.5 and unit < len(_BYTE_UNITS) - 1:
        value /= 1000.0
        unit += 1
    shown = count(value) if unit == 0 else significant(value)
    return f"{shown} {_BYTE_UNITS[unit]}"


def rate(number_bytes: float, seconds: float) -> str:
    """Return bytes per second as ``12.3 MB/s``, or ``-`` where no time was measured."""
    if seconds <= 0:
        return "-"
    return f"{size(number_bytes / seconds)}/s"


def duration(seconds: float, digits: int = 3) -> str:
    """Return a time as ``12 ms``, ``3.21 s`` (``digits`` of seconds), ``12 min 5 s`` or ``3 h 12 min``."""
    if seconds < 0.9995:
        return f"{significant(seconds * 1000, 2)} ms" if seconds > 0 else "0 s"
    if seconds < 119.5:
        return f"{significant(seconds, digits)} s"
    if seconds < 7170:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{count(hours)} h {minutes} min" if minutes else f"{count(hours)} h"


def percent(part: float, whole: float) -> str:
    """Return a share as ``68 %``; shares below one per cent keep a digit, so that nothing real reads as zero."""
    if whole <= 0:
        return "-"
    value = 100.0 * part / whole
    if 0 < value < 0.1:
        return "< 0.1 %"
    if 0 < value < 0.95:
        return f"{value:.1f} %"
    return f"{value:.0f} %"


def shares(parts: Sequence[float]) -> list[int]:
    """Return the shares of parts in tenths of a per cent, rounded such that they add up to 1000 (largest remainders).

    All are zero where the parts are nothing together.
    """
    total = math.fsum(max(0.0, part) for part in parts)
    if total <= 0:
        return [0] * len(parts)
    exact = [1000 * max(0.0, part) / total for part in parts]
    tenths = [math.floor(value) for value in exact]
    by_remainder = sorted(range(len(parts)), key=lambda index: tenths[index] - exact[index])
    for index in by_remainder[: 1000 - sum(tenths)]:
        tenths[index] += 1
    return tenths


def share(tenths: int, part: float = 0.0) -> str:
    """Return one of ``shares`` as ``63.4 %``; a ``part`` that is there but too small for a digit is not called zero."""
    return "< 0.1 %" if tenths == 0 and part > 0 else f"{tenths / 10:.1f} %"


def whole_share(tenths: int, part: float = 0.0) -> str:
    """Return one of ``shares`` as a sentence says it, ``63 %``; below one per cent as ``share`` does."""
    return share(tenths, part) if tenths < 10 else f"{(tenths + 5) // 10} %"


def ratio(number: float, divisor: float, digits: int = 3) -> str:
    """Return ``number / divisor``, or ``-`` where there is nothing to divide by."""
    return significant(number / divisor, digits) if divisor > 0 else "-"
