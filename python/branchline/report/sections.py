"""What stands on the report's page: the record of a job turned into finished text and small charts.

Each function makes one section; the tables of what cost how much are in tables.py.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from branchline.report.causes import UNWANTED_SHARE
from branchline.report.charts import Chart, Series, Slice, rates_chart, stack
from branchline.report.diagnosis import diagnosis
from branchline.report.quantities import (
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
from branchline.report.records import local_copies, number, partial_note, remarks, total, unwanted_bytes
from branchline.report.tables import branch_table, element_rows, file_costs, late_reads, wagon_rows
from branchline.report.troubles import lost_sentences, trouble_sentences

Job = Mapping[str, Any]

RESULTS_SHOWN_MAX = 40
WORKERS_SHOWN_MAX = 16
PROBLEMS_SHOWN_MAX = 10
SKIPPED_SHOWN_MAX = 40
# Settings of reading up to this are counts, above they are bytes.
SETTING_COUNT_MAX = 1024


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
    Phase("wait", "Waiting for data", "the storage had not delivered yet", "#4f7cac"),
    Phase("decompress", "Decompressing", "baskets being unpacked", "#d9822b"),
    Phase("decode", "Decoding", "bytes becoming arrays", "#eab54d"),
    Phase("wagons", "Wagons", "the analysis itself", "#4a9273"),
    Phase("merge", "Merging", "results of the sub-jobs added up", "#7d6b9e"),
    Phase("write", "Writing", "results and pictures", "#b3a3cc"),
    Phase("idle", "Idle", "workers without work", "#dfe3e7"),
    Phase("other", "Not accounted for", "measured by no phase", "#c9b8b0"),
)
_READ_COLOUR, _PLAIN_COLOUR, _EVENTS_COLOUR = "#4f7cac", "#d9822b", "#4a9273"


def page_content(job: Job) -> dict[str, Any]:
    """Return all that the page's template shows, by name."""
    return {
        "sentence": diagnosis(job),
        "status": job.get("status") or "failed",
        "verdict": VERDICTS.get(job.get("status") or "failed", "This job has not come to its end."),
        "headline": _headline(job),
        "facts": _facts(job),
        "problems": _problems(job),
        "phases": _phases(job),
        "workers": _workers(job),
        "charts": _charts(job),
        "wagons": wagon_rows(job),
        "misses": late_reads(job),
        "branches": branch_table(job),
        "files": file_costs(job),
        "read_beside": _read_beside(job),
        "elements": element_rows(job),
        "results": _results(job),
        "conditions": _conditions(job),
    }


def _per_second(number: float, seconds: float) -> str:
    return significant(number / seconds) if seconds > 0 else "-"


# --- the top of the page ---------------------------------------------------------------------------------------------


class Fact(NamedTuple):
    """One figure at the top: its value, what it is, and a line of context."""

    value: str
    label: str
    context: str


def _headline(job: Job) -> dict[str, str]:
    started = str(job.get("started") or "")
    try:
        shown = datetime.datetime.fromisoformat(started).strftime("%-d %B %Y, %H:%M %Z").strip()
    except ValueError:
        shown = started
    return {"host": str(job.get("host") or "unknown host"), "started": shown, "iso": started}


def _facts(job: Job) -> list[Fact]:
    wall_s, events = number(job, "wall_s"), number(job, "events")
    read, plain, calls = total(job, "bytes_read"), total(job, "plain_bytes"), total(job, "read_calls")
    files_count = len(job.get("files") or [])
    return [
        Fact(duration(wall_s), "wall time", f"{duration(number(job, 'cpu_s'))} of CPU time"),
        Fact(count(events), "events", f"in {counted(files_count, 'file')}"),
        Fact(_per_second(events, wall_s), "events/s", f"{counted(int(number(job, 'workers')) or 1, 'worker')}"),
        Fact(rate(read, wall_s), "read from storage", f"{size(read)}, {_wanted(job)} of it wanted"),
        Fact(rate(plain, wall_s), "after decompression", f"{size(plain)} in all"),
        Fact(
            ratio(1000 * calls, events, 2),
            "read calls per 1 000 events",
            f"{counted(int(calls), 'call')}, {_call_size(read, calls)}",
        ),
        Fact(size(number(job, "memory_peak_bytes")), "peak memory", "all processes together"),
    ]


