"""One plain sentence on what limits a job, from its record alone."""

from __future__ import annotations

from typing import Any

from branchline.base.quantities import count, counted, duration, percent, whole_share
from branchline.base.texts import one_line
from branchline.records.diagnosis.causes import causes, name_text, returns_much
from branchline.records.diagnosis.figures import phase_s, phase_shares
from branchline.records.sensors.record import JobRecord

#: If the work on the data takes less than this, or less than starting and writing results, the phases say nothing
#: about the data.
MEANINGFUL_DATA_S = 0.5
#: ... but a longer time for starting and writing gets a sentence.
LONG_FIXED_S = 5.0
#: A step with a smaller share than this does not limit a job alone if another one is close to it.
LEADING_SHARE = 0.4
CLOSE_TO_LEADING = 0.7
#: Idle workers are reported from this share on (tenths of a per cent), whatever the largest phase is.
IDLE, IDLE_TENTHS = "idle", 150
_MESSAGE_LENGTH_MAX = 200


def diagnosis(job: JobRecord) -> str:
    """Return one sentence with numbers on what limits this job."""
    return _nothing_done(job) or _every_wagon_stopped(job) or _too_little(job) or _what_limits(job)


# --- jobs of which the phases say nothing ----------------------------------------------------------------------------


def _nothing_done(job: JobRecord) -> str | None:
    if job.events:
        return None
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


def _every_wagon_stopped(job: JobRecord) -> str | None:
    wagons = job.wagons
    if not wagons or not all(wagon.error for wagon in wagons):
        return None
    first = min(wagons, key=lambda wagon: wagon.events or 0)
    error = first.error
    assert error is not None
    who = f"The wagon {name_text(first.name)}" if len(wagons) == 1 else f"All {len(wagons)} wagons"
    which = "" if len(wagons) == 1 else f", {name_text(first.name)} first,"
    return (
        f"{who} stopped with an error{which} after {count(first.events or 0)} of "
        f"{counted(job.events_expected or job.events, 'event')}, so the times say little: "
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


# --- jobs that a step limits -----------------------------------------------------------------------------------------


def _what_limits(job: JobRecord) -> str:
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
        # Workers that wait for another one are idle for less time than that one works, so idling is never first.
        more = "" if idle in named else f"{share[IDLE]} more went into {idle.clause}: "
        sentence += f"; {more}{idle.detail}"
    return f"{sentence}."


def _message(message: Any) -> str:
    """Return an error's message as the end of a sentence."""
    return one_line(str(message or "no reason was recorded"), _MESSAGE_LENGTH_MAX).rstrip(". ")
