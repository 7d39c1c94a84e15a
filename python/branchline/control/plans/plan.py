"""Plans that order trains automatically: with which wagons, on which dataset, where, and when.

A plan orders a train on a weekly schedule in a time zone, or when enough wagons wait to fill a train.
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

#: Names of the weekdays in plans.
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
# Names of time zones. Excludes names with "..", which would leave the directory with time zone files.
_ZONE = re.compile(r"[A-Za-z0-9_+-]{1,40}(/[A-Za-z0-9_+-]{1,40}){0,2}")
# Number of consecutive days to search for a due time. Contains every weekday, even if a time zone skipped a day.
_SEARCHED_DAYS = 15


@dataclass(frozen=True)
class Plan:
    """An operator's plan. Its trains contain the wagons that are enabled on ``dataset`` and passed their trials.

    - ``schedule``, ``full``: when trains are ordered: at scheduled times, or when enough wagons wait.
    - ``group``: restricts trains to the wagons of this group; empty for all wagons.
    - ``runs_again``: whether wagons that have not changed since their last train are included again.
    - ``place``: where the trains run.
    - ``seconds_max``, ``memory_max_bytes``: trains with a larger forecast wait for approval. With 0, only the general
      limits apply.
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
        """The unique name ``owner/name``."""
        return f"{self.owner}/{self.name}"

    @property
    def when(self) -> str:
        """A description of when the plan orders trains."""
        if self.full is not None:
            return self.full.words
        return "" if self.schedule is None else self.schedule.all_words

    def order(self, wagons: list[str]) -> TrainOrder:
        """Return the order for a train with the wagons ``wagons``."""
        return TrainOrder(
            self.owner, self.name, self.dataset, wagons, self.place, self.workers, allow_missing=self.allow_missing
        )

    def check(self) -> None:
        """Raise OptionError for invalid values. Does not check whether the dataset exists."""
        checked_name("the owner of a plan", self.owner)
        checked_name("the name of a plan", self.name)
        if self.group:
            checked_name("a group", self.group)
        # The values that a plan passes to its trains must also be valid.
        self.order([f"{self.owner}/any"]).check()
        _check_limit("seconds", self.seconds_max, PLAN_HOURS_MAX * 3600)
        _check_limit("bytes of memory", self.memory_max_bytes, PLAN_MEMORY_MAX_BYTES)
        if (self.schedule is None) == (self.full is None):
            raise OptionError(
                "a plan needs either a schedule or limits that fill its train", hint="create two plans to have both"
            )
        if self.schedule is not None:
            self.schedule.check()
        if self.full is not None:
            self.full.check()
            if self.runs_again:
                what = "a plan that reruns unchanged wagons needs a schedule, since its train would always be full"
                raise OptionError(what, hint="add a schedule, or do not rerun unchanged wagons")


