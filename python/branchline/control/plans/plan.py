"""Plans: which wagons a train takes, on which dataset, where it runs, and when.

A plan orders a train on a weekly schedule in a time zone, or when its train is full.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from branchline.base.limits import PLAN_HOURS_MAX, PLAN_MEMORY_MAX_BYTES, TRAIN_WAGONS_MAX
from branchline.base.quantities import counted, duration, size
from branchline.control.registry.entries import checked_name
from branchline.control.trains.train import HERE, TrainOrder
from branchline.errors import OptionError

#: The days of a week, as plans name them.
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
# No name of a time zone leads out of the folder of time zones.
_ZONE = re.compile(r"[A-Za-z0-9_+-]{1,40}(/[A-Za-z0-9_+-]{1,40}){0,2}")
# In so many days there is one of each name, also where a zone left one out.
_SEARCHED_DAYS = 15


@dataclass(frozen=True)
class Plan:
    """A plan, made by an operator; ``owner/name`` is its address. It takes the wagons that are enabled on ``dataset``
    and passed (those of ``group``, if one is named), at the due times of ``schedule`` or when the train is ``full``.

    Wagons that rode on the dataset and have not changed ride only again if the plan ``runs_again``. A train that will
    take more than ``seconds_max`` or ``memory_max_bytes`` (0: the limits of all trains) waits for an operator.
    """

    owner: str
    name: str
    dataset: str
    schedule: Schedule | None = None
    full: Fullness | None = None
    group: str = ""
    runs_again: bool = False
    place: str = HERE
    workers: int = 0
    allow_missing: float = 0.0
    seconds_max: float = 0.0
    memory_max_bytes: int = 0
    is_paused: bool = False

    @property
    def address(self) -> str:
        """Its owner and name."""
        return f"{self.owner}/{self.name}"

    @property
    def when(self) -> str:
        """When it makes its trains, in words."""
        if self.full is not None:
            return self.full.words
        return "" if self.schedule is None else self.schedule.all_words

    def order(self, wagons: list[str]) -> TrainOrder:
        """The order of a train of some wagons."""
        return TrainOrder(
            self.owner, self.name, self.dataset, wagons, self.place, self.workers, allow_missing=self.allow_missing
        )

    def check(self) -> None:
        """Raises OptionError for what is wrong by itself."""
        checked_name("the owner of a plan", self.owner)
        checked_name("the name of a plan", self.name)
        if self.group:
            checked_name("a group", self.group)
        # What a train cannot have, its plan cannot.
        self.order([f"{self.owner}/any"]).check()
        _check_limit("seconds", self.seconds_max, PLAN_HOURS_MAX * 3600)
        _check_limit("bytes of memory", self.memory_max_bytes, PLAN_MEMORY_MAX_BYTES)
        if (self.schedule is None) == (self.full is None):
            raise OptionError(
                "a plan has a schedule, or says when its train is full", hint="choose one; make two plans"
            )
        if self.schedule is not None:
            self.schedule.check()
        if self.full is not None:
            self.full.check()
            if self.runs_again:
                what = "a train of wagons that run again unchanged is full at once, again and again"
                raise OptionError(what, hint="run them again on a schedule")


@dataclass(frozen=True)
class Schedule:
    """Days by their names, a time of day as 06:00, and the name of a time zone as Europe/Zurich.

    Each day has one due time. One that does not exist since clocks go forward is the same time after what was then the
    distance to UTC: 02:30 becomes 03:30. One that exists twice is the first of both.
    """

    days: list[str] = field(default_factory=list)
    at: str = "06:00"
    zone: str = "UTC"

    def check(self) -> None:
        """Raises OptionError for what is wrong."""
        wrong = [one for one in self.days if one not in DAYS]
        if wrong:
            raise OptionError(f"there is no day {wrong[0]!r:.40}", hint=f"days are {', '.join(DAYS)}")
        if not self.days or len(set(self.days)) < len(self.days):
            raise OptionError("a schedule needs days of the week, each once", hint=f"days are {', '.join(DAYS)}")
        if not _TIME.fullmatch(self.at):
            raise OptionError(f"{self.at!r:.40} is no time of a day", hint="write it as 06:00, up to 23:59")
        _zone(self.zone)

    def due_after(self, moment: datetime) -> datetime:
        """The first due time after a moment."""
        return min(one for one in self._around(moment, 1) if one > moment)

    def due_until(self, moment: datetime) -> datetime:
        """The last due time up to a moment."""
        return max(one for one in self._around(moment, -1) if one <= moment)

    @property
    def all_words(self) -> str:
        """All due times in words: ``Monday, Friday 06:00 Europe/Zurich``."""
        days = "every day" if len(self.days) == len(DAYS) else ", ".join(one for one in DAYS if one in self.days)
        return f"{days} {self.at} {self.zone}"

    def words(self, due: datetime) -> str:
        """A due time as people say it there: ``Monday 06:00``, with the zone if it is not UTC."""
        local = due.astimezone(_zone(self.zone))
        zone = "" if self.zone == "UTC" else f" {self.zone}"
        return f"{DAYS[local.weekday()]} {local:%H:%M}{zone}"

    def _around(self, moment: datetime, step: int) -> list[datetime]:
        """Due times of days from around a moment onwards or backwards; enough to have one on its other side."""
        zone = _zone(self.zone)
        found = _TIME.fullmatch(self.at)
        assert found is not None
        at = time(int(found[1]), int(found[2]))
        # The date there may be another one than in UTC.
        first = moment.astimezone(UTC).date() - step * timedelta(days=2)
        days = [first + step * timedelta(days=one) for one in range(_SEARCHED_DAYS)]
        return [datetime.combine(day, at, zone).astimezone(UTC) for day in days if DAYS[day.weekday()] in self.days]


def _zone(name: str) -> tzinfo:
    """Raises OptionError for a zone that is not known."""
    if name == "UTC":
        return UTC
    try:
        if _ZONE.fullmatch(name):
            return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        pass  # Folders of zones are no zones either.
    what = f"there is no time zone {name!r:.80} on the server"
    raise OptionError(
        what, hint="write it like Europe/Zurich, or UTC; zones come with the system or the package tzdata"
    )


@dataclass(frozen=True)
class Fullness:
    """When a train is full: so many wagons wait, or they will take so much time or memory together, or one of them
    waits for so many hours. What is 0 does not count; the first that is reached does.
    """

    wagons: int = 0
    seconds: float = 0.0
    memory_bytes: int = 0
    hours: float = 0.0

    @property
    def words(self) -> str:
        """The limits, as people say them."""
        limits = [counted(self.wagons, "wagon")] if self.wagons else []
        limits += [f"{duration(self.seconds)} of forecast time"] if self.seconds else []
        limits += [f"{size(self.memory_bytes)} of forecast memory"] if self.memory_bytes else []
        limits += [f"a wagon that waits for {duration(self.hours * 3600)}"] if self.hours else []
        return f"when full: {' or '.join(limits)}"

    def check(self) -> None:
        """Raises OptionError for what is wrong."""
        if not 0 <= self.wagons <= TRAIN_WAGONS_MAX:
            raise OptionError(f"a train of {self.wagons} wagons is impossible", hint=f"up to {TRAIN_WAGONS_MAX}")
        _check_limit("seconds", self.seconds, PLAN_HOURS_MAX * 3600)
        _check_limit("bytes of memory", self.memory_bytes, PLAN_MEMORY_MAX_BYTES)
        _check_limit("hours", self.hours, PLAN_HOURS_MAX)
        if not (self.wagons or self.seconds or self.memory_bytes or self.hours):
            raise OptionError("the train is never full", hint="say how many wagons, how much time or memory, or hours")


def _check_limit(what: str, value: float, most: float) -> None:
    if not (math.isfinite(value) and 0 <= value <= most):
        raise OptionError(f"{value:g} {what} are impossible", hint=f"from 0 to {most:g}")
