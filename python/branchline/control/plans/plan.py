"""A plan: which wagons it puts together, on which dataset, where they run, and when."""

from __future__ import annotations

import math
from dataclasses import dataclass

from branchline.base.limits import PLAN_HOURS_MAX, PLAN_MEMORY_MAX_BYTES, TRAIN_WAGONS_MAX
from branchline.base.quantities import counted, duration, size
from branchline.control.plans.due_times import Schedule
from branchline.control.registry.entries import checked_name
from branchline.control.trains.train import HERE, TrainOrder
from branchline.errors import OptionError


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


def _check_limit(what: str, value: float, most: float) -> None:
    if not (math.isfinite(value) and 0 <= value <= most):
        raise OptionError(f"{value:g} {what} are impossible", hint=f"from 0 to {most:g}")
