"""Format quantities for people, and parse sizes.

Numbers are rounded to a sensible number of digits. MB is 10^6 bytes, MiB is 2^20 bytes.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Sequence

from branchline.errors import OptionError

# The units that `size` prints, each 1000 times the one before.
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
# The units that `parse_bytes` accepts, in capitals.
_UNIT_BYTES = {
    "": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
}  # fmt: skip
# Operating systems count bytes with signed integers of 64 bits.
SIZE_BYTES_END = 2**63
_SIZE_HINT = 'write it like "100 MB" or "1 GiB"'


def significant(value: float, digits: int = 3) -> str:
    """Return ``value`` with about ``digits`` significant digits, thousands apart, never in exponent form."""
    if not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    return f"{value:,.{_decimals(value, digits)}f}".replace(",", " ")


def _decimals(value: float, digits: int) -> int:
    """How many digits behind the point a number has of which so many are significant."""
    # The exponent after rounding: 999.6 has as many digits before the point as 1000.
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return max(0, digits - 1 - exponent)


def count(number: float) -> str:
    """Return a whole number with its thousands apart: ``12 300``."""
    return f"{round(number):,}".replace(",", " ")


def weights_column(totals: Sequence[float]) -> list[str]:
    """Return the sums of weights of one column with the same number of decimals.

    There are none if all are whole; else the largest has six digits at least, the smallest four. What is less than 1e-9
    of the largest counts as a rest of rounding. What is not finite is ``-``.
    """
    sizes = [abs(one) for one in totals if math.isfinite(one) and one != 0]
    decimals = 0
    if not all(one.is_integer() for one in map(float, sizes)):
        smallest = min(one for one in sizes if one > 1e-9 * max(sizes))
        decimals = max(_decimals(max(sizes), 6), _decimals(smallest, 4))
    # Adding zero takes the sign from what is rounded to nothing.
    return [
        f"{round(one, decimals) + 0.0:,.{decimals}f}".replace(",", " ") if math.isfinite(one) else "-" for one in totals
    ]


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


def parse_bytes(text: str | int) -> int:
    """``"100 MB"`` -> 100 000 000, ``"1 GiB"`` -> 2**30; a number is bytes. Raises OptionError if it is neither."""
    if not isinstance(text, str):
        try:
            return _checked_bytes(operator.index(text), text)
        except TypeError:
            raise OptionError(f"{text!r} is not a size", hint=_SIZE_HINT) from None
    # So many digits are more than any size, and fit into a float.
    found = re.fullmatch(r"\s*([0-9]{1,100}(?:\.[0-9]{1,100})?)\s*([A-Za-z]*)\s*", text)
    if found is None or found.group(2).upper() not in _UNIT_BYTES:
        raise OptionError(f"{text!r:.80} is not a size", hint=_SIZE_HINT)
    return _checked_bytes(int(float(found.group(1)) * _UNIT_BYTES[found.group(2).upper()]), text)


def _checked_bytes(size_bytes: int, given: str | int) -> int:
    if not 0 <= size_bytes < SIZE_BYTES_END:
        raise OptionError(f"a size of {given} is impossible", hint="no file and no memory is larger than 8 EiB")
    return size_bytes
