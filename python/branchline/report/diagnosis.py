"""One plain sentence on what limits a job, drawn from its record alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from branchline.report.causes import causes, name_text, returns_much
from branchline.report.quantities import count, counted, duration, percent, whole_share
from branchline.report.records import number, phase_s, phase_shares
from branchline.report.remedies import one_worker
from branchline.report.texts import one_line

#: When all that has to do with the data takes less than this, or than starting and writing the results take, the
#: phases say nothing about the data ...
TELLING_DATA_S = 0.5
#: ... unless starting and writing take so long that they are worth a sentence of their own.
TELLING_FIXED_S = 5.0
#: A step with less of the time than this does not limit a job alone when another one is close to it.
LEADING_SHARE = 0.4
CLOSE_TO_LEADING = 0.7
#: Idle workers are told of beside what leads from this share on (tenths of a per cent).
IDLE, IDLE_TENTHS = "idle", 150
_MESSAGE_LENGTH_MAX = 200

Job = Mapping[str, Any]


def diagnosis(job: Job) -> str:
    """Return one sentence that says what limits this job, in numbers, and what would help most where that is known."""
    return _nothing_done(job) or _every_wagon_stopped(job) or _too_little(job) or _what_limits(job)


# --- jobs of which the phases say nothing ----------------------------------------------------------------------------


def _nothing_done(job: Job) -> str | None:
    if job.get("events"):
        return None
    errors, skipped = job.get("errors") or [], job.get("skipped") or []
    files_count = len(job.get("dataset") or [])
    if job.get("interrupted"):
        return f"Nothing was processed: the job was interrupted after {duration(number(job, 'wall_s'))}."
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
    who = f"The wagon {name_text(first['name'])}" if len(wagons) == 1 else f"All {len(wagons)} wagons"
    which = "" if len(wagons) == 1 else f", {name_text(first['name'])} first,"
    return (
        f"{who} stopped with an error{which} after {count(first.get('events') or 0)} of "
        f"{counted(job.get('events_expected') or job['events'], 'event')}, so the times say little: "
        f"{error.get('type')}: {_message(error.get('message'))}."
    )


def _too_little(job: Job) -> str | None:
    wall_s, fixed_s = number(job, "wall_s"), phase_s(job, "start") + phase_s(job, "write")
    if fixed_s >= TELLING_FIXED_S or returns_much(job):
        return None
    if wall_s - fixed_s >= TELLING_DATA_S and fixed_s < 0.5 * wall_s:
        return None
    events = counted(int(number(job, "events")), "event")
    told = f"There is too little data to say what limits this job: its {events} took {duration(wall_s - fixed_s)}"
    if fixed_s > 0.5 * wall_s:
        told += f", and starting and writing results the other {percent(fixed_s, wall_s)} of {duration(wall_s)}"
    faster = one_worker(job)
    return f"{told}; {faster}." if faster else f"{told}."


# --- jobs that a step limits -----------------------------------------------------------------------------------------


def _what_limits(job: Job) -> str:
    tenths = phase_shares(job)
    found = sorted(causes(job), key=lambda cause: -phase_s(job, cause.phase))
    share = {cause.phase: whole_share(tenths.get(cause.phase, 0), phase_s(job, cause.phase)) for cause in found}
    first, second = found[:2]
    first_s, second_s = phase_s(job, first.phase), phase_s(job, second.phase)
    if first_s < LEADING_SHARE * number(job, "wall_s") and second_s > CLOSE_TO_LEADING * first_s:
        shown = [f"{share[cause.phase]} into {cause.clause}" for cause in found[:3] if phase_s(job, cause.phase) > 0]
        listed = ", ".join(shown[:-1]) + " and " + shown[-1]
        sentence = f"No single step limits this job: {listed.replace(' into', ' of the time went into', 1)}"
    else:
        sentence = f"{share[first.phase]} of the time went into {first.clause}"
        if first.detail:
            sentence += f": {first.detail}"
    advice = first.advice
    idle = next(cause for cause in found if cause.phase == IDLE)
    if idle not in found[:1] and idle.detail and tenths.get(IDLE, 0) >= IDLE_TENTHS:
        # Workers that wait for one that is at work are idle no longer than that one works, so they never lead.
        sentence += f"; {share[IDLE]} more went into {idle.clause}: {idle.detail}"
        advice = idle.advice or advice
    return f"{sentence}; {advice}." if advice else f"{sentence}."


def _message(message: Any) -> str:
    """Return an error's message as the end of a sentence."""
    return one_line(str(message or "no reason was recorded"), _MESSAGE_LENGTH_MAX).rstrip(". ")
