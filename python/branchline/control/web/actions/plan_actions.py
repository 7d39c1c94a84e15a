"""What operators do with plans, by forms."""

from __future__ import annotations

from branchline.base.limits import parse_bytes
from branchline.control.people import Person
from branchline.control.plans.due_times import Schedule
from branchline.control.plans.plan import Fullness, Plan
from branchline.control.room import ControlRoom
from branchline.control.web.actions.actions import Form
from branchline.errors import OptionError

#: What makes a train, in the form.
SCHEDULE, FULL = "schedule", "full"


def save(room: ControlRoom, person: Person, form: Form) -> str:
    """Makes a plan, or changes the one whose revision is given."""
    trigger = form.text("trigger")
    if trigger not in (SCHEDULE, FULL):
        raise OptionError("a plan needs to know when", hint=f"trigger is {SCHEDULE} or {FULL}")
    is_paused = False
    if form.number("revision"):
        is_paused = room.plans.plan(f"{form.text('owner')}/{form.text('name')}").plan.is_paused
    plan = Plan(
        form.text("owner") or person.name,
        form.text("name"),
        form.text("dataset"),
        _schedule(form) if trigger == SCHEDULE else None,
        _fullness(form) if trigger == FULL else None,
        form.text("group"),
        # It is a choice of schedules alone, and stands beside them.
        bool(form.text("runs_again")) and trigger == SCHEDULE,
        form.text("place") or "here",
        form.number("workers"),
        _amount(form, "allow_missing") / 100,
        _amount(form, "hours_max") * 3600,
        parse_bytes(form.text("memory_max") or "0"),
        is_paused,
    )
    room.plans.save(plan, person, form.number("revision"))
    return f"/plans/{plan.address}"


def pause(room: ControlRoom, person: Person, form: Form) -> str:
    """Pauses a plan, or has it go on."""
    room.plans.pause(form.text("address"), person, is_paused=form.text("to") != "on")
    return f"/plans/{form.text('address')}"


def remove(room: ControlRoom, person: Person, form: Form) -> str:
    """Removes a plan."""
    room.plans.remove(form.text("address"), person)
    return "/plans"


def _schedule(form: Form) -> Schedule:
    return Schedule(form.texts("day"), form.text("at"), form.text("zone") or "UTC")


def _fullness(form: Form) -> Fullness:
    return Fullness(
        form.number("full_wagons"),
        _amount(form, "full_hours") * 3600,
        parse_bytes(form.text("full_memory") or "0"),
        _amount(form, "full_waits"),
    )


def _amount(form: Form, name: str) -> float:
    text = form.text(name) or "0"
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"{name} cannot be {text!r:.40}", hint="write a number, as 1.5") from None
