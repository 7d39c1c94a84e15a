"""`branchline forecast`, `calibrate` and `advise`: forecast the cost of work, and suggest changes.

`branchline advise --prove` measures a change with paired reads or job runs, and compares it with the forecast.
"""

from __future__ import annotations

import shlex
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from branchline.base.limits import PROOF_S
from branchline.base.plain import finite, to_plain
from branchline.base.processes import own_python
from branchline.base.quantities import duration
from branchline.cli.options import ReadingSettings, requests_recorded
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_json, print_out
from branchline.errors import OptionError

if TYPE_CHECKING:
    from branchline.lab.advice.advise import Advised
    from branchline.lab.comparison.command_samples import ArmRun, Command
    from branchline.lab.forecast.checked import Checked
    from branchline.lab.forecast.subject import Subject
    from branchline.reading.access import Access
    from branchline.reading.datasets.data_file import DataFile

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
    from branchline.cli.tables.forecast_tables import kept_or_printed, print_jobs, print_what_if
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
    from branchline.cli.tables.lines import print_checked
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
    from branchline.cli.tables.lines import print_advice
    from branchline.lab.advice.advise import advice_of, do
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
    from branchline.cli.tables.lines import print_advice
    from branchline.lab.forecast.subject import job_record
    from branchline.records.diagnosis.job_advice import advise_jobs

    found = advise_jobs([job_record(job) for job in jobs])
    if as_json:
        print_json(finite(to_plain(found)))
        return
    print_advice(found, "These jobs do not read the same files: name each alone to see what would help it.")


def prove(advised: Advised, subject: Subject, written: Sequence[DataFile], budget_s: float = PROOF_S) -> None:
    """Compares the work as it is with that as the advice has it, prints forecast and measurement, and keeps both.

    ``written`` are the new files, if there are any yet; both are read in turns for ``budget_s`` seconds. Raises
    OptionError for what cannot be run again.
    """
    from branchline.lab.forecast.checked import keep_checked, load_checked

    found = measured_proof(advised, subject, written, budget_s)
    saved_s = max(0.0, found.saving_s or 0.0)
    print_out(f"{found.advice}: forecast to save {duration(found.saving_said_s or 0.0)}, measured {duration(saved_s)}")
    if found.low_s is not None and found.high_s is not None:
        print_out(f"   95 % interval of {found.pairs} pairs: {found.low_s:.3g} to {found.high_s:.3g} s")
    print_out(f"   kept in {keep_checked([found])}: branchline forecast check shows all")
    error = load_checked().here().savings_error()
    if error is not None:
        print_out(f"   what advice has saved here differed from its forecasts by {error:.0%} (median)")


def measured_proof(
    advised: Advised, subject: Subject, written: Sequence[DataFile], budget_s: float = PROOF_S
) -> Checked:
    """The paired study: both in turns, for about ``budget_s`` seconds. Of readings only the reading is compared, of
    jobs the whole command.
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
    # The machine is now as busy as it is: the part is what was forecast.
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
    """Two programs that read the files."""
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
    """A reading that is compared, each time in a new process. Its time is that of reading alone: what starting Python
    takes differs by more on a busy machine than what a quick reading takes.
    """

    name: str
    request: Path
    done: Path
    output: Path | None = None

    @property
    def whole(self) -> list[str]:
        """The words of its command."""
        return [*own_python(), "-m", "branchline.lab.advice.timed_read", str(self.request)]

    def prepare(self, wait_s: float) -> None:
        """Nothing is to be done."""

    def taken(self, round_number: int, position: int, cached_bytes: int | None, wait_s: float) -> ArmRun:
        """Reads once."""
        from branchline.lab.advice.timed_read import ReadingDone
        from branchline.lab.comparison.command_samples import Command

        self.done.unlink(missing_ok=True)
        sample = Command(self.name, tuple(self.whole)).taken(round_number, position, cached_bytes, wait_s)
        if sample.code:
            return sample
        done = ReadingDone.of(self.done)
        return replace(sample, wall_s=done.wall_s, events=done.entries)


def _job_commands(advised: Advised, command: str, folder: Path) -> tuple[Command, Command]:
    """The command of a job, without and with an option."""
    from branchline.lab.comparison.command_samples import Command

    option = advised.change.option
    if not option.startswith("--") or "--cache-dir" in option or not command.startswith("branchline run"):
        hint = "run the job with the change, and compare with: branchline compare A B"
        raise OptionError(f"{advised.advice.id} is no option with which the job can be run again", hint=hint)
    module = shlex.join([*own_python(), "-m", "branchline"])
    again = module + command.removeprefix("branchline")
    out = "--force --no-reuse --output"
    # Whatever the command has for an option, the last one counts.
    return (
        Command.of("A", f"{again} {out} {shlex.quote(str(folder / 'before'))}"),
        Command.of("B", f"{again} {option} {out} {shlex.quote(str(folder / 'after'))}"),
    )
