"""The answers of `branchline forecast` on the terminal: now and then, or a row for each number of jobs."""

from __future__ import annotations

from pathlib import Path

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


def kept_or_printed(found: WhatIf | JobsAtOnce, output: Path | None, *, as_json: bool) -> bool:
    """Keeps a forecast in a file, and prints it as JSON, if that is wanted; returns whether it was printed."""
    if output is not None:
        if isinstance(found, JobsAtOnce):
            raise OptionError("only the forecast of one job is kept to be checked", hint="use --json for jobs at once")
        keep(found, output)
    if as_json:
        print_json(finite(to_plain(found)))
    return as_json


def print_what_if(found: WhatIf) -> None:
    """The same work now and then."""
    table = _table("", "now", "then", "90 % interval")
    for row in _rows(found):
        table.add_row(*row)
    console().print(table)
    for line in found.basis:
        print_out(line)


def print_jobs(found: JobsAtOnce) -> None:
    """A row for each number of jobs, and where they begin to hold each other up."""
    table = _table(
        "jobs", "all done after", "a job: median", "95 % below", "together", "CPU efficiency", "held back by"
    )
    for one in found.points:
        times = (one.makespan_s, one.job_times.median_s, one.job_times.p95_s)
        rest = (f"{size(one.bytes_per_s)}/s", f"{one.cpu_efficiency:.0%}", one.limited_by)
        table.add_row(count(one.jobs), *(duration(seconds) for seconds in times), *rest)
    console().print(table)
    if found.saturation is None:
        print_out("so many jobs do not hold each other up")
    else:
        limit = found.saturation
        print_out(
            f"from {count(limit.jobs)} jobs on each gets less than 90 % of what it gets alone: {limit.limited_by}"
        )


def _table(*headings: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(Text(heading), no_wrap=True)
    return table


def _rows(found: WhatIf) -> list[tuple[str, str, str, str]]:
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