def _wanted(job: Job) -> str:
    read = total(job, "bytes_read")
    return percent(read - unwanted_bytes(job), read)


def _read_beside(job: Job) -> str:
    """Say what else was read than the wanted baskets, and why."""
    read, unwanted = total(job, "bytes_read"), unwanted_bytes(job)
    if not read or unwanted < UNWANTED_SHARE * read:
        return ""
    branches = counted(len(job.get("branches") or []), "branch that was", "branches that were")
    return (
        f"Of the {size(read)} read, {size(read - unwanted)} are baskets of the {branches} wanted, the rest lies "
        "between and beside them. Small files are read whole, as one request takes less time than many; where it is "
        "the bytes that take long, a copy of these branches alone saves the rest."
    )


def _call_size(read: float, calls: float) -> str:
    return f"{size(read / calls)} each" if calls else "nothing read"


class Problem(NamedTuple):
    """Something that went wrong: one line, and what is folded below it."""

    title: str
    text: str
    lines: list[str]
    traceback: str


def _problems(job: Job) -> list[Problem]:
    problems = [
        _missing_events,
        _job_errors,
        _wagon_errors,
        _skipped_files,
        _recovered_files,
        _lost_workers,
        _storage_troubles,
    ]
    return [one for of_kind in problems for one in of_kind(job)]


def _missing_events(job: Job) -> Iterable[Problem]:
    events, expected = number(job, "events"), number(job, "events_expected")
    if job.get("interrupted"):
        yield Problem("Interrupted", "The job was stopped before its end. What was finished by then is kept.", [], "")
    if expected > events:
        text = f"{count(events)} of {count(expected)} events were processed ({percent(events, expected)})."
        yield Problem("Not all events", text, [], "")


def _job_errors(job: Job) -> Iterable[Problem]:
    errors = job.get("errors") or []
    for error in errors[:PROBLEMS_SHOWN_MAX]:
        yield Problem(
            str(error.get("type") or "Error"), str(error.get("message") or ""), [], error.get("traceback") or ""
        )
    if len(errors) > PROBLEMS_SHOWN_MAX:
        yield Problem("More errors", f"{counted(len(errors) - PROBLEMS_SHOWN_MAX, 'more error')} in job.json.", [], "")


def _wagon_errors(job: Job) -> Iterable[Problem]:
    stopped = [wagon for wagon in job.get("wagons") or [] if wagon.get("error")]
    for wagon in stopped[:PROBLEMS_SHOWN_MAX]:
        error = wagon["error"]
        where = ""
        if error.get("entry_start") is not None and error.get("path"):
            where = f"at entries {count(error['entry_start'])} to {count(error['entry_stop'])} of {error.get('path')}, "
        after = f"after {counted(wagon.get('events') or 0, 'event')} in {counted(wagon.get('chunks') or 0, 'chunk')}"
        line = f" ({error['line']})" if error.get("line") else ""
        text = f"stopped {where}{after}: {error.get('type')}: {error.get('message')}{line}"
        yield Problem(f"Wagon {wagon['name']}", text, [], error.get("traceback") or "")
    if len(stopped) > PROBLEMS_SHOWN_MAX:
        more = counted(len(stopped) - PROBLEMS_SHOWN_MAX, "more wagon")
        yield Problem("More wagons", f"{more} stopped with an error, see job.json.", [], "")


def _skipped_files(job: Job) -> Iterable[Problem]:
    skipped = job.get("skipped") or []
    if not skipped:
        return
    lost = sum(file["entries_lost"] or 0 for file in skipped)
    unknown = sum(1 for file in skipped if file["entries_lost"] is None)
    files_count = max(len(job.get("dataset") or []), len(skipped))
    parts = [f"{counted(lost, 'event')} lost"] if unknown < len(skipped) else []
    if unknown:
        parts.append(f"an unknown number lost in {counted(unknown, 'file')} whose tree could not be read")
    text = f"{count(len(skipped))} of {counted(files_count, 'file')}: {', and '.join(parts)}"
    lines = [f"{file['path']}: {_lost(file)}. {_without_path(file)}" for file in skipped[:SKIPPED_SHOWN_MAX]]
    if len(skipped) > SKIPPED_SHOWN_MAX:
        lines.append(f"and {counted(len(skipped) - SKIPPED_SHOWN_MAX, 'more file')}, listed in job.json")
    yield Problem("Skipped files", f"{text}.", lines, "")


