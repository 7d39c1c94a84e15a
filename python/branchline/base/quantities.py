"""Format quantities for people, and parse sizes.

Numbers are rounded to a sensible number of digits. MB is 10^6 bytes, MiB is 2^20 bytes.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Sequence

from branchline.errors import OptionError

KIB, MIB, GIB = 2**10, 2**20, 2**30
MB, GB = 10**6, 10**9
NS_PER_MS, NS_PER_S = 10**6, 10**9
# The units that `size` prints, each 1000 times the previous one.
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
# The units that `parse_bytes` accepts, in upper case.
_UNIT_BYTES = {
    "": 1, "B": 1, "KB": 10**3, "MB": MB, "GB": GB, "TB": 10**12,
    "KIB": KIB, "MIB": MIB, "GIB": GIB, "TIB": 2**40,
}  # fmt: skip
# Exclusive maximum of sizes: operating systems count bytes with signed 64-bit integers.
SIZE_BYTES_END = 2**63
_SIZE_HINT = 'write it like "100 MB" or "1 GiB"'


def significant(value: float, digits: int = 3) -> str:
    """Format a number with about ``digits`` significant digits and separated thousands, never in exponent form."""
    if not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    return f"{value:,.{_decimals(value, digits)}f}".replace(",", " ")


def _decimals(value: float, digits: int) -> int:
    """Return the number of decimals with which a number has this many significant digits."""
    # Use the exponent after rounding: 999.6 is rounded to 1000, which has one digit more before the decimal point.
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return max(0, digits - 1 - exponent)


def count(number: float) -> str:
    """Format a number, rounded to an integer, with separated thousands: ``12 300``."""
    return f"{round(number):,}".replace(",", " ")


def weights_column(totals: Sequence[float]) -> list[str]:
    """Format the sums of weights in a column, all with the same number of decimals.

    Integers have no decimals. Otherwise the largest sum has at least six significant digits and the smallest at least
    four. Values below 1e-9 times the largest one are considered rounding errors. Non-finite values are shown as ``-``.
    """
    sizes = [abs(one) for one in totals if math.isfinite(one) and one != 0]
    decimals = 0
    if not all(one.is_integer() for one in map(float, sizes)):
        smallest = min(one for one in sizes if one > 1e-9 * max(sizes))
        decimals = max(_decimals(max(sizes), 6), _decimals(smallest, 4))
    # Adding zero removes the sign of numbers that are rounded to -0.0.
    return [
        f"{round(one, decimals) + 0.0:,.{decimals}f}".replace(",", " ") if math.isfinite(one) else "-" for one in totals
    ]


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Format a number with its noun in the singular or plural: ``1 file``, ``12 300 files``."""
    return f"{count(number)} {noun if number == 1 else plural or noun + 's'}"


def size(number_bytes: float) -> str:
    """Format a size in bytes, kB, MB, ... (powers of ten) with three significant digits."""
    value = float(number_bytes)
    unit = 0
    # With three digits, 999.5 would be shown as 1 000 of the smaller unit.
    while abs(value) >= 999.5 and unit < len(_BYTE_UNITS) - 1:
        value /= 1000.0
        unit += 1
    shown = count(value) if unit == 0 else significant(value)
    return f"{shown} {_BYTE_UNITS[unit]}"


def megabytes(number_bytes: float) -> str:
    """Format a size in MB with one decimal and without the unit, for table columns."""
    return f"{number_bytes / MB:.1f}"


def rate(number_bytes: float, seconds: float) -> str:
    """Format bytes per second as ``12.3 MB/s``, or ``-`` if no time was measured."""
    if seconds <= 0:
        return "-"
    return f"{size(number_bytes / seconds)}/s"


def duration(seconds: float, digits: int = 3) -> str:
    """Format a duration as ``12 ms``, ``3.21 s``, ``12 min 5 s`` or ``3 h 12 min``. Seconds have ``digits`` significant
    digits.
    """
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
    """Format ``part / whole`` as ``68 %``. Shares below one per cent have a decimal, so that only zero is shown as
    zero.
    """
    if whole <= 0:
        return "-"
    value = 100.0 * part / whole
    if 0 < value < 0.1:
        return "< 0.1 %"
    if 0 < value < 0.95:
        return f"{value:.1f} %"
    return f"{value:.0f} %"


def shares(parts: Sequence[float]) -> list[int]:
    """Return the shares of parts in tenths of a per cent, rounded such that they add up to 1000 (largest remainder
    method).

    All shares are zero if the sum of the parts is zero.
    """
    positive = [max(0.0, part) for part in parts]
    total = math.fsum(positive)
    if total <= 0:
        return [0] * len(parts)
    exact = [1000 * part / total for part in positive]
    tenths = [math.floor(value) for value in exact]
    by_remainder = sorted(range(len(parts)), key=lambda index: tenths[index] - exact[index])
    for index in by_remainder[: 1000 - sum(tenths)]:
        tenths[index] += 1
    return tenths


def share(tenths: int, part: float = 0.0) -> str:
    """Format a result of ``shares`` as ``63.4 %``. A positive ``part`` whose share rounds to zero is shown as ``< 0.1
    %``.
    """
    return "< 0.1 %" if tenths == 0 and part > 0 else f"{tenths / 10:.1f} %"


def whole_share(tenths: int, part: float = 0.0) -> str:
    """Format a result of ``shares`` as ``63 %``, for sentences. Below one per cent, the format is that of ``share``."""
    return share(tenths, part) if tenths < 10 else f"{(tenths + 5) // 10} %"


def ratio(number: float, divisor: float, digits: int = 3) -> str:
    """Format ``number / divisor``, or return ``-`` unless the divisor is positive."""
    return significant(number / divisor, digits) if divisor > 0 else "-"


def parse_bytes(text: str | int) -> int:
    """Parse a size: ``"100 MB"`` is 100 000 000, ``"1 GiB"`` is 2**30. An integer is a number of bytes. Raises
    OptionError.
    """
    if isinstance(text, str):
        # 100 digits are more than any size needs, and the number still fits into a float.
        found = re.fullmatch(r"\s*([0-9]{1,100}(?:\.[0-9]{1,100})?)\s*([A-Za-z]*)\s*", text)
        if found is None or found.group(2).upper() not in _UNIT_BYTES:
            raise OptionError(f"{text!r:.80} is not a size", hint=_SIZE_HINT)
        size_bytes = int(float(found.group(1)) * _UNIT_BYTES[found.group(2).upper()])
    else:
        try:
            size_bytes = operator.index(text)
        except TypeError:
            raise OptionError(f"{text!r} is not a size", hint=_SIZE_HINT) from None
    if not 0 <= size_bytes < SIZE_BYTES_END:
        raise OptionError(f"invalid size: {text}", hint="give a size from 0 to 8 EiB")
    return size_bytes
