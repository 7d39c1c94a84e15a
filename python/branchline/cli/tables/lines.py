"""Prints advice, filled branches, and comparisons of forecasts with measurements, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from branchline.base.plain import finite, to_plain
from branchline.base.quantities import count, counted, duration
from branchline.cli.printing import log, print_json, print_out

if TYPE_CHECKING:
    from branchline.lab.forecast.checked import CheckedForecasts
    from branchline.records.diagnosis.advice import Advice
    from branchline.writing.merging.merge import FilledBranch

#: Maximum number of branches that are listed: hundreds of trigger branches may be missing.
FILLED_SHOWN = 20


def print_advice(found: Sequence[Advice], nothing: str = "No known change would save 3 % of the time.") -> None:
    """Print each piece of advice that has a gain, or the text ``nothing`` without one. Other changes follow in one line
    for each answer.
    """
    gains = [one for one in found if one.gain.answer == "gain"]
    if not gains:
        print_out(nothing)
    for number, one in enumerate(gains, 1):
        for line in one.lines(number):
            print_out(line)
    for answer in ("no gain", "unclear"):
        others = [f"{one.id} ({one.gain.words()})" for one in found if one.gain.answer == answer]
        if others:
            print_out(f"{answer}: {', '.join(others)}")


def print_checked(found: CheckedForecasts, *, as_json: bool) -> None:
    """Print each forecast with its error, newest last, and the overall accuracy of all forecasts."""
    if as_json:
        print_json(finite(to_plain(found)))
        return
    if not found.forecasts:
        print_out("No forecast was checked on this machine; use: branchline forecast check FORECAST JOB")
        return
    for one in found.forecasts:
        error = f"{one.said_s / one.measured_s - 1:+.1%}" if one.measured_s > 0 else "no time"
        held = {True: ", inside the interval", False: ", outside the interval", None: ""}[one.is_held]
        times = f"forecast {duration(one.said_s)}, measured {duration(one.measured_s)}"
        print_out(f"{one.measured_at[:10]} {one.about}: {times} ({error}{held})")
    parts = [counted(len(found.forecasts), "forecast")]
    median, coverage, savings = found.median_error(), found.coverage(), found.savings_error()
    if median is not None:
        parts.append(f"median error {median:.1%}")
    if coverage is not None:
        parts.append(f"{coverage:.0%} of the 90 % intervals contain the measurement")
    if savings is not None:
        parts.append(f"measured savings differed from their forecasts by {savings:.0%} (median)")
    print_out("; ".join(parts))


def log_filled(filled: Sequence[FilledBranch]) -> None:
    """Print a line for each filled branch, up to the maximum number, and the number of remaining branches."""
    for branch in filled[:FILLED_SHOWN]:
        entries = f"{count(branch.entries)} entries of {counted(branch.files, 'file')}"
        log(
            f"filled with 0 or an empty value: branch {branch.name} of the tree {branch.tree}, for {entries} without it"
        )
    if len(filled) > FILLED_SHOWN:
        log(f"and {counted(len(filled) - FILLED_SHOWN, 'branch', 'branches')} more")
