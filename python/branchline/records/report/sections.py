"""The content of the report page: a job's record as text and small charts.

Each function creates one section; the cost tables are in `cost_tables.py`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import NamedTuple

from branchline.base import palette
from branchline.base.quantities import (
    count,
    counted,
    duration,
    percent,
    rate,
    ratio,
    share,
    shares,
    significant,
    size,
)
from branchline.records.charts.chart import CellTable, Chart
from branchline.records.diagnosis.diagnosis import UNWANTED_SHARE, diagnosis
from branchline.records.diagnosis.figures import (
    delivered_bytes,
    first_only,
    local_copies,
    luminosity_sentences,
    partial_note,
    remarks,
    unwanted_bytes,
)
from branchline.records.report.activity import (
    NodeRow,
    SiteTable,
    failure_sentence,
    node_rows,
    restarted_sentences,
    retry_sentences,
    site_table,
)
from branchline.records.report.bars import Slice, stack
from branchline.records.report.charts import charts_over_time, job_site_chart
from branchline.records.report.cost_tables import (
    BranchRow,
    ElementRow,
    Files,
    LargestRows,
    Rows,
    WagonRow,
    branch_table,
    element_rows,
    file_costs,
    first_rows,
    late_reads,
    wagon_rows,
)
from branchline.records.report.outcomes import (
    CutflowTable,
    TableRow,
    cutflow_tables,
    join_sentences,
    left_out_sentences,
    reuse_sentences,
    table_rows,
)
from branchline.records.report.troubles import (
    lost_sentences,
    measure_sentences,
    memory_sentences,
    missing_sentences,
    repeated_sentences,
    trouble_sentences,
    warning_sentences,
)
from branchline.records.sensors.record import FAILED, FINISHED, PARTIAL, JobRecord, LinkRecord
from branchline.records.sensors.record_parts import SampleRecord

RESULTS_SHOWN_MAX = 40
WORKERS_SHOWN_MAX = 16
PROBLEMS_SHOWN_MAX = 10
SKIPPED_SHOWN_MAX = 40
#: Read settings up to this value are shown as counts, larger ones as sizes in bytes.
SETTING_COUNT_MAX = 1024

VERDICTS = {
    FINISHED: "Finished, but not everything went well.",
    PARTIAL: "This result is partial.",
    FAILED: "This job failed.",
}


class Phase(NamedTuple):
    """A phase of a job: its name, its label, and what it means."""

    name: str
    label: str
    meaning: str

    @property
    def colour(self) -> str:
        """The phase's colour; phases that this version does not know have the colour of "other"."""
        return palette.PHASES.get(self.name, palette.PHASES["other"])


#: All phases, in the order in which they occur while a chunk is processed and a job runs.
PHASES = (
    Phase("start", "Starting", "processes, imports, the dataset's list"),
    Phase("plan", "Opening, planning", "headers and metadata of files"),
    Phase("warmup", "Warming up", "imports and compilation in the first chunks of workers"),
    Phase("wait", "Waiting for data", "the storage had not delivered yet"),
    Phase("decompress", "Decompressing", "baskets being unpacked"),
    Phase("decode", "Decoding", "bytes becoming arrays"),
    Phase("wagons", "Wagons", "the analysis itself"),
    Phase("merge", "Merging", "results of the sub-jobs added up"),
    Phase("write", "Writing", "results and pictures"),
    Phase("idle", "Idle", "workers without work"),
    Phase("lost", "Lost", "workers that ended without a result"),
    Phase("other", "Not accounted for", "not measured by any phase"),
)


class PageContent(NamedTuple):
    """The variables of the report page's template."""

    sentence: str
    status: str
    verdict: str
    headline: Headline
    facts: list[Fact]
    problems: list[Problem]
    phases: Phases
    workers: Rows[WorkerRow]
    charts: list[Chart]
    nodes: Rows[NodeRow]
    wagons: Rows[WagonRow]
    misses: str
    cutflows: Rows[CutflowTable]
    cutflows_left_out: list[str]
    branches: LargestRows[BranchRow]
    files: Files
    unwanted_reads: str
    elements: Rows[ElementRow]
    sites: SiteTable
    site_chart: CellTable
    results: Rows[ResultRow]
    tables: list[TableRow]
    conditions: list[tuple[str, str]]


