"""What operators do with measures, by forms."""

from __future__ import annotations

from branchline.base.limits import MEASURE_HOURS
from branchline.control.measures.measure import MeasureOrder
from branchline.control.people import Person
from branchline.control.room import ControlRoom
from branchline.control.web.actions.actions import Form


def switch_on(room: ControlRoom, person: Person, form: Form) -> str:
    """Switches a measure on."""
    order = MeasureOrder(
        form.text("kind"),
        form.text("storage_element"),
        form.text("site"),
        form.text("job"),
        form.number("hours") if form.text("hours") else MEASURE_HOURS,
        form.text("why").replace("\r\n", "\n"),
        form.text("finding"),
    )
    return f"/measures/{room.measures.switch_on(order, person)}"


def undo(room: ControlRoom, person: Person, form: Form) -> str:
    """Undoes a measure."""
    room.measures.undo(form.number("number"), person)
    return f"/measures/{form.number('number')}"
