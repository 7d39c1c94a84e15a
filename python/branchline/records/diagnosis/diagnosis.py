"""Summarizes in one sentence what limits a job, based only on its record.

Each phase of the job has a `Cause`: a clause for that sentence, with numbers. `job_advice` suggests improvements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from branchline.base.quantities import count, counted, duration, percent, rate, shares, size, whole_share
from branchline.base.texts import one_line
from branchline.records.diagnosis.figures import (
    codec_name,
    delivered_bytes,
    files_read,
    other_programs,
    phase_s,
    phase_shares,
    small_chunks,
    unwanted_bytes,
)
from branchline.records.sensors.record import BranchRecord, FileRecord, JobRecord, WagonRecord

#: A sentence says "N branches hold X % of it" for the N largest branches that together hold the fraction MOST_OF_IT, if
#: N is at most the fraction FEW_OF_ALL of all branches.
MOST_OF_IT = 2 / 3
FEW_OF_ALL = 1 / 3
#: Thresholds for a wagon's ratio of CPU time to wall time: at least COMPUTES means that the wagon is CPU-bound, and
#: less than WAITS means that the wagon is mostly waiting.
COMPUTES, WAITS = 0.8, 0.5
#: A wagon counts as waiting for a core if it spends at least this fraction of its time in the kernel's run queue.
WAITS_FOR_CORE = 0.15
#: A wagon that executes at least this many lines of Python per event loops over the events.
LOOPS_LINES = 1.0
#: If a wagon's calls are shorter than this, they process few events, and the fixed cost of a call dominates.
SHORT_CALL_S = 0.02
#: Minimum output size of a wagon for which merging takes noticeable time.
LARGE_OUTPUT_BYTES = 10_000_000
#: Minimum number of pictures for which drawing takes longer than loading the libraries.
MANY_PICTURES = 20
#: Unneeded branches are reported if their baskets are at least this fraction of the bytes read.
UNWANTED_SHARE = 0.2
#: A single file is reported as the cause of idle workers if it took at least this fraction of the busiest worker's
#: time.
LONG_FILE_SHARE = 0.25
#: The phases are meaningful only if the job, without starting and writing results, takes at least this many seconds.
MEANINGFUL_DATA_S = 0.5
#: A job that spends most of its time on starting and writing results is diagnosed if these take this many seconds.
LONG_FIXED_S = 5.0
#: If the longest step takes less than LEADING_SHARE of the time, and the second-longest step takes more than
#: CLOSE_TO_LEADING of the longest one's time, the three longest steps are reported together.
LEADING_SHARE = 0.4
CLOSE_TO_LEADING = 0.7
#: Name of the idle phase, and the minimum share of idle time (in tenths of a per cent) that is reported even if another
#: phase is longer.
IDLE, IDLE_TENTHS = "idle", 150
#: Maximum lengths of names, lists and messages from the record in a sentence.
_NAME_LENGTH_MAX = 60
_LIST_LENGTH_MAX = 60
_MESSAGE_LENGTH_MAX = 200


def diagnosis(job: JobRecord) -> str:
    """Return a sentence with numbers that says what limits the job."""
    if not job.events:
        return _nothing_done(job)
    if job.wagons and all(wagon.error for wagon in job.wagons):
        return _every_wagon_stopped(job)
    reason = _too_little(job)
    if reason:
        return reason
    tenths = phase_shares(job)
    found = sorted(causes(job), key=lambda cause: -phase_s(job, cause.phase))
    share = {cause.phase: whole_share(tenths.get(cause.phase, 0), phase_s(job, cause.phase)) for cause in found}
    first, second = found[:2]
    first_s, second_s = phase_s(job, first.phase), phase_s(job, second.phase)
    named = found[:1]
    if first_s < LEADING_SHARE * job.wall_s and second_s > CLOSE_TO_LEADING * first_s:
        named = [cause for cause in found[:3] if phase_s(job, cause.phase) > 0]
        shown = [f"{share[cause.phase]} into {cause.clause}" for cause in named]
        listed = ", ".join(shown[:-1]) + " and " + shown[-1]
        sentence = f"No single step limits this job: {listed.replace(' into', ' of the time went into', 1)}"
    else:
        sentence = f"{share[first.phase]} of the time went into {first.clause}"
        if first.detail:
            sentence += f": {first.detail}"
    idle = next(cause for cause in found if cause.phase == IDLE)
    if idle not in found[:1] and idle.detail and tenths.get(IDLE, 0) >= IDLE_TENTHS:
        # Workers that wait for one slow worker are idle for less time than the slow worker works, so idling is never
        # the longest phase.
        more = "" if idle in named else f"{share[IDLE]} more went into {idle.clause}: "
        sentence += f"; {more}{idle.detail}"
    return f"{sentence}."


# --- jobs whose phases are meaningless --------------------------------------------------------------------------------


def _nothing_done(job: JobRecord) -> str:
    errors, skipped = job.errors, job.skipped
    files_count = len(job.dataset)
    if job.interrupted:
        return f"Nothing was processed: the job was interrupted after {duration(job.wall_s)}."
    if errors:
        return f"Nothing was processed: {_message(errors[0].message)}."
    if skipped and len(skipped) >= files_count:
        which = "The only file was" if len(skipped) == 1 else f"All {count(len(skipped))} files were"
        first = "" if len(skipped) == 1 else "the first because of: "
        return f"{which} skipped, so nothing was processed; {first}{_message(skipped[0].error)}."
    if files_count == 0:
        return "Nothing was processed: the dataset has no files."
    return f"Nothing was processed: the {counted(files_count, 'file')} of the dataset hold no events."


def _every_wagon_stopped(job: JobRecord) -> str:
    wagons = job.wagons
    first = min(wagons, key=lambda wagon: wagon.events or 0)
    error = first.error
    assert error is not None
    who = f"The wagon {name_text(first.name)}" if len(wagons) == 1 else f"All {len(wagons)} wagons"
    which = "" if len(wagons) == 1 else f", {name_text(first.name)} first,"
    return (
        f"{who} stopped with an error{which} after {count(first.events or 0)} of "
        f"{counted(job.events_expected or job.events, 'event')}, so the times are not meaningful: "
        f"{error.type}: {_message(error.message)}."
    )


def _too_little(job: JobRecord) -> str | None:
    wall_s, fixed_s = job.wall_s, phase_s(job, "start") + phase_s(job, "write")
    if returns_much(job) or (wall_s - fixed_s >= MEANINGFUL_DATA_S and fixed_s < 0.5 * wall_s):
        return None
    if fixed_s >= LONG_FIXED_S and wall_s - fixed_s >= MEANINGFUL_DATA_S:
        return None
    events = counted(job.events, "event")
    sentence = f"There is too little data to say what limits this job: its {events} took {duration(wall_s - fixed_s)}"
    if fixed_s > 0.5 * wall_s:
        sentence += f", and starting and writing results the other {percent(fixed_s, wall_s)} of {duration(wall_s)}"
    return f"{sentence}."


# --- the cause of each phase ------------------------------------------------------------------------------------------


class Cause(NamedTuple):
    """A phase of the wall time as part of a sentence: "went into <clause>: <detail>"."""

    phase: str
    clause: str
    detail: str = ""


def causes(job: JobRecord) -> list[Cause]:
    """Return the cause of each phase."""
    decoding = _joined(small_chunks(job), _concentration(job.branches, "decode_s"))
    warming_up = f"each of {counted(job.workers or 1, 'worker')} spends this time once, however much it reads"
    chunks = sum(int(wagon.chunks) for wagon in job.wagons)
    chunks_handed = small_chunks(job) or (f"{counted(chunks, 'chunk')} were handed to wagons" if chunks else "")
    between_steps = _joined(chunks_handed, other_programs(job))
    return [
        _decompressing(job),
        Cause("decode", "decoding", decoding),
        _waiting(job),
        _computing(job),
        _starting(job),
        Cause("warmup", "imports and compilation in the first chunks", warming_up),
        _opening(job),
        Cause("merge", "merging results", _largest_output(job)),
        _writing(job),
        _idling(job),
        Cause("lost", "lost workers", f"{counted(len(job.workers_lost), 'worker')} ended without returning a result"),
        Cause("other", "what Branchline does between these steps", between_steps),
    ]


def _decompressing(job: JobRecord) -> Cause:
    branches = job.branches
    by_codec: dict[str, list[float]] = {}
    for branch in branches:
        sums = by_codec.setdefault(codec_name(branch.codec), [0.0, 0.0])
        sums[0] += branch.decompress_s
        sums[1] += branch.plain_bytes
    total_s = sum(seconds for seconds, _ in by_codec.values())
    slowest_first = sorted(by_codec.items(), key=lambda item: -item[1][0])
    main = [(codec, sums) for codec, sums in slowest_first if total_s > 0 and sums[0] >= 0.1 * total_s]
    clause = " ".join(filter(None, ("decompressing", " and ".join(codec for codec, _ in main if codec))))
    detail = _concentration(branches, "decompress_s")
    if main and main[0][1][1]:
        seconds, plain_bytes = main[0][1]
        detail = f"at {rate(plain_bytes, seconds)} a core, and {detail}"
    return Cause("decompress", clause, detail)


def _waiting(job: JobRecord) -> Cause:
    elements = sorted(job.storage_elements, key=lambda element: -element.fetch_s)
    if not elements or not elements[0].read_calls:
        return Cause("wait", "waiting for data")
    slowest = elements[0]
    name = one_line(str(slowest.name), _NAME_LENGTH_MAX)
    # The name is a URL, or the mount point of a file system.
    place = f"the file system at {name}" if name.startswith("/") else name
    clause = f"waiting for data from {place}"
    call_bytes = slowest.bytes_read / slowest.read_calls
    speed = rate(slowest.bytes_read, slowest.fetch_s)
    detail = f"{counted(slowest.read_calls, 'read call')} of {size(call_bytes)} on average, {speed} within a call"
    if len(elements) > 1:
        all_s = sum(element.fetch_s for element in elements)
        detail += f", {percent(slowest.fetch_s, all_s)} of the total reading time"
    unwanted, read = unwanted_bytes(job), delivered_bytes(job)
    if read and unwanted > UNWANTED_SHARE * read:
        detail += f", {percent(unwanted, read)} of the bytes belong to branches that no wagon needs"
    return Cause("wait", clause, detail)


def _computing(job: JobRecord) -> Cause:
    wagons = sorted(job.wagons, key=lambda wagon: -wagon.seconds)
    tenths = shares([wagon.seconds for wagon in wagons])
    if not any(tenths):
        return Cause("wagons", "wagons")
    slowest = wagons[0]
    nature = _nature(job, slowest)
    if len(wagons) == 1:
        return Cause("wagons", f"the wagon {name_text(slowest.name)}", nature)
    detail = f"{name_text(slowest.name)} takes {whole_share(tenths[0])} of it, and {nature}"
    return Cause("wagons", f"{len(wagons)} wagons", detail)


def _nature(job: JobRecord, wagon: WagonRecord) -> str:
    """Describe whether a wagon mostly computes or waits."""
    busy, waited = wagon.cpu_s / wagon.seconds, wagon.core_wait_s / wagon.seconds
    others = other_programs(job)
    if small_chunks(job) and wagon.seconds < SHORT_CALL_S * wagon.chunks:
        call = duration(wagon.seconds / wagon.chunks)
        return f"it is called for {small_chunks(job)}, and each call takes {call}, mostly a fixed cost"
    # CPU and wall clocks are rounded, so a difference may be negative, and CPU and waiting time may add up to more than
    # the wall time.
    whole, both = max(1.0, busy + waited), max(busy, 0.0) + waited
    used = f"its CPU was busy {'only ' if busy < WAITS else ''}{percent(max(busy, 0.0), whole)} of the time"
    if busy < COMPUTES and waited > WAITS_FOR_CORE:
        # Derived from the rounded sum, so that the two percentages never add up to more than 100 %.
        queue_percent = round(100 * both / whole) - round(100 * max(busy, 0.0) / whole)
        queue = f"{used}, and for {queue_percent} % it waited for a core"
        return f"{queue}, since {others}{_loops(wagon)}" if others else f"{queue}{_loops(wagon)}"
    if busy >= COMPUTES:
        return f"it is limited by the CPU{_loops(wagon)}"
    return f"{used}, so it waits for something external: a file, a network, a lock" if busy < WAITS else used


def _loops(wagon: WagonRecord) -> str:
    """Return a clause about a wagon that loops over events; empty for other wagons."""
    is_loop = (wagon.python_lines_per_event or 0.0) >= LOOPS_LINES
    return "; it executes Python for each event instead of for whole arrays" if is_loop else ""


def _starting(job: JobRecord) -> Cause:
    workers = job.workers or 1
    data = f"{counted(job.events, 'event')} ({size(job.totals.bytes_read)} read)"
    if workers > 1:
        detail = f"this time does not grow with the data, and {data} are few"
        return Cause("start", f"starting {workers} workers", _joined(detail, other_programs(job)))
    detail = f"imports and other steps that do not grow with the data, and {data} are few"
    return Cause("start", "starting", _joined(detail, other_programs(job)))


def _opening(job: JobRecord) -> Cause:
    files = files_read(job)
    detail = ""
    if files:
        mean_bytes = sum(file.size_bytes or 0 for file in files) / len(files)
        each = duration(phase_s(job, "plan") * (job.workers or 1) / len(files))
        detail = f"{counted(len(files), 'file')} of {size(mean_bytes)} on average, {each} each"
    return Cause("plan", "opening files and planning their reading", detail)


def _writing(job: JobRecord) -> Cause:
    pictures = sum(1 for result in job.results if result.picture)
    if returns_much(job):
        return Cause("write", "writing results", _largest_output(job))
    if not pictures:
        return Cause("write", "writing results", "mostly loading libraries, which does not grow with the data")
    if pictures < MANY_PICTURES:
        detail = f"{counted(pictures, 'picture')}, and loading the libraries that draw them"
        return Cause("write", "writing results", detail)
    each = duration(phase_s(job, "write") / pictures)
    return Cause("write", "writing results", f"{counted(pictures, 'picture')} of histograms, at most {each} each")


def _idling(job: JobRecord) -> Cause:
    workers = job.workers or 1
    busy_s = sorted(row.wall_s - row.idle for row in job.worker_phases)
    subjobs = job.subjobs
    detail = ""
    if 0 < subjobs < workers:
        detail = f"there were {counted(subjobs, 'sub-job')} for {counted(workers, 'worker')}"
    elif len(busy_s) > 1:
        detail = f"the busiest of {len(busy_s)} had work for {duration(busy_s[-1])}"
        longest = long_file(job, busy_s[-1])
        if longest is not None:
            how = ", to learn the branches while the others waited" if learns(job, longest) else " alone"
            detail += f" ({duration(longest.wall_s)} of it with {name_text(str(longest.path).rpartition('/')[2])}{how})"
        detail += f", the least busy for {duration(busy_s[0])}"
    return Cause("idle", "workers that had nothing to do", detail)


def long_file(job: JobRecord, busiest_s: float) -> FileRecord | None:
    """Return the file that kept the busiest worker busy for much of its ``busiest_s`` seconds, or None."""
    longest = max(job.files, key=lambda file: file.wall_s, default=None)
    return longest if longest is not None and longest.wall_s >= LONG_FILE_SHARE * busiest_s else None


def learns(job: JobRecord, file: FileRecord) -> bool:
    """Return whether the file is the first one, on which the needed branches were learned while other workers
    waited.
    """
    return file is job.files[0] and file.late_reads > 0 and not job.misses


# --- parts of sentences -----------------------------------------------------------------------------------------------


def _joined(*texts: str) -> str:
    return ", ".join(filter(None, texts))


def _concentration(branches: Sequence[BranchRecord], field: str) -> str:
    """Describe which branches account for most of the seconds in ``field``."""
    costs = sorted(((getattr(branch, field), branch.name) for branch in branches), key=lambda cost: (-cost[0], cost[1]))
    total_s = sum(cost for cost, _ in costs)
    if total_s <= 0:
        return ""
    if len(costs) == 1:
        return f"all of it is the branch {name_text(costs[0][1])}"
    needed, held_s = 0, 0.0
    while held_s < MOST_OF_IT * total_s:
        held_s += costs[needed][0]
        needed += 1
    held = percent(held_s, total_s)
    if needed == 1:
        return f"the branch {name_text(costs[0][1])} holds {held} of it"
    if needed > max(1, FEW_OF_ALL * len(costs)):
        return f"it is spread over {counted(len(costs), 'branch', 'branches')}"
    listed = ", ".join(name for _, name in costs[:needed])
    names = f" ({one_line(listed, _LIST_LENGTH_MAX)})" if len(listed) <= _LIST_LENGTH_MAX else ""
    return f"{needed} of {counted(len(costs), 'branch', 'branches')}{names} hold {held} of it"


def returns_much(job: JobRecord) -> bool:
    """Return whether a wagon's output is so large that it dominates the time of merging and writing."""
    return any((wagon.output_bytes) >= LARGE_OUTPUT_BYTES for wagon in job.wagons)


def _largest_output(job: JobRecord) -> str:
    """Describe the wagon with the largest output."""
    if not returns_much(job):
        return ""
    largest = max(job.wagons, key=lambda wagon: wagon.output_bytes)
    each = f"{size(largest.output_bytes)} in the end, added up over {count(largest.chunks)} chunks"
    return f"the wagon {name_text(largest.name)} returns {each}"


def name_text(name: object) -> str:
    """Return a name from the record in quotes, shortened for a sentence."""
    return f"'{one_line(str(name), _NAME_LENGTH_MAX)}'"


def _message(message: object) -> str:
    """Return an error message from the record, shortened for the end of a sentence."""
    return one_line(str(message or "no reason was recorded"), _MESSAGE_LENGTH_MAX).rstrip(". ")