def page_content(job: JobRecord) -> PageContent:
    """Return the content of the report page for a job."""
    return PageContent(
        sentence=diagnosis(job),
        status=job.status or FAILED,
        verdict=VERDICTS.get(job.status or FAILED, "This job has not finished."),
        headline=_headline(job),
        facts=_facts(job),
        problems=list(_problems(job)),
        phases=_phases(job),
        workers=_workers(job),
        charts=charts_over_time(job),
        nodes=first_rows(node_rows(job)),
        wagons=first_rows(wagon_rows(job)),
        misses=late_reads(job),
        cutflows=first_rows(cutflow_tables(job)),
        cutflows_left_out=left_out_sentences(job),
        branches=branch_table(job),
        files=file_costs(job),
        unwanted_reads=_unwanted_reads(job),
        elements=first_rows(element_rows(job)),
        sites=site_table(job),
        site_chart=job_site_chart(job),
        results=_results(job),
        tables=table_rows(job),
        conditions=conditions(job),
    )


# --- the top of the page ---------------------------------------------------------------------------------------------


class Fact(NamedTuple):
    """A number at the top of the page: its value, its name, and a line of context."""

    value: str
    label: str
    context: str


class Headline(NamedTuple):
    """The job's machine and start time, as text and as ISO 8601."""

    host: str
    started: str
    iso: str


def _headline(job: JobRecord) -> Headline:
    started = str(job.started or "")
    try:
        shown = datetime.datetime.fromisoformat(started).strftime("%-d %B %Y, %H:%M %Z").strip()
    except ValueError:
        shown = started
    return Headline(str(job.host or "unknown host"), shown, started)


def _facts(job: JobRecord) -> list[Fact]:
    wall_s, events = job.wall_s, job.events
    read, plain, calls = job.totals.bytes_read, job.totals.plain_bytes, job.totals.read_calls
    files_count = len(job.files)
    delivered = delivered_bytes(job)
    wanted = percent(delivered - unwanted_bytes(job), delivered)
    call_size = f"{size(read / calls)} each" if calls else "nothing read"
    return [
        Fact(duration(wall_s), "wall time", f"{duration(job.cpu_s)} of CPU time"),
        Fact(count(events), "events", f"in {counted(files_count, 'file')}"),
        Fact(significant(events / wall_s) if wall_s > 0 else "-", "events/s", f"{counted(job.workers or 1, 'worker')}"),
        Fact(rate(read, wall_s), "read from storage", f"{size(read)}, {wanted} of it wanted"),
        Fact(rate(plain, wall_s), "after decompression", f"{size(plain)} in all"),
        Fact(
            ratio(1000 * calls, events, 2),
            "read calls per 1 000 events",
            f"{counted(int(calls), 'call')}, {call_size}",
        ),
        Fact(size(job.memory_peak_bytes), "peak memory", "all processes together"),
    ]


def _unwanted_reads(job: JobRecord) -> str:
    """Describe how many of the bytes read do not belong to needed baskets, and why they were read."""
    read, unwanted = delivered_bytes(job), unwanted_bytes(job)
    if not read or unwanted < UNWANTED_SHARE * read:
        return ""
    branches = counted(len(job.branches), "branch that was", "branches that were")
    return (
        f"Of the {size(read)} read, {size(read - unwanted)} are baskets of the {branches} needed. The rest is metadata "
        "or lies between these baskets. Small files are read whole, since one request takes less time than many."
    )


class Problem(NamedTuple):
    """A problem of the job: one line, and details that are folded below it."""

    title: str
    text: str
    lines: list[str]
    traceback: str


def _problems(job: JobRecord) -> Iterable[Problem]:
    events, expected = job.events, (job.events_expected or 0)
    if job.interrupted:
        yield Problem("Interrupted", "The job was stopped early. Finished results are kept.", [], "")
    if expected > events:
        text = f"{count(events)} of {count(expected)} events were processed ({percent(events, expected)})."
        yield Problem("Not all events", text, [], "")
    if job.errors:
        yield from _job_errors(job)
    yield from _wagon_errors(job)
    if warnings := warning_sentences(job):
        yield _listed("Results that may be wrong", warnings)
    if job.missing:
        yield _missing_subjobs(job)
    if job.failures:
        yield from _failures(job)
    yield from _run_problems(job)


