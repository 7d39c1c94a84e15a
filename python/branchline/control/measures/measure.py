"""A measure: what an operator switched on, why, until when, and what was read before."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime

from branchline.base.limits import MEASURE_HOURS, MEASURE_HOURS_MAX, MEASURE_TEXT_MAX, MEASURE_WHY_MAX
from branchline.control.reports.readings import Reads
from branchline.errors import OptionError
from branchline.records.diagnosis.corrections import ACTIONS, AVOID_ELEMENT, SEND_AGAIN, STAGE_ELEMENT

# How a measure stands.
IN_FORCE, ENDED, UNDONE = "in force", "ended", "undone"
_JOB = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class MeasureOrder:
    """What is to be done: ``storage_element`` is an element as pages name it, or the beginning of the locations of
    replicas up to a slash; ``site`` and ``job`` are whom it is for, empty for all. ``why`` is a person's reason,
    ``finding`` the name of the finding that proposed it.
    """

    kind: str
    storage_element: str = ""
    site: str = ""
    job: str = ""
    hours: int = MEASURE_HOURS
    why: str = ""
    finding: str = ""

    def check(self) -> None:
        """Raises OptionError for what is wrong."""
        if self.kind not in ACTIONS:
            raise OptionError(f"there is no measure {self.kind!r:.40}", hint=f"there are {', '.join(ACTIONS)}")
        if not 1 <= self.hours <= MEASURE_HOURS_MAX:
            raise OptionError(f"a measure of {self.hours} hours is impossible", hint=f"give 1 to {MEASURE_HOURS_MAX}")
        for name, text in (("storage element", self.storage_element), ("site", self.site)):
            if len(text) > MEASURE_TEXT_MAX or not text.isprintable():
                raise OptionError(f"the {name} of a measure has up to {MEASURE_TEXT_MAX} characters, all printable")
        if len(self.why) > MEASURE_WHY_MAX or len(self.finding) > MEASURE_WHY_MAX:
            raise OptionError(f"the reason of a measure has up to {MEASURE_WHY_MAX} characters")
        if self.job and not _JOB.fullmatch(self.job):
            raise OptionError(f"{self.job!r:.40} is no job", hint="take the number from the address of its page")
        if self.kind == SEND_AGAIN and not self.job:
            raise OptionError("there is no job to send again", hint="take the number from the address of its page")
        if self.kind != SEND_AGAIN and not self.storage_element:
            raise OptionError("a measure needs a storage element", hint="take the name from the page of storage")

    @property
    def what(self) -> str:
        """The measure in words."""
        if self.kind == SEND_AGAIN:
            return f"send again what failed of job {self.job}"
        verb = {AVOID_ELEMENT: "avoid", STAGE_ELEMENT: "copy files before reading from"}[self.kind]
        whom = f" for workers at {self.site}" if self.site else ""
        return f"{verb} {self.storage_element}{whom}" + (f" in job {self.job}" if self.job else "")


@dataclass(frozen=True)
class Split:
    """Reads by workers whom a measure is for: from the storage element that is meant, and from all others."""

    meant: Reads = field(default_factory=Reads)
    others: Reads = field(default_factory=Reads)


@dataclass(frozen=True)
class Measure:
    """A measure that ``who`` switched on. Times are ISO 8601, UTC. ``before`` are the reads of a day before it,
    ``hour`` those of them in the hour in which it began. ``outcome`` is what came of sending again, or the
    command to give; ``train`` is that of the control room that runs again, 0 if none.
    """

    number: int
    order: MeasureOrder
    who: str
    begins: str
    ends: str
    undone: str = ""
    undone_by: str = ""
    outcome: str = ""
    train: int = 0
    before: Split = field(default_factory=Split)
    hour: Split = field(default_factory=Split)

    def state(self, now: datetime) -> str:
        """How it stands at a time."""
        if self.undone:
            return UNDONE
        return IN_FORCE if now < datetime.fromisoformat(self.ends) else ENDED