@dataclass(frozen=True)
class Schedule:
    """A weekly schedule: weekdays, a time of day such as 06:00, and a time zone such as Europe/Zurich.

    Each weekday in ``days`` has one due time. If the change to daylight saving time skips the due time, the due time
    moves forward with the clock: 02:30 becomes 03:30. If the time of day occurs twice, the first occurrence counts.
    """

    days: list[str] = field(default_factory=list)
    at: str = "06:00"
    zone: str = "UTC"

    def check(self) -> None:
        """Raise OptionError for invalid values."""
        wrong = [one for one in self.days if one not in DAYS]
        if wrong:
            raise OptionError(f"unknown day {wrong[0]!r:.40}", hint=f"choose from {', '.join(DAYS)}")
        if not self.days or len(set(self.days)) < len(self.days):
            raise OptionError("a schedule needs at least one weekday, each only once", hint=f"days: {', '.join(DAYS)}")
        if not _TIME.fullmatch(self.at):
            raise OptionError(f"invalid time of day {self.at!r:.40}", hint="give hours and minutes, such as 06:00")
        _zone(self.zone)

    def due_after(self, moment: datetime) -> datetime:
        """Return the first due time after ``moment``."""
        return min(one for one in self._around(moment, 1) if one > moment)

    def due_until(self, moment: datetime) -> datetime:
        """Return the last due time at or before ``moment``."""
        return max(one for one in self._around(moment, -1) if one <= moment)

    @property
    def all_words(self) -> str:
        """A description of the schedule, such as ``Monday, Friday 06:00 Europe/Zurich``."""
        days = "every day" if len(self.days) == len(DAYS) else ", ".join(one for one in DAYS if one in self.days)
        return f"{days} {self.at} {self.zone}"

    def words(self, due: datetime) -> str:
        """Format a due time in the schedule's time zone, such as ``Monday 06:00 Europe/Zurich``. Omits the name UTC."""
        local = due.astimezone(_zone(self.zone))
        zone = "" if self.zone == "UTC" else f" {self.zone}"
        return f"{DAYS[local.weekday()]} {local:%H:%M}{zone}"

    def _around(self, moment: datetime, step: int) -> list[datetime]:
        """Return due times near ``moment``, with at least one that is later (``step`` 1) or earlier (``step`` -1)."""
        zone = _zone(self.zone)
        found = _TIME.fullmatch(self.at)
        assert found is not None
        at = time(int(found[1]), int(found[2]))
        # Start two days off, because the local date can differ from the UTC date.
        first = moment.astimezone(UTC).date() - step * timedelta(days=2)
        days = [first + step * timedelta(days=one) for one in range(_SEARCHED_DAYS)]
        return [datetime.combine(day, at, zone).astimezone(UTC) for day in days if DAYS[day.weekday()] in self.days]


def _zone(name: str) -> tzinfo:
    """Return a time zone. Raises OptionError for an unknown name."""
    if name == "UTC":
        return UTC
    try:
        if _ZONE.fullmatch(name):
            return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        pass  # Unknown names, and names of directories, such as Europe.
    what = f"unknown time zone {name!r:.80} on the server"
    raise OptionError(
        what, hint="use a name such as Europe/Zurich or UTC; zones come with the system or the package tzdata"
    )


@dataclass(frozen=True)
class Fullness:
    """The limits at which a train is full. Reaching one limit is enough; 0 disables a limit.

    ``wagons`` limits the number of waiting wagons. ``seconds`` and ``memory_bytes`` limit the forecast time and memory
    of one train with all waiting wagons. ``hours`` limits the time for which any wagon waits.
    """

    wagons: int = 0
    seconds: float = 0.0
    memory_bytes: int = 0
    hours: float = 0.0

    @property
    def words(self) -> str:
        """A description of the limits."""
        limits = [counted(self.wagons, "wagon")] if self.wagons else []
        limits += [f"{duration(self.seconds)} of forecast time"] if self.seconds else []
        limits += [f"{size(self.memory_bytes)} of forecast memory"] if self.memory_bytes else []
        limits += [f"a wagon that waits for {duration(self.hours * 3600)}"] if self.hours else []
        return f"when full: {' or '.join(limits)}"

    def check(self) -> None:
        """Raise OptionError for invalid values."""
        if not 0 <= self.wagons <= TRAIN_WAGONS_MAX:
            raise OptionError(f"the number of wagons must be 0 to {TRAIN_WAGONS_MAX}, got {self.wagons}")
        _check_limit("seconds", self.seconds, PLAN_HOURS_MAX * 3600)
        _check_limit("bytes of memory", self.memory_bytes, PLAN_MEMORY_MAX_BYTES)
        _check_limit("hours", self.hours, PLAN_HOURS_MAX)
        if not (self.wagons or self.seconds or self.memory_bytes or self.hours):
            hint = "set a limit for wagons, forecast time, forecast memory or waiting hours"
            raise OptionError("the train would never be full", hint=hint)


def _check_limit(what: str, value: float, most: float) -> None:
    if not (math.isfinite(value) and 0 <= value <= most):
        raise OptionError(f"the limit must be 0 to {most:g} {what}, got {value:g}")