def _run_problems(job: JobRecord) -> Iterable[Problem]:
    """Yield the problems with workers, files and storage."""
    if job.restarted:
        yield _listed("Restarted", restarted_sentences(job))
    if job.retries:
        yield _listed("Resubmitted", retry_sentences(job))
    if job.skipped:
        yield from _skipped_files(job)
    if job.recovered:
        yield _recovered_files(job)
    if job.workers_lost:
        yield _listed("Workers", lost_sentences(job))
    if job.memory_retries:
        yield _listed("Memory", memory_sentences(job))
    if job.repeated:
        yield _listed("Ran twice", repeated_sentences(job))
    if job.troubles:
        yield _listed("Storage", trouble_sentences(job))


def _job_errors(job: JobRecord) -> Iterable[Problem]:
    # The error for missing sub-jobs is left out, because they have a separate entry.
    errors = [one for one in job.errors if not (job.missing and one.type == "MissingSubJobsError")]
    for error in errors[:PROBLEMS_SHOWN_MAX]:
        yield Problem(str(error.type or "Error"), str(error.message or ""), [], error.traceback or "")
    if len(errors) > PROBLEMS_SHOWN_MAX:
        yield Problem("More errors", f"{counted(len(errors) - PROBLEMS_SHOWN_MAX, 'more error')} in job.json.", [], "")


def _wagon_errors(job: JobRecord) -> Iterable[Problem]:
    stopped = [(wagon, wagon.error) for wagon in job.wagons if wagon.error is not None]
    for wagon, error in stopped[:PROBLEMS_SHOWN_MAX]:
        where = f"at {error.path}, " if error.path else ""
        if error.path and error.entry_start is not None and error.entry_stop is not None:
            where = f"at entries {count(error.entry_start)} to {count(error.entry_stop)} of {error.path}, "
        after = f"after {counted(wagon.events or 0, 'event')} in {counted(wagon.chunks or 0, 'chunk')}"
        line = f" ({error.line})" if error.line else ""
        text = f"stopped {where}{after}: {error.type}: {error.message}{line}"
        yield Problem(f"Wagon {wagon.name}", text, [], error.traceback or "")
    if len(stopped) > PROBLEMS_SHOWN_MAX:
        more = counted(len(stopped) - PROBLEMS_SHOWN_MAX, "more wagon")
        yield Problem("More wagons", f"{more} stopped with an error, see job.json.", [], "")


def _missing_subjobs(job: JobRecord) -> Problem:
    share = percent(len(job.missing), max(1, job.subjobs))
    allowed = f"{share} of all; {percent(job.allow_missing, 1)} may be missing"
    text = f"{counted(len(job.missing), 'sub-job')} without a result, {allowed}."
    return Problem("Missing", text, _first(missing_sentences(job), SKIPPED_SHOWN_MAX, "sub-job"), "")


def _failures(job: JobRecord) -> Iterable[Problem]:
    for group in job.failures[:PROBLEMS_SHOWN_MAX]:
        lines = [f"The log is {group.log}"] if group.log else []
        lines.append(f"Run one of them here: branchline rerun OUT {group.subjobs[0]}")
        yield Problem("Failed", failure_sentence(group), lines, group.example)
    others = job.failures[PROBLEMS_SHOWN_MAX:]
    if others:
        subjobs = counted(sum(len(one.subjobs) for one in others), "sub-job")
        text = f"{subjobs} failed in {counted(len(others), 'other way')}, listed in job.json."
        yield Problem("More failures", text, [], "")


def _listed(title: str, sentences: list[str]) -> Problem:
    """Return a single problem for all sentences: the first sentence is its text, the rest are listed below it."""
    return Problem(title, sentences[0], _first(sentences[1:], PROBLEMS_SHOWN_MAX, "entry", "entries"), "")


def _first(lines: list[str], lines_max: int, noun: str, plural: str | None = None) -> list[str]:
    """Return the first ``lines_max`` lines, and a line with the number of lines that only job.json contains."""
    if len(lines) <= lines_max:
        return lines
    left = len(lines) - lines_max
    return [
        *lines[:lines_max],
        f"and {count(left)} more {noun if left == 1 else plural or noun + 's'}, listed in job.json",
    ]


