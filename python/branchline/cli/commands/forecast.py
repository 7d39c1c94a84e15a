"""`branchline forecast`, `calibrate` and `advise`: forecast the cost of work, and suggest changes.

`branchline advise --prove` measures a change with paired reads or job runs, and compares the gain with the forecast.
"""

from __future__ import annotations

import shlex
import signal
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from branchline.base.limits import PROOF_S
from branchline.base.option_fields import comma_separated
from branchline.base.plain import finite, to_plain
from branchline.base.processes import own_python
from branchline.base.quantities import GB, duration, rate
from branchline.base.texts import printable
from branchline.cli.options import ReadingSettings, requests_recorded
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_json, print_out
from branchline.errors import OptionError

if TYPE_CHECKING:
    from branchline.lab.advice.advise import Advised
    from branchline.lab.comparison.command_samples import ArmRun, ShellCommand
    from branchline.lab.forecast.checked import Checked
    from branchline.lab.forecast.subject import Subject
    from branchline.reading.access import Access
    from branchline.reading.datasets.data_file import DataFile

Work = Annotated[
    list[str],
    Argument(metavar="JOB|TRACE|DATASET...", help="A results directory or its job.json; a trace; or files to read."),
]
Branches = Annotated[
    str | None,
    Option("--branches", metavar="NAMES", help="Branches of a dataset to read (default: all), separated by commas."),
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
            help="Changed conditions: rtt=63ms, bandwidth=7MB/s (per worker), access=prefetch, gap=64kB, "
            "tree-cache=10MB, buffer=16MB (per request), codec=zstd:5, layout=merged, order=entry, "
            "order=branch, baskets=64kB, clusters=30MB, branches=a,b, cores=4, threads=2 (per worker), "
            "jobs=1000 (concurrent, sharing the bandwidth); separated by commas, or repeated.",
        ),
    ] = [],  # noqa: B006 - never changed
    branches: Branches = None,
    platform: Annotated[
        Path | None,
        Option("--platform", metavar="FILE.toml", help="Disks, servers, links, caches and nodes shared by jobs."),
    ] = None,
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FILE", help="Save the forecast, for `branchline forecast check`."),
    ] = None,
    html: Annotated[
        Path | None, Option("--html", metavar="FILE", help="Write a page with the figures of simulated jobs.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Forecast the same work under other conditions: time, CPU efficiency, bytes, requests.

    Requests and bytes are planned from the metadata of the files, without reading their data; rates are taken from the
    record of the job, or measured on a sample of the dataset. Intervals have a nominal coverage of 90 %. Concurrent
    jobs, and the jobs of a trace, are simulated: the table has a row for each number of jobs.

    Examples:
        Would a job be slower at 63 ms and 7 MB/s:
            branchline forecast out --what-if rtt=63ms,bandwidth=7MB/s
        Whether merging helps when reading two branches:
            branchline forecast "data/*.root" --branches a,b --what-if layout=merged,order=entry
        How many jobs like this one a link of 1 GB/s can feed:
            branchline forecast out --what-if jobs=1000,bandwidth=1GB/s

    """
    from branchline.cli.tables.forecast_tables import kept_or_printed, print_jobs, print_what_if
    from branchline.lab.forecast.conditions import conditions_of
    from branchline.lab.simulation.platform import load_platform
    from branchline.lab.simulation.simulated_jobs import JobsAtOnce
    from branchline.lab.what_if import answer

    wanted = conditions_of(conditions)
    shared = load_platform(platform) if platform is not None else None
    names = comma_separated(branches)
    with requests_recorded(reading.trace_to):
        found = answer(location, wanted, names, reading.access, shared)
    if html is not None:
        if not isinstance(found, JobsAtOnce):
            raise OptionError("figures are drawn of simulated jobs only", hint="add --what-if jobs=N")
        from branchline.lab.studies.simulated_page import write_simulated

        write_simulated(found, html)
        log(f"The figures are in {printable(str(html))}.")
    if kept_or_printed(found, output, as_json=as_json):
        return
    if isinstance(found, JobsAtOnce):
        print_jobs(found)
    else:
        print_what_if(found)


def check(
    path: Annotated[Path | None, Argument(metavar="FORECAST", help="A forecast saved with -o.")] = None,
    jobs: Annotated[
        list[str] | None, Argument(metavar="JOB...", help="Jobs that ran under these conditions: results directories.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare a forecast with measurements: its error, and how many of its intervals contain the measured value.

    The forecast and the measurements are stored, as is advice that was measured by `branchline advise --prove`. If no
    forecast is given, all stored forecasts are shown.

    Examples:
        Compare a forecast with two jobs:
            branchline forecast check merged.json out-1 out-2
        How accurate all forecasts on this machine were:
            branchline forecast check

    """
    from branchline.cli.tables.lines import print_checked
    from branchline.lab.forecast.checked import keep_checked, load_checked
    from branchline.lab.forecast.kept_forecasts import check as checked
    from branchline.lab.forecast.kept_forecasts import checked_of, kept
    from branchline.lab.forecast.subject import job_record

    if path is None:
        print_checked(load_checked().here(), as_json=as_json)
        return
    if not jobs:
        raise OptionError("no job to compare the forecast with", hint="add the results directory of a job")
    forecast_kept = kept(path)
    record = checked(forecast_kept, [job_record(job) for job in jobs])
    keep_checked(checked_of(forecast_kept, record))
    if as_json:
        print_json(finite(to_plain(record)))
        return
    for name, one in zip(jobs, record.checks, strict=True):
        held = "inside the interval" if one.is_held else "outside the interval"
        print_out(
            f"{name}: forecast {duration(one.said_s)}, measured {duration(one.measured_s)} ({one.error:+.1%}, {held}); "
            f"bytes {one.bytes_error:+.1%}, requests {one.requests_error:+.1%}"
        )
    print_out(
        f"median error {record.median_error:.1%}; {record.coverage:.0%} of the 90 % intervals contain the measurement"
    )


def calibrate(
    reading: ReadingSettings,
    location: Annotated[
        list[str] | None, Argument(metavar="DATASET...", help="Files on a storage to measure as well.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure this machine, and optionally a storage, for forecasts; takes at most a minute.

    Codecs are measured with temporary files, the storage by reading some of the given files. The result is saved in the
    user's state directory, and `branchline forecast` uses it for codecs that a job did not read.

    Examples:
        Measure this machine:
            branchline calibrate --json
        And a storage, as seen from here:
            branchline calibrate root://eos.example.org//data/*.root

    """
    from branchline.lab.forecast.calibration import calibrate as measured
    from branchline.lab.forecast.calibration import load_calibration, save_calibration
    from branchline.reading.datasets.dataset import Dataset

    files = tuple(Dataset.of(location, access=reading.access)) if location else ()
    found = measured(files, reading.access, load_calibration())
    path = save_calibration(found)
    if as_json:
        print_json(finite(to_plain(found)))
        return
    print_out(f"{found.machine}: decoding {found.decode_s_per_byte * GB:.2f} s per GB, and decompressing")
    for codec, seconds in found.decompress_s_per_byte.items():
        print_out(f"   {codec}: {seconds * GB:.2f} s per GB")
    for name, one in found.storages.items():
        bandwidth = rate(one.bytes_per_second, 1) if one.bytes_per_second else "an unknown bandwidth"
        print_out(f"{name}: {duration(one.round_trip_s)}, {bandwidth}, {duration(one.call_s)} overhead per call")
    print_out(f"saved in {path}")


def advise(
    location: Work,
    reading: ReadingSettings,
    branches: Branches = None,
    do_in: Annotated[
        Path | None,
        Option(
            "--do",
            metavar="DIR",
            help="Apply the first advice that requires new files: write them to this directory, and verify them.",
        ),
    ] = None,
    is_proved: Annotated[
        bool, Option("--prove", help="Measure the gain with pairs of runs, and compare it with the forecast.")
    ] = False,
    jobs: Annotated[
        int, Option("--jobs", metavar="N", help="Number of such jobs that run concurrently on this machine.")
    ] = 1,
    is_cold: Annotated[
        bool,
        Option(
            "--cold",
            help="Evict the sample from the page cache before each read, as for a dataset larger than the memory. "
            "Changed files are written to a temporary folder beside the files.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Suggest changes that make a job or the reading of a dataset faster: at most five, the largest gain first.

    Gains are forecast as by `branchline forecast`, or measured on a sample if the files are near. Changes that gain
    less than 3 %, or whose gain is unclear, are only named, with the interval of the gain. Several jobs over the same
    files are compared with one train of all their wagons. If the files of a job no longer exist, the advice is based on
    its record alone.

    Examples:
        What would help a job:
            branchline advise out
        Whether one train of several jobs that read the same files would be faster:
            branchline advise out-1 out-2 out-3
        What would help when reading two branches of some files:
            branchline advise "data/*.root" --branches a,b
        The same for eight jobs that read from a disk, not from memory:
            branchline advise "data/*.root" --branches a,b --jobs 8 --cold
        Apply the advice, and measure the gain:
            branchline advise "data/*.root" --do better --prove

    """
    from branchline.cli.tables.lines import print_advice
    from branchline.lab.advice.advise import advice_of, do, gains_of
    from branchline.lab.forecast.subject import is_job
    from branchline.lab.what_if import advice_on

    is_situation = jobs != 1 or is_cold
    if is_situation and is_proved:
        raise OptionError("--prove measures one job with files in memory", hint="leave out --jobs and --cold")
    if len(location) > 1 and all(map(is_job, location)):
        if is_situation:
            raise OptionError("several jobs are compared by their records", hint="leave out --jobs and --cold")
        _advise_together(location, as_json=as_json)
        return
    if is_cold:
        # The folder beside the files is removed when the command ends in an orderly way.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with requests_recorded(reading.trace_to):
        said = advice_on(location, comma_separated(branches), reading.access, jobs=jobs, is_cold=is_cold)
    found, subject = said.found, said.subject
    if said.unsaid:
        log(said.unsaid)
    if as_json:
        print_json(finite([{**to_plain(one), "answer": one.advice.gain.answer} for one in found]))
        return
    print_advice(advice_of(found))
    chosen = next((one for one in gains_of(found) if one.change.writes or not do_in), None)
    if not (do_in or is_proved):
        return
    if chosen is None or subject is None:
        hint = "give the current location of the files" if subject is None else "apply the advice by hand"
        raise OptionError("this command cannot apply or measure any of the advice", hint=hint)
    written = do(chosen, subject.files, do_in) if do_in else ()
    for file in written:
        print_out(f"written and verified: {file.path}")
    if is_proved:
        prove(chosen, subject, written)


def _advise_together(jobs: list[str], *, as_json: bool) -> None:
    """Print the advice to run several jobs as one train, if the jobs read the same files."""
    from branchline.cli.tables.lines import print_advice
    from branchline.lab.forecast.subject import job_record
    from branchline.records.diagnosis.job_advice import advise_jobs

    found = advise_jobs([job_record(job) for job in jobs])
    if as_json:
        print_json(finite(to_plain(found)))
        return
    print_advice(found, "These jobs do not read the same files: run advise for each job separately.")


def prove(advised: Advised, subject: Subject, written: Sequence[DataFile], budget_s: float = PROOF_S) -> None:
    """Measure the work before and after the change, print the forecast and the measurement, and save both.

    ``written`` are the changed files, if they were already written. Both variants run alternately for ``budget_s``
    seconds. Raises OptionError if the work cannot be repeated.
    """
    from branchline.lab.forecast.checked import keep_checked, load_checked

    found = measured_proof(advised, subject, written, budget_s)
    saved_s = max(0.0, found.saving_s or 0.0)
    print_out(f"{found.advice}: forecast to save {duration(found.saving_said_s or 0.0)}, measured {duration(saved_s)}")
    if found.low_s is not None and found.high_s is not None:
        print_out(f"   95 % interval of {found.pairs} pairs: {found.low_s:.3g} to {found.high_s:.3g} s")
    print_out(f"   saved in {keep_checked([found])}; show all with: branchline forecast check")
    error = load_checked().here().savings_error()
    if error is not None:
        print_out(f"   measured savings on this machine differed from their forecasts by {error:.0%} (median)")


def measured_proof(
    advised: Advised, subject: Subject, written: Sequence[DataFile], budget_s: float = PROOF_S
) -> Checked:
    """Run a paired study of the change for about ``budget_s`` seconds; return the forecast and the measurement.

    For a dataset, only reading is compared; for a job, the whole command is compared.
    """
    from branchline.lab.comparison.compare import FIRST, ComparisonPlan, compare
    from branchline.lab.forecast.checked import Checked, machine_name, now_text

    advice, gain = advised.advice, advised.advice.gain
    with tempfile.TemporaryDirectory(prefix="branchline-proof-") as name:
        folder = Path(name)
        before, after = (
            _readings(advised, subject, written, folder)
            if subject.job is None
            else _job_commands(advised, subject.job.command, folder)
        )
        found = compare(ComparisonPlan(before, after, precision=0.03, budget_s=budget_s, seed=1), log)
    # The load of the machine may have changed since the forecast, so only relative gains are compared.
    now_s = statistics.median(one.wall_s for one in found.samples if one.arm == FIRST)
    low, high = (None if part is None else now_s * (1 - part) for part in (found.wall.high, found.wall.low))
    part = 1 - found.wall.value
    return Checked(
        about=f"proof of {advice.id}: {subject.name}",
        said_s=now_s * (1 - gain.value),
        measured_s=now_s * found.wall.value,
        machine=machine_name(),
        measured_at=now_text(),
        is_held=gain.low <= part <= gain.high,
        advice=advice.id,
        before_s=now_s,
        low_s=low,
        high_s=high,
        pairs=found.wall.pairs,
    )


def _readings(
    advised: Advised, subject: Subject, written: Sequence[DataFile], folder: Path
) -> tuple[ReadingProcess, ReadingProcess]:
    """Return the processes that read the original files and the changed files."""
    from branchline.lab.advice.changes import write_changed

    change = advised.change
    if change.writes and not written:
        written = write_changed(change, subject.files, folder / "after", is_verified=True)
    after = change.access or subject.access
    return (
        _reading("A", folder, subject, subject.files, subject.access),
        _reading("B", folder, subject, written or subject.files, after),
    )


def _reading(name: str, folder: Path, subject: Subject, files: Sequence[DataFile], access: Access) -> ReadingProcess:
    from branchline.lab.advice.timed_read import ReadingRequest

    path, done = folder / f"{name}.json", folder / f"{name}-done.json"
    request = ReadingRequest.of(files, subject.branches, access, subject.threads, done)
    request.write(path)
    return ReadingProcess(name, path, done)


@dataclass(frozen=True)
class ReadingProcess:
    """A variant of reading in a paired study; each sample is read in a new process.

    Only the read time counts: on a busy machine, Python's startup time varies by more than a short read takes.
    """

    name: str
    request: Path
    done: Path
    output: Path | None = None

    @property
    def whole(self) -> list[str]:
        """The command line of the reading process."""
        return [*own_python(), "-m", "branchline.lab.advice.timed_read", str(self.request)]

    def prepare(self, wait_s: float) -> None:
        """Do nothing: reading needs no preparation."""

    def taken(self, round_number: int, position: int, cached_bytes: int | None, wait_s: float) -> ArmRun:
        """Read the files once and return the measurement."""
        from branchline.lab.advice.timed_read import ReadingDone
        from branchline.lab.comparison.command_samples import ShellCommand

        self.done.unlink(missing_ok=True)
        sample = ShellCommand(self.name, tuple(self.whole)).taken(round_number, position, cached_bytes, wait_s)
        if sample.code:
            return sample
        done = ReadingDone.of(self.done)
        return replace(sample, wall_s=done.wall_s, events=done.entries)


def _job_commands(advised: Advised, command: str, folder: Path) -> tuple[ShellCommand, ShellCommand]:
    """Return the job's command without and with the advised option. Raises OptionError if the advice is not an option
    that can be added to the command.
    """
    from branchline.lab.comparison.command_samples import ShellCommand

    option = advised.change.option
    if not option.startswith("--") or "--cache-dir" in option or not command.startswith("branchline run"):
        hint = "run the job with the change, and compare with: branchline compare A B"
        raise OptionError(f"the advice {advised.advice.id} cannot be added to the job's command", hint=hint)
    module = shlex.join([*own_python(), "-m", "branchline"])
    again = module + command.removeprefix("branchline")
    out = "--force --no-reuse --output"
    # The last occurrence of an option counts, so the appended options override the same options in the command.
    return (
        ShellCommand.of("A", f"{again} {out} {shlex.quote(str(folder / 'before'))}"),
        ShellCommand.of("B", f"{again} {option} {out} {shlex.quote(str(folder / 'after'))}"),
    )