def _recovered_files(job: Job) -> Iterable[Problem]:
    recovered = job.get("recovered") or []
    if not recovered:
        return
    files_count = max(len(job.get("dataset") or []), len(recovered))
    text = (
        f"{count(len(recovered))} of {counted(files_count, 'file')} never closed, as those of a job that was killed. "
        "They were read as they were when their trees were last saved; what came after is lost."
    )
    lines = [f"{file['path']}: {counted(file['keys'], 'key')} found again" for file in recovered[:SKIPPED_SHOWN_MAX]]
    if len(recovered) > SKIPPED_SHOWN_MAX:
        lines.append(f"and {counted(len(recovered) - SKIPPED_SHOWN_MAX, 'more file')}, listed in job.json")
    yield Problem("Recovered files", text, lines, "")


def _lost_workers(job: Job) -> Iterable[Problem]:
    sentences = lost_sentences(job)
    if sentences:
        yield Problem("Workers", sentences[0], sentences[1 : PROBLEMS_SHOWN_MAX + 1], "")


def _storage_troubles(job: Job) -> Iterable[Problem]:
    sentences = trouble_sentences(job)
    if sentences:
        yield Problem("Storage", sentences[0], sentences[1 : PROBLEMS_SHOWN_MAX + 1], "")


def _without_path(file: Mapping[str, Any]) -> str:
    """Return why a file was skipped, without the file's name in front, which stands there already."""
    return str(file["error"]).removeprefix(f"{file['path']}: ")


def _lost(file: Mapping[str, Any]) -> str:
    lost = file["entries_lost"]
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


def _known_phases(seconds: Mapping[str, Any]) -> list[tuple[Phase, float]]:
    """Return every phase of a record with its seconds; one that this page does not know is shown by its own name."""
    known = {phase.name for phase in PHASES}
    others = [Phase(str(name), str(name), "", "#c9b8b0") for name in seconds if name not in known]
    return [(phase, float(seconds.get(phase.name) or 0.0)) for phase in (*PHASES, *others)]


def _phases(job: Job) -> Phases:
    phases = _known_phases(job.get("phases") or {})
    wall_s = number(job, "wall_s")
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
    if (job.get("workers") or 1) > 1:
        note += f" Each phase is the mean over the {job['workers']} workers."
    return Phases(slices, rows, note)


class WorkerRow(NamedTuple):
    """One worker's own bar."""

    name: str
    slices: list[Slice]


class Workers(NamedTuple):
    """Bars of single workers, and how many more there were."""

    rows: list[WorkerRow]
    hidden_count: int


def _workers(job: Job) -> Workers:
    rows = job.get("worker_phases") or []
    if len(rows) < 2:
        return Workers([], 0)
    longest_s = max(float(row.get("wall_s") or 0.0) for row in rows)
    shown = sorted(rows, key=lambda row: -float(row.get("idle") or 0.0))[:WORKERS_SHOWN_MAX]
    shown.sort(key=lambda row: str(row["worker"]).rjust(9))
    bars = []
    for row in shown:
        parts = [(phase.label, float(row.get(phase.name) or 0.0), phase.colour) for phase in PHASES]
        bars.append(WorkerRow(f"{row['worker']} on {row['host']}", stack(parts, longest_s)))
    return Workers(bars, len(rows) - len(shown))


def _charts(job: Job) -> list[Chart]:
    points = job.get("timeline") or []
    times = [float(point["t_s"]) for point in points]
    wall_s = number(job, "wall_s")
    events = [Series("events", _EVENTS_COLOUR, [float(point["events"]) for point in points])]
    data = [
        Series("after decompression", _PLAIN_COLOUR, [float(point["plain_bytes"]) for point in points], 1e-6),
        Series("read from storage", _READ_COLOUR, [float(point["bytes_read"]) for point in points], 1e-6),
    ]
    charts = (
        rates_chart("Events", "events/s", times, events, wall_s),
        rates_chart("Data", "MB/s", times, data, wall_s),
    )
    return [chart for chart in charts if chart is not None]


# --- results and conditions ------------------------------------------------------------------------------------------


class ResultRow(NamedTuple):
    """One output: what it is, where it lies, and what is to be known about it."""

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


