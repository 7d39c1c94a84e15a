"""`branchline forecast` and `branchline advise`: what the same work would take, and what would help."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import print_out
from branchline.cli.reading import Reading, requests_recorded

if TYPE_CHECKING:
    from branchline.forecast.forecasting import Interval, WhatIf
    from branchline.forecast.subject import Subject

Work = Annotated[
    list[str],
    Argument(metavar="JOB|DATASET...", help="A directory of results or its job.json; else files to read."),
]
Branches = Annotated[
    str | None,
    Option("--branches", metavar="NAMES", help="Branches that are read of a dataset (default: all), with commas."),
]
AsJson = Annotated[bool, Option("--json", help="Print everything as JSON.")]


def forecast(
    location: Work,
    reading: Reading,
    conditions: Annotated[
        list[str],
        Option(
            "--what-if",
            metavar="KEY=VALUE",
            help="What is otherwise: rtt=63ms, bandwidth=7MB/s (of each worker), access=prefetch, codec=zstd:5, "
            "layout=merged, order=entry, baskets=64kB, branches=a,b, cores=4; several with commas, or repeated.",
        ),
    ] = [],  # noqa: B006 - never changed
    branches: Branches = None,
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FILE", help="Keep the forecast, for `branchline forecast-check`."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Says what the same work would take under other conditions: time, CPU efficiency, bytes, requests.

    Requests and bytes are planned on the metadata of the files, without reading them; rates are those in the record of
    the job, or measured on a sample of the dataset. Intervals are meant to hold the truth in 90 % of all cases.

    Examples:
        Would a job be slower at 63 ms and 7 MB/s:
            branchline forecast out --what-if rtt=63ms,bandwidth=7MB/s
        Whether merging helps who reads two branches:
            branchline forecast "data/*.root" --branches a,b --what-if layout=merged,order=entry

    """
    from branchline.cli.terminal import console
    from branchline.forecast.conditions import conditions_of
    from branchline.forecast.forecasting import what_if
    from branchline.forecast.kept import keep
    from branchline.forecast.other_codec import try_codec
    from branchline.sensors.plain import finite, to_plain

    wanted = conditions_of(conditions)
    with requests_recorded(reading.trace_to):
        subject = _subject(location, branches, reading)
        other = try_codec(wanted.codec, subject.files, subject.laid, subject.branches) if wanted.codec else None
        found = what_if(subject, wanted, other)
    if output is not None:
        keep(found, output)
    if as_json:
        print_out(json.dumps(finite(to_plain(found)), indent=1))
        return
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("", "now", "then", "90 % interval"):
        table.add_column(heading, no_wrap=True)
    for row in _rows(found):
        table.add_row(*row)
    console().print(table)
    for line in found.basis:
        print_out(line)


def check(
    path: Annotated[Path, Argument(metavar="FORECAST", help="A forecast that was kept with -o.")],
    jobs: Annotated[list[str], Argument(metavar="JOB...", help="Jobs that did the work so: directories of results.")],
    as_json: AsJson = False,
) -> None:
    """Says how right a forecast was: its error, and how many of its intervals hold what was measured.

    Examples:
        Compare a forecast with two jobs:
            branchline forecast-check merged.json out-1 out-2

    """
    from branchline.forecast.kept import check as checked
    from branchline.forecast.kept import kept
    from branchline.forecast.subject import job_record
    from branchline.quantities import duration
    from branchline.sensors.plain import finite, to_plain

    record = checked(kept(path), [job_record(job) for job in jobs])
    if as_json:
        print_out(json.dumps(finite(to_plain(record)), indent=1))
        return
    for name, one in zip(jobs, record.checks, strict=True):
        held = "inside the interval" if one.is_held else "outside the interval"
        print_out(
            f"{name}: said {duration(one.said_s)}, measured {duration(one.measured_s)} ({one.error:+.1%}, {held}); "
            f"bytes {one.bytes_error:+.1%}, requests {one.requests_error:+.1%}"
        )
    print_out(f"median error {record.median_error:.1%}; {record.coverage:.0%} of the 90 % intervals hold")


def advise(
    location: Work,
    reading: Reading,
    branches: Branches = None,
    do_in: Annotated[
        Path | None,
        Option("--do", metavar="DIR", help="Follow the first advice that means new files: write them here, verified."),
    ] = None,
    is_proved: Annotated[
        bool, Option("--prove", help="Read before and after in pairs, and print forecast and measurement.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Says what would make a job or the reading of a dataset faster: at most five changes, the largest gain first.

    The gain of each is forecast as by `branchline forecast`; less than 3 % is not said.

    Examples:
        What would help a job:
            branchline advise out
        What would help who reads two branches of some files:
            branchline advise "data/*.root" --branches a,b
        Follow the advice, and measure what it has gained:
            branchline advise "data/*.root" --do better --prove

    """
    from branchline.cli.advice_lines import print_advice
    from branchline.cli.proving import prove
    from branchline.forecast.advising import advice_of
    from branchline.forecast.advising import advise as advised
    from branchline.forecast.doing import do
    from branchline.sensors.plain import finite, to_plain

    with requests_recorded(reading.trace_to):
        subject = _subject(location, branches, reading)
        found = advised(subject)
    if as_json:
        print_out(json.dumps(finite(to_plain(found)), indent=1))
        return
    print_advice(advice_of(found), "Nothing that Branchline knows of would save 3 % of the time.")
    chosen = next((one for one in found if one.change.writes or not do_in), None)
    if chosen is None or not (do_in or is_proved):
        return
    written = do(chosen, subject.files, do_in) if do_in else ()
    for file in written:
        print_out(f"written and verified: {file.path}")
    if is_proved:
        prove(chosen, subject, written)


def _subject(location: list[str], branches: str | None, reading: Reading) -> Subject:
    from branchline.forecast.subject import subject_of

    return subject_of(location, tuple(branches.split(",")) if branches else None, reading.access)


def _rows(found: WhatIf) -> list[tuple[str, str, str, str]]:
    from branchline.quantities import count, duration, size

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
