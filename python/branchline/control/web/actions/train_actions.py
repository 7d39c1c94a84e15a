"""What people do with trains, by forms."""

from __future__ import annotations

from branchline.control.people import Person
from branchline.control.room import ControlRoom
from branchline.control.trains.train import TrainOrder
from branchline.control.web.actions.actions import Form
from branchline.errors import OptionError


def order(room: ControlRoom, person: Person, form: Form) -> str:
    """Orders a train."""
    wanted = TrainOrder(
        form.text("owner") or person.name,
        form.text("name"),
        form.text("dataset"),
        form.texts("wagon"),
        form.text("place") or "here",
        form.number("workers"),
        _share(form.text("allow_missing")),
    )
    return f"/trains/{room.trains.order(wanted, person)}"


def _share(text: str) -> float:
    """Per cent as a share."""
    try:
        return float(text or "0") / 100
    except ValueError:
        raise OptionError(f"{text!r:.40} is no number of per cent") from None


def approve(room: ControlRoom, person: Person, form: Form) -> str:
    """Has a train begin that waits for an operator."""
    room.trains.approve(form.number("number"), person)
    return f"/trains/{form.number('number')}"


def cancel(room: ControlRoom, person: Person, form: Form) -> str:
    """Ends a train."""
    room.trains.cancel(form.number("number"), person)
    return f"/trains/{form.number('number')}"


def again(room: ControlRoom, person: Person, form: Form) -> str:
    """Runs what is missing."""
    room.trains.again(form.number("number"), person)
    return f"/trains/{form.number('number')}"


def clone(room: ControlRoom, person: Person, form: Form) -> str:
    """Runs the same again."""
    return f"/trains/{room.trains.clone(form.number('number'), person)}"
