"""When a plan is due: days of the week and a time of day in a time zone, as moments in UTC."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from branchline.errors import OptionError

#: The days of a week, as plans name them.
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
# No name of a time zone leads out of the folder of time zones.
_ZONE = re.compile(r"[A-Za-z0-9_+-]{1,40}(/[A-Za-z0-9_+-]{1,40}){0,2}")
# In so many days there is one of each name, also where a zone left one out.
_SEARCHED_DAYS = 15


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
        return [_moment(day, at, zone) for day in days if DAYS[day.weekday()] in self.days]


def _moment(day: date, at: time, zone: tzinfo) -> datetime:
    return datetime.combine(day, at, zone).astimezone(UTC)


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
