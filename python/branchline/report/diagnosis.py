"""One plain sentence on what limits a job, drawn from its record alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from branchline.report.quantities import count, counted, duration, percent, rate, significant, size
from branchline.report.texts import one_line

#: Below this wall time the start of Python decides, and the phases say nothing about the data.
TELLING_WALL_S = 0.5
#: A step with less of the time than this does not limit a job alone when another one is close to it.
LEADING_SHARE = 0.4
CLOSE_TO_LEADING = 0.7
#: "N branches hold X % of it": the fewest that hold this much, if they are few.
MOST_OF_IT = 2 / 3
FEW_OF_ALL = 1 / 3
#: A wagon whose CPU time is this part of its wall time computes; below the second it mostly waits for something.
COMPUTES, WAITS = 0.8, 0.5
#: Read calls smaller than this pay more for the journey than for the bytes on most storage.
SMALL_CALL_BYTES = 256_000
#: Output of a wagon that takes noticeable time to merge.
LARGE_OUTPUT_BYTES = 10_000_000
#: Files below this cost more to open than to read.
SMALL_FILE_BYTES = 20_000_000
_NAME_LENGTH_MAX = 60
_LIST_LENGTH_MAX = 60
_MESSAGE_LENGTH_MAX = 200

Job = Mapping[str, Any]


class Cause(NamedTuple):
    """A step that took ``seconds`` of the wall time: "went into <clause>: <detail>; <advice>"."""

    seconds: float
    clause: str
    detail: str = ""
    advice: str = ""


def diagnosis(job: Job) -> str:
    """Return one sentence that says what limits this job, in numbers, with advice where there is honest one."""
    return _nothing_done(job) or _every_wagon_stopped(job) or _what_limits(job)


# --- jobs of which the phases say nothing ----------------------------------------------------------------------------


def _nothing_done(job: Job) -> str | None:
    if job.get("events"):
        return None
    errors, skipped = job.get("errors") or [], job.get("skipped") or []
    files_count = len(job.get("dataset") or [])
    if job.get("interrupted"):
        return f"Nothing was processed: the job was interrupted after {duration(_wall_s(job))}."
    if errors:
        return f"Nothing was processed: {_message(errors[0].get('message'))}."
    if skipped and len(skipped) >= files_count:
        which = "The only file was" if len(skipped) == 1 else f"All {count(len(skipped))} files were"
        first = "" if len(skipped) == 1 else "the first because of: "
        return f"{which} skipped, so nothing was processed; {first}{_message(skipped[0].get('error'))}."
    if files_count == 0:
        return "Nothing was processed: the dataset has no files."
    return f"Nothing was processed: the {counted(files_count, 'file')} of the dataset hold no events."


def _every_wagon_stopped(job: Job) -> str | None:
    wagons = job.get("wagons") or []
    if not wagons or not all(wagon.get("error") for wagon in wagons):
        return None
    first = min(wagons, key=lambda wagon: wagon.get("events") or 0)
    error = first["error"]
    who = f"The wagon {_name(first['name'])}" if len(wagons) == 1 else f"All {len(wagons)} wagons"
    which = "" if len(wagons) == 1 else f", {_name(first['name'])} first,"
    return (
        f"{who} stopped with an error{which} after {count(first.get('events') or 0)} of "
        f"{counted(job.get('events_expected') or job['events'], 'event')}, so the times say little: "
        f"{error.get('type')}: {_message(error.get('message'))}."
    )


# --- jobs that a step limits -----------------------------------------------------------------------------------------


def _what_limits(job: Job) -> str:
    wall_s = _wall_s(job)
    if wall_s < TELLING_WALL_S:
        return f"This job took {duration(wall_s)}, which is too short to say what limits it."
    causes = sorted(_causes(job), key=lambda cause: -cause.seconds)
    first, second = causes[:2]
    if first.seconds < LEADING_SHARE * wall_s and second.seconds > CLOSE_TO_LEADING * first.seconds:
        shown = [f"{percent(cause.seconds, wall_s)} into {cause.clause}" for cause in causes[:3] if cause.seconds > 0]
        listed = ", ".join(shown[:-1]) + " and " + shown[-1]
        return f"No single step limits this job: {listed.replace(' into', ' of the time went into', 1)}."
    sentence = f"{percent(first.seconds, wall_s)} of the time went into {first.clause}"
    if first.detail:
        sentence += f": {first.detail}"
    if first.advice:
        sentence += f"; {first.advice}"
    return sentence + "."


def _causes(job: Job) -> list[Cause]:
    return [
        _decompressing(job),
        _decoding(job),
        _waiting(job),
        _computing(job),
        _starting(job),
        _opening(job),
        _merging(job),
        _writing(job),
        _idling(job),
        Cause(_seconds(job, "other"), "what no phase accounts for", "what limits this job cannot be said"),
    ]


def _decompressing(job: Job) -> Cause:
    branches = job.get("branches") or []
    by_codec: dict[str, float] = {}
    for branch in branches:
        codec = codec_name(branch.get("codec"))
        by_codec[codec] = by_codec.get(codec, 0.0) + branch["decompress_s"]
    total_s = sum(by_codec.values())
    main = [c for c, s in sorted(by_codec.items(), key=lambda item: -item[1]) if s >= 0.1 * total_s and total_s > 0]
    clause = " ".join(filter(None, ("decompressing", " and ".join(filter(None, main)))))
    advice = _more_cores(job)
    if not advice and main and main[0] in ("zlib", "LZMA"):
        advice = "the same data in zstd or LZ4 decompress several times faster"
    return Cause(_seconds(job, "decompress"), clause, _concentration(branches, "decompress_s"), advice)


def _decoding(job: Job) -> Cause:
    detail = _concentration(job.get("branches") or [], "decode_s")
    return Cause(_seconds(job, "decode"), "decoding", detail, _more_cores(job))


def _waiting(job: Job) -> Cause:
    elements = sorted(job.get("storage_elements") or [], key=lambda element: -element["fetch_s"])
    seconds = _seconds(job, "wait")
    if not elements or not elements[0]["read_calls"]:
        return Cause(seconds, "waiting for data")
    slowest = elements[0]
    clause = f"waiting for data from {_place(slowest['name'])}"
    call_bytes = slowest["bytes_read"] / slowest["read_calls"]
    speed = rate(slowest["bytes_read"], slowest["fetch_s"])
    calls = counted(slowest["read_calls"], "read call")
    detail = f"{calls} of {size(call_bytes)} on average, {speed} within a call"
    if len(elements) > 1:
        all_s = sum(element["fetch_s"] for element in elements)
        detail += f", {percent(slowest['fetch_s'], all_s)} of all the reading time"
    advice = ""
    if call_bytes < SMALL_CALL_BYTES:
        advice = "larger baskets, larger files or a nearer copy would help"
    elif _more_cores(job):
        advice = "a nearer copy, or more workers that wait at the same time, would help"
    return Cause(seconds, clause, detail, advice)


def _computing(job: Job) -> Cause:
    wagons = sorted(job.get("wagons") or [], key=lambda wagon: -wagon["seconds"])
    seconds = _seconds(job, "wagons")
    total_s = sum(wagon["seconds"] for wagon in wagons)
    if total_s <= 0:
        return Cause(seconds, "wagons")
    slowest = wagons[0]
    busy = slowest["cpu_s"] / slowest["seconds"]
    advice = ""
    if busy >= COMPUTES:
        nature, advice = "it is limited by the CPU", _more_cores(job)
    elif busy < WAITS:
        nature = (
            f"its CPU was busy only {percent(busy, 1)} of the time, so it waits for a core or for something outside"
        )
    else:
        nature = f"its CPU was busy {percent(busy, 1)} of the time"
    if len(wagons) == 1:
        return Cause(seconds, f"the wagon {_name(slowest['name'])}", nature, advice)
    detail = f"{_name(slowest['name'])} takes {percent(slowest['seconds'], total_s)} of it, and {nature}"
    return Cause(seconds, f"{len(wagons)} wagons", detail, advice)


def _starting(job: Job) -> Cause:
    seconds, workers = _seconds(job, "start"), job.get("workers") or 1
    data = f"{counted(job.get('events') or 0, 'event')} ({size(_total(job, 'bytes_read'))} read)"
    if workers > 1:
        advice = "fewer would finish as soon"
        return Cause(seconds, f"starting {workers} workers", f"{data} are too little for so many", advice)
    return Cause(seconds, "starting", f"{data} are too little to be limited by anything else")


def _opening(job: Job) -> Cause:
    files = job.get("files") or []
    detail, advice = "", ""
    if files:
        mean_bytes = sum(file["size_bytes"] or 0 for file in files) / len(files)
        detail = f"{counted(len(files), 'file')} of {size(mean_bytes)} on average"
        if len(files) > 1 and mean_bytes < SMALL_FILE_BYTES:
            advice = "fewer and larger files would help"
    return Cause(_seconds(job, "plan"), "opening files and planning their reading", detail, advice)


def _merging(job: Job) -> Cause:
    return Cause(_seconds(job, "merge"), "merging results", _largest_output(job))


def _writing(job: Job) -> Cause:
    pictures = sum(1 for result in job.get("results") or [] if result.get("picture"))
    drawn = f"{counted(pictures, 'picture')} of histograms" if pictures else ""
    return Cause(_seconds(job, "write"), "writing results", _largest_output(job) or drawn)


def _idling(job: Job) -> Cause:
    workers = job.get("workers") or 1
    detail = ""
    busy_s = sorted(row["wall_s"] - row.get("idle", 0.0) for row in job.get("worker_phases") or [])
    subjobs = job.get("subjobs") or 0
    if 0 < subjobs < workers:
        detail = f"there were {counted(subjobs, 'sub-job')} for {counted(workers, 'worker')}"
    elif len(busy_s) > 1:
        detail = (
            f"the busiest of {len(busy_s)} workers had work for {duration(busy_s[-1])}, "
            f"the least busy for {duration(busy_s[0])}"
        )
    advice = "fewer workers would finish as soon" if workers > 1 else ""
    return Cause(_seconds(job, "idle"), "workers that had nothing to do", detail, advice)


# --- parts of sentences ----------------------------------------------------------------------------------------------


def _concentration(branches: Sequence[Mapping[str, Any]], field: str) -> str:
    """Say how few branches hold most of the seconds in ``field``."""
    costs = sorted(((branch[field], branch["name"]) for branch in branches), key=lambda cost: (-cost[0], cost[1]))
    total_s = sum(cost for cost, _ in costs)
    if total_s <= 0:
        return ""
    if len(costs) == 1:
        return f"all of it is the branch {_name(costs[0][1])}"
    needed, held_s = 0, 0.0
    while held_s < MOST_OF_IT * total_s:
        held_s += costs[needed][0]
        needed += 1
    share = percent(held_s, total_s)
    if needed == 1:
        return f"the branch {_name(costs[0][1])} holds {share} of it"
    if needed > max(1, FEW_OF_ALL * len(costs)):
        return f"it is spread over {counted(len(costs), 'branch', 'branches')}"
    listed = ", ".join(name for _, name in costs[:needed])
    names = f" ({one_line(listed, _LIST_LENGTH_MAX)})" if len(listed) <= _LIST_LENGTH_MAX else ""
    return f"{needed} of {counted(len(costs), 'branch', 'branches')}{names} hold {share} of it"


def _more_cores(job: Job) -> str:
    """Advise more workers where cores were free and not all were asked for."""
    cores, workers = job.get("cpu_count") or 1, job.get("workers") or 1
    busy = (job.get("cpu_s") or 0.0) / _wall_s(job)
    if workers >= cores or busy > 0.7 * cores:
        return ""
    return f"more workers would help, {significant(busy, 2)} of {cores} cores were busy"


def _largest_output(job: Job) -> str:
    wagons = [wagon for wagon in job.get("wagons") or [] if (wagon.get("output_bytes") or 0) >= LARGE_OUTPUT_BYTES]
    if not wagons:
        return ""
    largest = max(wagons, key=lambda wagon: wagon["output_bytes"])
    return f"the wagon {_name(largest['name'])} returns {size(largest['output_bytes'])}"


def codec_name(codec: Any) -> str:
    """Return a codec, or several apart by commas, as their makers write them; none is empty."""
    written = {"zlib": "zlib", "lzma": "LZMA", "lz4": "LZ4", "zstd": "zstd", "cs": "CS", "none": ""}
    parts = [part.strip() for part in str(codec or "").split(",")]
    return ", ".join(filter(None, (written.get(part.lower(), part) for part in parts)))


def _place(element: Any) -> str:
    """Return a storage element as part of a sentence: a URL as it is, a mount point as a file system."""
    name = one_line(str(element), _NAME_LENGTH_MAX)
    return f"the file system at {name}" if name.startswith("/") else name


def _seconds(job: Job, phase: str) -> float:
    return float((job.get("phases") or {}).get(phase) or 0.0)


def _wall_s(job: Job) -> float:
    return float(job.get("wall_s") or 0.0)


def _total(job: Job, name: str) -> float:
    return float((job.get("totals") or {}).get(name) or 0)


def _name(name: Any) -> str:
    return f"'{one_line(str(name), _NAME_LENGTH_MAX)}'"


def _message(message: Any) -> str:
    """Return an error's message as the end of a sentence."""
    return one_line(str(message or "no reason was recorded"), _MESSAGE_LENGTH_MAX).rstrip(". ")