def _results(job: Job) -> Results:
    results = job.get("results") or []
    outputs: dict[str, int] = {}
    for result in results:
        outputs[result["wagon"]] = outputs.get(result["wagon"], 0) + 1
    # What has a note is what somebody may miss in results.root, so it is never among those left out.
    shown = sorted(results, key=lambda result: not result.get("note"))[:RESULTS_SHOWN_MAX]
    rows = [
        ResultRow(
            result["wagon"],
            result["key"] or ("all of it" if outputs[result["wagon"]] == 1 else "everything else"),
            result["format"],
            ", ".join(result["files"][:3]),
            _in_root(result.get("root") or []),
            result.get("note") or "",
            partial_note(job, result["wagon"]),
        )
        for result in shown
    ]
    return Results(rows, len(results) - len(rows))


def _in_root(names: Sequence[str]) -> str:
    if len(names) > 1:
        return f"{names[0]} and {count(len(names) - 1)} more"
    return names[0] if names else ""


def _conditions(job: Job) -> list[tuple[str, str]]:
    files = job.get("dataset") or []
    dataset = f"{counted(len(files), 'file')}, {size(sum(file['size_bytes'] or 0 for file in files))}"
    trees = sorted({str(file["tree"]) for file in files if file.get("tree")})
    if trees:
        dataset += f", tree {', '.join(trees[:3])}"
    cores = f"{counted(int(number(job, 'cpu_count')) or 1, 'core')}"
    workers, threads = int(number(job, "workers")) or 1, int(number(job, "threads")) or 1
    rows = [
        ("Command", str(job.get("command") or "")),
        ("Dataset", dataset),
        ("First file", str(files[0]["path"]) if files else ""),
        ("Host", " ".join(filter(None, (str(job.get("host") or ""), f"({cores}{_model(job)})")))),
        ("Workers", f"{counted(workers, 'process', 'processes')} of {counted(threads, 'decoding thread')}"),
        ("Sub-jobs", _subjobs(job)),
        ("Memory", _memory(job)),
        ("Access", _access(job)),
        ("Local copies", local_copies(job)),
        ("Storage", "; ".join(remarks(job))),
        ("Started", str(job.get("started") or "")),
        ("Versions", _versions(job)),
    ]
    return [(name, text) for name, text in rows if text]


def _model(job: Job) -> str:
    return f", {job['cpu_model']}" if job.get("cpu_model") else ""


def _subjobs(job: Job) -> str:
    planned = int(number(job, "subjobs"))
    return f"{count(number(job, 'subjobs_done'))} of {count(planned)} finished" if planned else ""


def _access(job: Job) -> str:
    """The way of reading, and the settings of it that are not the usual ones."""
    chosen = dict(job.get("access") or {})
    mode = str(chosen.pop("mode", ""))
    settings = [f"{name.replace('_', ' ')} {_setting(value)}" for name, value in chosen.items()]
    return ". ".join([", ".join([mode, *settings]), *map(_chosen, job.get("links") or [])])


def _chosen(link: Mapping[str, Any]) -> str:
    """What reading chose for a storage element, and by what."""
    rate = link["bytes_per_second"]
    way = f"{size(rate)}/s" if rate else "of a bandwidth that too few bytes came to tell"
    found = f"{link['name']}: a round trip of {duration(link['round_trip_s'])}, {way}"
    requests = int(link["requests_in_flight"])
    if not requests:
        return f"{found}, so nothing was asked for early"
    return (
        f"{found}, so up to {counted(requests, 'request')} and {size(link['bytes_in_flight'])} ahead, "
        f"joined over gaps of {size(link['gap_bytes'])}"
    )


def _setting(value: Any) -> str:
    return size(value) if isinstance(value, int) and value > SETTING_COUNT_MAX else str(value)


def _memory(job: Job) -> str:
    text = f"{size(number(job, 'memory_peak_bytes'))} at the peak"
    limit = job.get("memory_limit")
    if limit:
        text += f", limit {size(limit) if isinstance(limit, int | float) else limit} for each reader"
    return text


def _versions(job: Job) -> str:
    versions = {"Branchline": job.get("branchline"), "Python": job.get("python"), **(job.get("versions") or {})}
    known = [f"{name} {version}" for name, version in versions.items() if version]
    return ", ".join([*known, *filter(None, [str(job.get("platform") or "")])])
