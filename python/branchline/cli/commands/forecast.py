"""`branchline forecast` and `branchline advise`: what the same work would take, and what would help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_json, print_out
from branchline.cli.read_options import ReadingSettings, requests_recorded
from branchline.errors import OptionError

Work = Annotated[
    list[str],
    Argument(
        metavar="JOB|TRACE|DATASET...", help="A directory of results or its job.json; a trace; else files to read."
    ),
]
Branches = Annotated[
    str | None,
    Option("--branches", metavar="NAMES", help="Branches that are read of a dataset (default: all), with commas."),
]
AsJson = Annotated[bool, Option("--json", help="Print everything as JSON.")]


def forecast(
    location: Work,
    reading: ReadingSettings,
    conditions: Annotated[
        list[str],
        Option(
            "--what-if",
            metavar="KEY=VALUE",
            help="What is otherwise: rtt=63ms, bandwidth=7MB/s (of each worker), access=prefetch, gap=64kB, "
            "tree-cache=10MB, buffer=16MB (requested at a time), codec=zstd:5, layout=merged, order=entry, "
            "order=branch, baskets=64kB, clusters=30MB, branches=a,b, cores=4, threads=2 (in each worker), "
            "jobs=1000 (at once, which share the bandwidth); several with commas, or repeated.",
        ),
    ] = [],  # noqa: B006 - never changed
    branches: Branches = None,
    platform: Annotated[
        Path | None,
        Option("--platform", metavar="FILE.toml", help="Disks, servers, links, caches and nodes that jobs share."),
    ] = None,
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FILE", help="Keep the forecast, for `branchline forecast check`."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Says what the same work would take under other conditions: time, CPU efficiency, bytes, requests.

    Requests and bytes are planned on the metadata of the files, without reading them; rates are those in the record of
    the job, or measured on a sample of the dataset. Intervals are meant to hold the truth in 90 % of all cases. Jobs at
    once, and the jobs of a trace, are simulated: the table has a row for each number of jobs.

    Examples:
        Would a job be slower at 63 ms and 7 MB/s:
            branchline forecast out --what-if rtt=63ms,bandwidth=7MB/s
        Whether merging helps who reads two branches:
            branchline forecast "data/*.root" --branches a,b --what-if layout=merged,order=entry
        How many jobs like this one a link of 1 GB/s can feed:
            branchline forecast out --what-if jobs=1000,bandwidth=1GB/s

    """
    from branchline.cli.tables.forecast_what_if import kept_or_printed, print_jobs, print_what_if
    from branchline.lab.forecast.conditions import conditions_of
    from branchline.lab.simulation.platform import load_platform
    from branchline.lab.simulation.simulated_jobs import JobsAtOnce
    from branchline.lab.what_if import answer

    wanted = conditions_of(conditions)
    shared = load_platform(platform) if platform is not None else None
    names = tuple(branches.split(",")) if branches else None
    with requests_recorded(reading.trace_to):
        found = answer(location, wanted, names, reading.access, shared)
    if kept_or_printed(found, output, as_json=as_json):
        return
    if isinstance(found, JobsAtOnce):
        print_jobs(found)
    else:
        print_what_if(found)


