"""What would help, as a page shows it: others give it, and this only puts it into words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from branchline.base.quantities import duration
from branchline.records.diagnosis.advice import Advice


class AdviceRow(NamedTuple):
    """A piece of advice: its gain and interval in per cent, the times without and with it, and its sentences."""

    gain: str
    interval: str
    times: str
    what: str
    change: str
    cost: str
    whom: str


def advice_rows(advice: Sequence[Advice]) -> list[AdviceRow]:
    """Return the rows, in the order of the advice."""
    return [_row(one) for one in advice]


def _row(one: Advice) -> AdviceRow:
    gain = one.gain
    return AdviceRow(
        gain=f"{100 * gain.value:.0f} % less time",
        interval=f"{100 * gain.low:.0f} to {100 * gain.high:.0f} %",
        times=f"about {one.then_words()} instead of {duration(one.now_s)}",
        what=f"{one.what[:1].upper()}{one.what[1:]}.",
        change=one.change,
        cost=one.cost,
        whom=one.whom,
    )
