"""What goes on in the background of a control room and fails: for those who run it, and for their monitoring."""

from __future__ import annotations

from dataclasses import dataclass

from branchline.control.room import ControlRoom


@dataclass(frozen=True)
class Trouble:
    """A part of the control room, and why its last round failed; empty if it did not."""

    part: str
    why: str = ""


def troubles_of(room: ControlRoom) -> list[Trouble]:
    """All parts, with their troubles."""
    plans = "; ".join(f"{address}: {why}" for address, why in sorted(room.plans.troubles.items()))
    return [
        Trouble("upkeep", room.upkeep.trouble),
        Trouble("findings", room.findings.trouble),
        Trouble("trials", room.trials.trouble),
        Trouble("trains", room.trains.trouble),
        Trouble("plans", plans),
        Trouble("reports", room.intake_trouble),
        *(Trouble(part, why()) for part, why in room.other_parts.items()),
    ]
