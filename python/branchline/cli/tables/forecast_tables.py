"""Prints forecasts as tables: the forecast of a test run, and the results of `branchline forecast`.

The table of a test run has one row per wagon. The tables of `branchline forecast` compare the current conditions with
the changed ones, or have one row per number of jobs.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from branchline.base.plain import finite, to_plain
from branchline.base.quantities import count, duration, size
from branchline.cli.printing import print_json, print_out
from branchline.cli.tables.terminal import console
from branchline.errors import OptionError
from branchline.lab.forecast.forecasting import Interval, WhatIf
from branchline.lab.forecast.kept_forecasts import keep
from branchline.lab.simulation.simulated_jobs import JobsAtOnce
from branchline.trains.testing.cost_forecast import Forecast, WagonForecast

BRANCHES_SHOWN = 6
# Console width that exceeds the width of any table, to measure the width that a table needs.
WIDEST = 1000


def print_forecast(forecast: Forecast, console: Console) -> None:
    """Print a row for each wagon, and then the forecast for the whole train with its basis."""
    table = Table(title="each wagon separately", title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("wagon", no_wrap=True)
    for heading in (
        "events\ntried",
        "first\nchunk",
        "time per\nevent",
        "CPU per\nevent",
        "memory",
        "output",
        "output\nof all",
    ):
        table.add_column(Text(heading), justify="right", no_wrap=True)
    for wagon in forecast.wagons:
        table.add_row(*_wagon_row(wagon))
    if console.measure(table, options=console.options.update_width(WIDEST)).maximum <= console.width:
        console.print(table)
    else:
        _print_one_by_one(table, console)
    for wagon in forecast.wagons:
        if wagon.error is None:
            console.print(f"{wagon.name} reads {branches_text(wagon.branches)}", markup=False, soft_wrap=True)
            if wagon.variations:
                console.print(f"{wagon.name} is varied: {', '.join(wagon.variations)}", markup=False, soft_wrap=True)
        else:
            console.print(wagon.error.sentence(wagon.name), markup=False, soft_wrap=True)
    for difference in forecast.differences:
        console.print(difference.sentence(), markup=False, soft_wrap=True)
    summary = (
        f"forecast for {count(forecast.events)} events with {forecast.workers} workers: "
        f"{duration_text(forecast.seconds)}, {size(forecast.memory_bytes)} of memory, "
        f"{size(forecast.output_bytes)} of output; "
        f"reading takes {duration_text(forecast.read_s_per_event)} per event"
    )
    console.print(summary, markup=False, soft_wrap=True)
    for sentence in forecast.basis:
        console.print(f"  {sentence}", markup=False, soft_wrap=True)


def _print_one_by_one(table: Table, console: Console) -> None:
    """Print one cell per line, for a terminal that is too narrow for the table."""
    headings = [str(column.header).replace("\n", " ") for column in table.columns]
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        for heading, cell in zip(headings, cells, strict=True):
            if cell:
                console.print(f"{heading:>15}  {cell}", markup=False, highlight=False)


def _wagon_row(wagon: WagonForecast) -> list[str]:
    if wagon.error is not None and wagon.events == 0:
        return [wagon.name, "fails", *[""] * 6]
    return [
        wagon.name,
        f"{wagon.events}" if wagon.error is None else "fails",
        duration_text(wagon.first_s),
        duration_text(wagon.seconds_per_event),
        duration_text(wagon.cpu_s_per_event),
        size(wagon.memory_bytes),
        size(wagon.output_bytes),
        size(wagon.output_bytes_forecast) + (" \u2191" if wagon.output_grows else ""),
    ]


def branches_text(branches: tuple[str, ...]) -> str:
    """Return the first few branch names and the number of remaining branches."""
    shown = ", ".join(branches[:BRANCHES_SHOWN])
    more = len(branches) - BRANCHES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown or "nothing"


def duration_text(seconds: float) -> str:
    """Return a duration as text, in a suitable unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("\u00b5s", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}" if seconds < 120 else f"{seconds / 60:.0f} min"
    return f"{seconds / 1e-9:.0f} ns"


def kept_or_printed(found: WhatIf | JobsAtOnce, output: Path | None, *, as_json: bool) -> bool:
    """Save a forecast to a file and print it as JSON, each if requested; return whether JSON was printed."""
    if output is not None:
        if isinstance(found, JobsAtOnce):
            raise OptionError("only the forecast of a single job can be saved", hint="use --json for concurrent jobs")
        keep(found, output)
    if as_json:
        print_json(finite(dict(found.to_plain()) if isinstance(found, JobsAtOnce) else to_plain(found)))
    return as_json


def print_what_if(found: WhatIf) -> None:
    """Print the forecast of the same work under the current and the changed conditions."""
    table = _empty_table("", "now", "then", "90 % interval")
    for row in _what_if_rows(found):
        table.add_row(*row)
    console().print(table)
    for line in found.basis:
        print_out(line)


def _what_if_rows(found: WhatIf) -> list[tuple[str, str, str, str]]:
    def row(name: str, text: object, now: Interval, then: Interval) -> tuple[str, str, str, str]:
        assert callable(text)
        return name, text(now.value), text(then.value), f"{text(then.low)} to {text(then.high)}"

    now, then = found.now, found.then
    return [
        row("wall time", duration, now.wall_s, then.wall_s),
        row("CPU efficiency", lambda part: f"{part:.0%}", now.cpu_efficiency, then.cpu_efficiency),
        row("bytes read", size, now.bytes_read, then.bytes_read),
        row("requests", lambda number: count(round(number)), now.requests, then.requests),
    ]


def print_jobs(found: JobsAtOnce) -> None:
    """Print a row for each number of jobs, and the smallest number of jobs that slow each other down."""
    table = _empty_table(
        "jobs", "all done after", "a job: median", "95 % below", "together", "CPU efficiency", "limited by"
    )
    for one in found.points:
        times = (one.makespan_s, one.job_times.median_s, one.job_times.p95_s)
        rest = (f"{size(one.bytes_per_s)}/s", f"{one.cpu_efficiency:.0%}", one.limited_by)
        table.add_row(count(one.jobs), *(duration(seconds) for seconds in times), *rest)
    console().print(table)
    if found.saturation is None:
        print_out("these numbers of jobs do not slow each other down")
    else:
        limit = found.saturation
        print_out(f"from {count(limit.jobs)} jobs on, each gets less than 90 % of its rate alone: {limit.limited_by}")


def _empty_table(*headings: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(Text(heading), no_wrap=True)
    return table
