"""Intervals of forecasts, from the errors of forecasts that were checked: split conformal prediction. The quantiles of
the errors of held-out points hold the next one as often, whatever their distribution (Vovk et al. 2005, section 4.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: The 5 % and the 95 % quantile of log(measured / said) of reads that were forecast from reads under other conditions,
#: on a machine that other programs used, too: of an earlier run of `python -m benches forecasts`, with other points.
#: Where the link is slow, it has most of the time; where it is fast, this machine has, and what else runs on it.
SLOW_LINK, FAST_LINK = (-0.17, 0.2), (-0.15, 0.5)
#: A link is fast from so many bytes a second on, or up to such a round trip.
FAST_BYTES_PER_S, NEAR_S = 50e6, 2e-3
#: So many forecasts that were checked on this machine replace them: fewer have no 5 % quantile.
PAIRS_MIN = 20
#: The part of the forecasts that an interval is to hold.
HELD = 0.9


@dataclass(frozen=True)
class Errors:
    """Logarithms of measured over said: the lower and the upper end of an interval, and of how many pairs they are; 0
    for those that every installation has.
    """

    low: float
    high: float
    pairs: int = 0


def usual_errors(round_trip_s: float, bytes_per_s: float) -> Errors:
    """Those that every installation has, for such a link; 0 bytes per second are no bound."""
    is_fast = round_trip_s <= NEAR_S or bytes_per_s >= FAST_BYTES_PER_S or bytes_per_s <= 0
    return Errors(*(FAST_LINK if is_fast else SLOW_LINK))


def errors_seen(logarithms: Sequence[float]) -> Errors | None:
    """The errors of forecasts that were checked on this machine; None if there are not enough."""
    count = len(logarithms)
    if count < PAIRS_MIN:
        return None
    ordered = sorted(logarithms)
    # With one more than there are, as the next one may lie anywhere between them.
    rank = min(count, math.ceil((count + 1) * (1 + HELD) / 2))
    return Errors(ordered[count - rank], ordered[rank - 1], count)