def _skipped_files(job: JobRecord) -> Iterable[Problem]:
    of_missing = {(file.path, file.error) for one in job.missing for file in one.skipped()}
    skipped = [one for one in job.skipped if (one.path, one.error) not in of_missing]
    if not skipped:
        return
    lost = sum(file.entries_lost or 0 for file in skipped)
    unknown = sum(1 for file in skipped if file.entries_lost is None)
    files_count = max(len(job.dataset), len(skipped))
    parts = [f"{counted(lost, 'event')} lost"] if unknown < len(skipped) else []
    if unknown:
        parts.append(f"an unknown number lost in {counted(unknown, 'file')} whose tree could not be read")
    text = f"{count(len(skipped))} of {counted(files_count, 'file')}: {', and '.join(parts)}"
    lines = []
    for file in skipped:
        lost_here = "an unknown number of events" if file.entries_lost is None else counted(file.entries_lost, "event")
        # Some errors start with the file's path, which the line already shows.
        lines.append(f"{file.path}: {lost_here} lost. {str(file.error).removeprefix(f'{file.path}: ')}")
    yield Problem("Skipped files", f"{text}.", _first(lines, SKIPPED_SHOWN_MAX, "file"), "")


def _recovered_files(job: JobRecord) -> Problem:
    recovered = job.recovered
    files_count = max(len(job.dataset), len(recovered))
    text = (
        f"{count(len(recovered))} of {counted(files_count, 'file')} were never closed: the job that wrote them was "
        "killed or is still writing. Their last saved state was read; entries written later are lost."
    )
    lines = [f"{file.path}: {counted(file.keys, 'key')} found" for file in recovered]
    return Problem("Recovered files", text, _first(lines, SKIPPED_SHOWN_MAX, "file"), "")


# --- where the time went ---------------------------------------------------------------------------------------------


class PhaseRow(NamedTuple):
    """A phase in the legend of the stacked bar."""

    label: str
    meaning: str
    colour: str
    seconds: str
    share: str


class Phases(NamedTuple):
    """The stacked bar of phases, its legend, and a note on how well the phases add up to the wall time."""

    slices: list[Slice]
    rows: list[PhaseRow]
    sum_note: str


def _phases(job: JobRecord) -> Phases:
    known = {phase.name for phase in PHASES}
    # Phases that this version does not know are shown under their own name.
    others = [Phase(str(name), str(name), "") for name in job.phases if name not in known]
    phases = [(phase, job.phases.get(phase.name, 0.0)) for phase in (*PHASES, *others)]
    wall_s = job.wall_s
    times_s = [seconds for _, seconds in phases]
    sum_s = sum(times_s)
    rows = [
        PhaseRow(phase.label, phase.meaning, phase.colour, duration(seconds), share(tenth, seconds))
        for (phase, seconds), tenth in zip(phases, shares(times_s), strict=True)
        if seconds > 0
    ]
    slices = stack([(phase.label, seconds, phase.colour) for phase, seconds in phases], max(wall_s, sum_s))
    note = f"Together {duration(sum_s)}, {percent(sum_s, wall_s)} of the wall time of {duration(wall_s)}."
    if (job.workers or 1) > 1:
        note += f" Each phase is the mean over the {job.workers} workers."
    return Phases(slices, rows, note)


class WorkerRow(NamedTuple):
    """The bar of one worker."""

    name: str
    slices: list[Slice]


def _workers(job: JobRecord) -> Rows[WorkerRow]:
    rows = job.worker_phases
    if len(rows) < 2:
        return Rows([], 0)
    longest_s = max(row.wall_s for row in rows)
    shown = sorted(rows, key=lambda row: -row.idle)[:WORKERS_SHOWN_MAX]
    shown.sort(key=lambda row: str(row.worker).rjust(9))
    bars = []
    for row in shown:
        parts = [(phase.label, getattr(row, phase.name), phase.colour) for phase in PHASES]
        bars.append(WorkerRow(f"{row.worker} on {row.host}", stack(parts, longest_s)))
    return Rows(bars, len(rows) - len(shown))


# --- results ---------------------------------------------------------------------------------------------------------


class ResultRow(NamedTuple):
    """One output: its kind, its files, and a note."""

    wagon: str
    key: str
    format: str
    files: str
    root: str
    note: str
    partial: str


def _results(job: JobRecord) -> Rows[ResultRow]:
    results = job.results
    outputs: dict[str, int] = {}
    for result in results:
        outputs[result.wagon] = outputs.get(result.wagon, 0) + 1
    # Outputs with a note are listed first, because they may be missing from results.root.
    shown = sorted(results, key=lambda result: not result.note)[:RESULTS_SHOWN_MAX]
    rows = []
    for result in shown:
        in_root = result.root[0] if result.root else ""
        if len(result.root) > 1:
            in_root += f" and {count(len(result.root) - 1)} more"
        row = ResultRow(
            result.wagon,
            result.key or ("all of it" if outputs[result.wagon] == 1 else "everything else"),
            result.format,
            ", ".join(result.files[:3]),
            in_root,
            result.note or "",
            partial_note(job, result.wagon),
        )
        rows.append(row)
    return Rows(rows, len(results) - len(rows))


