"""The content of the report's page: the record of a job as texts and small charts.

Each function makes one section; the tables of what cost how much are in tables.py.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

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
from branchline.records.diagnosis.diagnosis import UNWANTED_SHARE, diagnosis
from branchline.records.diagnosis.figures import delivered_bytes, partial_note, unwanted_bytes
from branchline.records.report.activity import (
    NodeRow,
    SiteTable,
    failure_sentence,
    merging_sentence,
    node_rows,
    profile_chart,
    restarted_sentences,
    retry_sentences,
    site_table,
)
from branchline.records.report.charts import Chart, Series, Slice, rates_chart, stack
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
from branchline.records.report.job_summary import conditions
from branchline.records.report.outcomes import CutflowTable, TableRow, cutflow_tables, left_out_sentences, table_rows
from branchline.records.report.troubles import (
    lost_sentences,
    memory_sentences,
    missing_sentences,
    repeated_sentences,
    trouble_sentences,
    warning_sentences,
)
from branchline.records.sensors.record import JobRecord, SkippedFile

RESULTS_SHOWN_MAX = 40
WORKERS_SHOWN_MAX = 16
PROBLEMS_SHOWN_MAX = 10
SKIPPED_SHOWN_MAX = 40

VERDICTS = {
    "finished": "Finished, but not everything went well.",
    "partial": "This result is partial.",
    "failed": "This job failed.",
}


class Phase(NamedTuple):
    """How a phase is called and drawn."""

    name: str
    label: str
    meaning: str
    colour: str


#: In the order in which they follow each other, for a chunk and for a job.
PHASES = (
    Phase("start", "Starting", "processes, imports, the dataset's list", "#8d99a6"),
    Phase("plan", "Opening, planning", "headers and metadata of files", "#8fb3d1"),
    Phase("warmup", "Warming up", "imports and compilation in the first chunks of workers", "#a9b7c4"),
    Phase("wait", "Waiting for data", "the storage had not delivered yet", "#4f7cac"),
    Phase("decompress", "Decompressing", "baskets being unpacked", "#d9822b"),
    Phase("decode", "Decoding", "bytes becoming arrays", "#eab54d"),
    Phase("wagons", "Wagons", "the analysis itself", "#4a9273"),
    Phase("merge", "Merging", "results of the sub-jobs added up", "#7d6b9e"),
    Phase("write", "Writing", "results and pictures", "#b3a3cc"),
    Phase("idle", "Idle", "workers without work", "#dfe3e7"),
    Phase("lost", "Lost", "workers that ended before their result", "#b5523b"),
    Phase("other", "Not accounted for", "measured by no phase", "#c9b8b0"),
)
_READ_COLOUR, _PLAIN_COLOUR, _EVENTS_COLOUR = "#4f7cac", "#d9822b", "#4a9273"


class PageContent(NamedTuple):
    """What the page's template shows, by these names."""

    sentence: str
    status: str
    verdict: str
    headline: Headline
    facts: list[Fact]
    problems: list[Problem]
    phases: Phases
    workers: Workers
    charts: list[Chart]
    profile: Chart | None
    merging: str
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
    results: Results
    tables: list[TableRow]
    conditions: list[tuple[str, str]]


def page_content(job: JobRecord) -> PageContent:
    """Return the content of the page of a job."""
    return PageContent(
        sentence=diagnosis(job),
        status=job.status or "failed",
        verdict=VERDICTS.get(job.status or "failed", "This job has not come to its end."),
        headline=_headline(job),
        facts=_facts(job),
        problems=_problems(job),
        phases=_phases(job),
        workers=_workers(job),
        charts=_charts(job),
        profile=profile_chart(job),
        merging=merging_sentence(job),
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
        results=_results(job),
        tables=table_rows(job),
        conditions=conditions(job),
    )


def _per_second(number: float, seconds: float) -> str:
    return significant(number / seconds) if seconds > 0 else "-"


# --- the top of the page ---------------------------------------------------------------------------------------------


class Fact(NamedTuple):
    """One figure at the top: its value, its name, and a line of context."""

    value: str
    label: str
    context: str


class Headline(NamedTuple):
    """The machine and the time of the start, for people and as ISO 8601."""

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
    return [
        Fact(duration(wall_s), "wall time", f"{duration(job.cpu_s)} of CPU time"),
        Fact(count(events), "events", f"in {counted(files_count, 'file')}"),
        Fact(_per_second(events, wall_s), "events/s", f"{counted(job.workers or 1, 'worker')}"),
        Fact(rate(read, wall_s), "read from storage", f"{size(read)}, {_wanted(job)} of it wanted"),
        Fact(rate(plain, wall_s), "after decompression", f"{size(plain)} in all"),
        Fact(
            ratio(1000 * calls, events, 2),
            "read calls per 1 000 events",
            f"{counted(int(calls), 'call')}, {_call_size(read, calls)}",
        ),
        Fact(size(job.memory_peak_bytes), "peak memory", "all processes together"),
    ]


