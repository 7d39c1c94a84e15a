"""The page of findings."""

from __future__ import annotations

from collections.abc import Callable

from branchline.base.quantities import duration, percent, ratio
from branchline.control.findings.alarm_findings import WATCHED_PAGE
from branchline.control.findings.finder import DAYS
from branchline.control.findings.finding import Finding
from branchline.control.metrics import troubles_of
from branchline.control.web.pages.page import Ask, Page


def findings(ask: Ask) -> Page:
    """The latest findings of a period. Periods longer than a month show the findings of a month."""
    shown = ask.room.findings.last(ask.period if ask.period in DAYS else "month")
    troubles = [one for one in troubles_of(ask.room) if one.why] if ask.person.is_operator else []
    words = {"estimate": estimate, "command": ask.command, "watched_page": WATCHED_PAGE}
    return Page("findings.html", "Findings", shown, {"periods": list(DAYS), "troubles": troubles, **words})


def estimate(finding: Finding) -> str:
    """Format a finding's estimate, with the confidence interval if the estimate has one."""
    one = finding.estimate
    write = _WRITTEN.get(finding.unit, _share)
    text = f"{write(one.value)} {_AFTER.get(finding.unit, finding.unit)}"
    if one.low == one.high:
        return text
    return f"{text} ({write(one.low)} to {write(one.high)}, {_share(one.level)})"


def _share(value: float) -> str:
    return percent(value, 1.0)


_WRITTEN: dict[str, Callable[[float], str]] = {
    "times": lambda value: ratio(value, 1.0, 2),
    "seconds a read": duration,
}
_AFTER = {"seconds a read": "a read"}