# --- conditions -------------------------------------------------------------------------------------------------------


def conditions(job: JobRecord) -> list[tuple[str, str]]:
    """Return the conditions under which the job ran, as (name, text) pairs."""
    files = job.dataset
    sizes = {file.path: file.size_bytes or 0 for file in files}
    dataset = f"{counted(len(sizes), 'file')}, {size(sum(sizes.values()))}"
    trees = sorted({str(file.tree) for file in files if file.tree})
    if trees:
        more = f" and {count(len(trees) - 3)} more" if len(trees) > 3 else ""
        dataset += f", tree {', '.join(trees[:3])}{more}"
    cores = f"{counted(job.cpu_count or 1, 'core')}"
    workers, threads = job.workers or 1, job.threads or 1
    parameters_set = [
        f"{wagon.name}.{one.name} = {one.value}" for wagon in job.wagons for one in wagon.parameters if one.is_set
    ]
    memory = f"{size(job.memory_peak_bytes)} at the peak"
    if job.memory_limit_bytes:
        memory += f", limit {size(job.memory_limit_bytes)} for the reading of each worker"
    # The access mode, and the settings that differ from their defaults.
    settings = [f"{name.replace('_', ' ')} {_setting(value)}" for name, value in job.access.chosen()]
    access = ". ".join([", ".join([job.access.mode, *settings]), *map(_chosen, job.links)])
    packages = {"Branchline": job.branchline, **job.versions}
    rows = [
        ("Command", str(job.command or "")),
        ("Dataset", dataset),
        ("Part of it", first_only(job)),
        ("Joins", "; ".join(join_sentences(job))),
        ("Parameters", ", ".join(parameters_set)),
        ("Samples", "; ".join(map(_sample, job.samples))),
        ("Luminosity", "; ".join(luminosity_sentences(job))),
        ("First file", str(files[0].path) if files else ""),
        ("Host", " ".join(filter(None, (str(job.host or ""), f"({cores})")))),
        ("Workers", f"{counted(workers, 'process', 'processes')} of {counted(threads, 'decoding thread')}"),
        ("Sub-jobs", f"{count(job.subjobs_done)} of {count(job.subjobs)} finished" if job.subjobs else ""),
        ("Measures", " ".join(measure_sentences(job))),
        ("Earlier runs", "; ".join(reuse_sentences(job))),
        ("Memory", memory),
        ("Access", access),
        ("Local copies", local_copies(job)),
        ("Storage", "; ".join(remarks(job))),
        ("Started", str(job.started or "")),
        ("Versions", ", ".join(f"{name} {version}" for name, version in packages.items() if version)),
    ]
    return [(name, text) for name, text in rows if text]


def _chosen(link: LinkRecord) -> str:
    """Describe the link to a storage element, and the prefetch settings chosen for it."""
    speed = link.bytes_per_second
    bandwidth = f"bandwidth {size(speed)}/s" if speed else "bandwidth not measured (too few bytes)"
    found = f"{link.name}: round trip {duration(link.round_trip_s)}, {bandwidth}"
    requests = link.requests_in_flight
    if not requests:
        return f"{found}, no prefetching"
    return (
        f"{found}, prefetching of up to {counted(requests, 'request')} and {size(link.bytes_in_flight)}, "
        f"ranges joined over gaps of {size(link.gap_bytes)}"
    )


def _setting(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g} s"
    return size(value) if isinstance(value, int) and value > SETTING_COUNT_MAX else str(value)


def _sample(sample: SampleRecord) -> str:
    """Describe a sample, with the factor that scales its results to the luminosity."""
    text = f"{sample.name}: {counted(sample.events, 'event')}"
    if sample.sum_of_weights is not None:
        text += f", sum of weights {sample.sum_of_weights:.6g} ({sample.sum_of_weights_from})"
    if sample.factor is not None and not sample.is_data:
        text += f", factor {sample.factor:.4g} for {sample.luminosity_per_fb:g} / fb"
    return f"{text} ({sample.note})" if sample.note else text