def _wanted(job: JobRecord) -> str:
    delivered = delivered_bytes(job)
    return percent(delivered - unwanted_bytes(job), delivered)


def _unwanted_reads(job: JobRecord) -> str:
    """Say how many bytes were read that are no wanted baskets, and why."""
    read, unwanted = delivered_bytes(job), unwanted_bytes(job)
    if not read or unwanted < UNWANTED_SHARE * read:
        return ""
    branches = counted(len(job.branches), "branch that was", "branches that were")
    return (
        f"Of the {size(read)} read, {size(read - unwanted)} are baskets of the {branches} wanted. The rest lies "
        "between them or is metadata. Small files are read whole, since one request takes less time than many."
    )


def _call_size(read: float, calls: float) -> str:
    return f"{size(read / calls)} each" if calls else "nothing read"


class Problem(NamedTuple):
    """Something that went wrong: one line, and what is folded below it."""

    title: str
    text: str
    lines: list[str]
    traceback: str


def _problems(job: JobRecord) -> list[Problem]:
    problems = [
        _missing_events,
        _job_errors,
        _wagon_errors,
        _warnings,
        _missing_subjobs,
        _failures,
        _restarted,
        _skipped_files,
        _recovered_files,
        _lost_workers,
        _memory_retries,
        _repeated,
        _storage_troubles,
    ]
    return [one for of_kind in problems for one in of_kind(job)]


def _missing_events(job: JobRecord) -> Iterable[Problem]:
    events, expected = job.events, (job.events_expected or 0)
    if job.interrupted:
        yield Problem("Interrupted", "The job was stopped before its end. What was finished by then is kept.", [], "")
    if expected > events:
        text = f"{count(events)} of {count(expected)} events were processed ({percent(events, expected)})."
        yield Problem("Not all events", text, [], "")


def _job_errors(job: JobRecord) -> Iterable[Problem]:
    # What is missing has an entry of its own.
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


def _missing_subjobs(job: JobRecord) -> Iterable[Problem]:
    if job.missing:
        share = percent(len(job.missing), max(1, job.subjobs))
        allowed = f"{share} of all; {percent(job.allow_missing, 1)} may be missing"
        text = f"{counted(len(job.missing), 'sub-job')} without a result, {allowed}."
        yield Problem("Missing", text, _first(missing_sentences(job), SKIPPED_SHOWN_MAX, "sub-job"), "")


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


def _restarted(job: JobRecord) -> Iterable[Problem]:
    yield from _listed("Started again", restarted_sentences(job))
    yield from _listed("Sent again", retry_sentences(job))


def _memory_retries(job: JobRecord) -> Iterable[Problem]:
    yield from _listed("Memory", memory_sentences(job))


def _repeated(job: JobRecord) -> Iterable[Problem]:
    yield from _listed("Ran twice", repeated_sentences(job))


def _listed(title: str, sentences: list[str]) -> Iterable[Problem]:
    """One problem for all sentences: the first is its text, the others are listed below it."""
    if sentences:
        yield Problem(title, sentences[0], _first(sentences[1:], PROBLEMS_SHOWN_MAX, "entry", "entries"), "")


def _first(lines: list[str], lines_max: int, noun: str, plural: str | None = None) -> list[str]:
    """The first lines, and one that says how many more job.json lists."""
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
    lines = [f"{file.path}: {_lost(file)}. {_without_path(file)}" for file in skipped]
    yield Problem("Skipped files", f"{text}.", _first(lines, SKIPPED_SHOWN_MAX, "file"), "")


def _recovered_files(job: JobRecord) -> Iterable[Problem]:
    recovered = job.recovered
    if not recovered:
        return
    files_count = max(len(job.dataset), len(recovered))
    text = (
        f"{count(len(recovered))} of {counted(files_count, 'file')} were never closed: the job that wrote them was "
        "killed, or still writes. Their last saved state was read; entries written later are lost."
    )
    lines = [f"{file.path}: {counted(file.keys, 'key')} found" for file in recovered]
    yield Problem("Recovered files", text, _first(lines, SKIPPED_SHOWN_MAX, "file"), "")


def _lost_workers(job: JobRecord) -> Iterable[Problem]:
    yield from _listed("Workers", lost_sentences(job))


def _warnings(job: JobRecord) -> Iterable[Problem]:
    yield from _listed("Results that may be wrong", warning_sentences(job))


def _storage_troubles(job: JobRecord) -> Iterable[Problem]:
    yield from _listed("Storage", trouble_sentences(job))


def _without_path(file: SkippedFile) -> str:
    """Return why a file was skipped, without the file's name in front, which stands there already."""
    return str(file.error).removeprefix(f"{file.path}: ")