def check(
    path: Annotated[Path | None, Argument(metavar="FORECAST", help="A forecast that was kept with -o.")] = None,
    jobs: Annotated[
        list[str] | None, Argument(metavar="JOB...", help="Jobs that did the work so: directories of results.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Says how right a forecast was: its error, and how many of its intervals hold what was measured.

    The forecast and what was measured are kept, as is advice that was proved by `branchline advise --prove`. Without a
    forecast all of them are shown.

    Examples:
        Compare a forecast with two jobs:
            branchline forecast check merged.json out-1 out-2
        How right all forecasts on this machine were:
            branchline forecast check

    """
    from branchline.base.plain import finite, to_plain
    from branchline.base.quantities import duration
    from branchline.cli.tables.checked_lines import print_checked
    from branchline.lab.forecast.checked import keep_checked, load_checked
    from branchline.lab.forecast.kept_forecasts import check as checked
    from branchline.lab.forecast.kept_forecasts import checked_of, kept
    from branchline.lab.forecast.subject import job_record

    if path is None:
        print_checked(load_checked().here(), as_json=as_json)
        return
    if not jobs:
        raise OptionError("no job is named that did the work so", hint="name the directory of its results, too")
    forecast_kept = kept(path)
    record = checked(forecast_kept, [job_record(job) for job in jobs])
    keep_checked(checked_of(forecast_kept, record))
    if as_json:
        print_json(finite(to_plain(record)))
        return
    for name, one in zip(jobs, record.checks, strict=True):
        held = "inside the interval" if one.is_held else "outside the interval"
        print_out(
            f"{name}: said {duration(one.said_s)}, measured {duration(one.measured_s)} ({one.error:+.1%}, {held}); "
            f"bytes {one.bytes_error:+.1%}, requests {one.requests_error:+.1%}"
        )
    print_out(f"median error {record.median_error:.1%}; {record.coverage:.0%} of the 90 % intervals hold")


def calibrate(
    reading: ReadingSettings,
    location: Annotated[
        list[str] | None, Argument(metavar="DATASET...", help="Files at a storage that is measured, too.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measures this machine, and a storage, for forecasts: takes at most a minute.

    Codecs are measured on files that are written for it and removed, the storage by reading some of the files that are
    named. The result is kept in a file of yours, and used by `branchline forecast` for codecs that a job did not meet.

    Examples:
        Measure this machine:
            branchline calibrate --json
        And a storage, as it is from here:
            branchline calibrate root://eos.example.org//data/*.root

    """
    from branchline.base.plain import finite, to_plain
    from branchline.lab.forecast.calibration import calibrate as measured
    from branchline.lab.forecast.calibration import load_calibration, save_calibration
    from branchline.reading.datasets.dataset import Dataset

    files = tuple(Dataset.of(location)) if location else ()
    found = measured(files, reading.access, load_calibration())
    path = save_calibration(found)
    if as_json:
        print_json(finite(to_plain(found)))
        return
    print_out(f"{found.machine}: decoding {found.decode_s_per_byte * 1e9:.2f} s for a GB, and decompressing")
    for codec, seconds in found.decompress_s_per_byte.items():
        print_out(f"   {codec}: {seconds * 1e9:.2f} s for a GB")
    for name, one in found.storages.items():
        rate = f"{one.bytes_per_second / 1e6:.0f} MB/s" if one.bytes_per_second else "an unknown bandwidth"
        print_out(f"{name}: {one.round_trip_s * 1e3:.2g} ms, {rate}, {one.call_s * 1e3:.2g} ms for a call besides")
    print_out(f"kept in {path}")


def advise(
    location: Work,
    reading: ReadingSettings,
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

    The gain of each is forecast as by `branchline forecast`, or tried on a sample where files are near; less than 3 %
    is not said. Several jobs over the same files are compared with one train of all their wagons. A job whose files are
    gone is advised by its record alone.

    Examples:
        What would help a job:
            branchline advise out
        Whether one train of several jobs, which read the same, would be faster:
            branchline advise out-1 out-2 out-3
        What would help who reads two branches of some files:
            branchline advise "data/*.root" --branches a,b
        Follow the advice, and measure what it has gained:
            branchline advise "data/*.root" --do better --prove

    """
    from branchline.base.plain import finite, to_plain
    from branchline.cli.commands.proving import prove
    from branchline.cli.tables.advice_lines import print_advice
    from branchline.lab.advice.advise import advice_of
    from branchline.lab.advice.doing import do
    from branchline.lab.forecast.subject import is_job
    from branchline.lab.what_if import advice_on

    if len(location) > 1 and all(map(is_job, location)):
        _advise_together(location, as_json=as_json)
        return
    with requests_recorded(reading.trace_to):
        said = advice_on(location, tuple(branches.split(",")) if branches else None, reading.access)
    found, subject = said.found, said.subject
    if said.unsaid:
        log(said.unsaid)
    if as_json:
        print_json(finite(to_plain(found)))
        return
    print_advice(advice_of(found), "Nothing that Branchline knows of would save 3 % of the time.")
    chosen = next((one for one in found if one.change.writes or not do_in), None)
    if not (do_in or is_proved):
        return
    if chosen is None or subject is None:
        hint = "name the files where they are now" if subject is None else "follow what is said by hand"
        raise OptionError("there is no advice here that can be followed or proved", hint=hint)
    written = do(chosen, subject.files, do_in) if do_in else ()
    for file in written:
        print_out(f"written and verified: {file.path}")
    if is_proved:
        prove(chosen, subject, written)


def _advise_together(jobs: list[str], *, as_json: bool) -> None:
    """Advice for several jobs: one train, if they read the same."""
    from branchline.base.plain import finite, to_plain
    from branchline.cli.tables.advice_lines import print_advice
    from branchline.lab.forecast.subject import job_record
    from branchline.records.diagnosis.job_advice import advise_jobs

    found = advise_jobs([job_record(job) for job in jobs])
    if as_json:
        print_json(finite(to_plain(found)))
        return
    print_advice(found, "These jobs do not read the same files: name each alone to see what would help it.")