def _lost(file: SkippedFile) -> str:
    lost = file.entries_lost
    return "an unknown number of events lost" if lost is None else f"{counted(lost, 'event')} lost"


# --- where the time went ---------------------------------------------------------------------------------------------


class PhaseRow(NamedTuple):
    """One phase in the legend of the bar."""

    label: str
    meaning: str
    colour: str
    seconds: str
    share: str


class Phases(NamedTuple):
    """The bar of phases, its legend, and how well they add up to the wall time."""

    slices: list[Slice]
    rows: list[PhaseRow]
    sum_note: str


def _known_phases(seconds: Mapping[str, float]) -> list[tuple[Phase, float]]:
    """Return every phase of a record with its seconds; one that this page does not know is shown by its own name."""
    known = {phase.name for phase in PHASES}
    others = [Phase(str(name), str(name), "", "#c9b8b0") for name in seconds if name not in known]
    return [(phase, seconds.get(phase.name, 0.0)) for phase in (*PHASES, *others)]


def _phases(job: JobRecord) -> Phases:
    phases = _known_phases(job.phases)
    wall_s = job.wall_s
    sum_s = sum(seconds for _, seconds in phases)
    whole_s = max(wall_s, sum_s)
    tenths = shares([seconds for _, seconds in phases])
    rows = [
        PhaseRow(phase.label, phase.meaning, phase.colour, duration(seconds), share(tenth, seconds))
        for (phase, seconds), tenth in zip(phases, tenths, strict=True)
        if seconds > 0
    ]
    slices = stack([(phase.label, seconds, phase.colour) for phase, seconds in phases], whole_s)
    note = f"Together {duration(sum_s)}, {percent(sum_s, wall_s)} of the wall time of {duration(wall_s)}."
    if (job.workers or 1) > 1:
        note += f" Each phase is the mean over the {job.workers} workers."
    return Phases(slices, rows, note)


class WorkerRow(NamedTuple):
    """One worker's own bar."""

    name: str
    slices: list[Slice]


class Workers(NamedTuple):
    """Bars of single workers, and how many more there were."""

    rows: list[WorkerRow]
    hidden_count: int


def _workers(job: JobRecord) -> Workers:
    rows = job.worker_phases
    if len(rows) < 2:
        return Workers([], 0)
    longest_s = max(row.wall_s for row in rows)
    shown = sorted(rows, key=lambda row: -row.idle)[:WORKERS_SHOWN_MAX]
    shown.sort(key=lambda row: str(row.worker).rjust(9))
    bars = []
    for row in shown:
        parts = [(phase.label, getattr(row, phase.name), phase.colour) for phase in PHASES]
        bars.append(WorkerRow(f"{row.worker} on {row.host}", stack(parts, longest_s)))
    return Workers(bars, len(rows) - len(shown))


def _charts(job: JobRecord) -> list[Chart]:
    points = job.timeline
    times = [float(point.t_s) for point in points]
    wall_s = job.wall_s
    events = [Series("events", _EVENTS_COLOUR, [float(point.events) for point in points])]
    data = [
        Series("after decompression", _PLAIN_COLOUR, [float(point.plain_bytes) for point in points], 1e-6),
        Series("read from storage", _READ_COLOUR, [float(point.bytes_read) for point in points], 1e-6),
    ]
    charts = (
        rates_chart("Events", "events/s", times, events, wall_s),
        rates_chart("Data", "MB/s", times, data, wall_s),
    )
    return [chart for chart in charts if chart is not None]


# --- results and conditions ------------------------------------------------------------------------------------------


class ResultRow(NamedTuple):
    """One output: its kind, its files, and a note."""

    wagon: str
    key: str
    format: str
    files: str
    root: str
    note: str
    partial: str


class Results(NamedTuple):
    """The outputs listed, and how many more there are."""

    rows: list[ResultRow]
    hidden_count: int


def _results(job: JobRecord) -> Results:
    results = job.results
    outputs: dict[str, int] = {}
    for result in results:
        outputs[result.wagon] = outputs.get(result.wagon, 0) + 1
    # An output with a note may be missed in results.root, so it is always listed.
    shown = sorted(results, key=lambda result: not result.note)[:RESULTS_SHOWN_MAX]
    rows = [
        ResultRow(
            result.wagon,
            result.key or ("all of it" if outputs[result.wagon] == 1 else "everything else"),
            result.format,
            ", ".join(result.files[:3]),
            _in_root(result.root),
            result.note or "",
            partial_note(job, result.wagon),
        )
        for result in shown
    ]
    return Results(rows, len(results) - len(rows))


def _in_root(names: Sequence[str]) -> str:
    if len(names) > 1:
        return f"{names[0]} and {count(len(names) - 1)} more"
    return names[0] if names else ""
