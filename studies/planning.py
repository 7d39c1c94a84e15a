"""A run of many studies: how much time each gets, and what is left of it after an interruption."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from branchline.base.quantities import counted, duration
from branchline.base.whole_files import write_whole
from branchline.lab.studies.study_file import seconds_of
from studies.published import StudyPair

#: What a study takes beside its samples: disks are made and filled, servers started, the first programs loaded.
PLACES_S = 20.0
#: However little time is left, a study gets this part of its own budget.
LEAST_PART = 0.25
#: However much is left, it gets no more than this multiple.
MOST_PART = 3.0


@dataclass
class RunState:
    """What a run has done, on the disk after each study: names with a line about each, those that failed (after an
    interruption they are tried again), and the seconds it has taken.
    """

    is_quick: bool
    done: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    spent_s: float = 0.0
    state_version: int = 1


class StudiesRun:
    """Gives each study its share of the time: a part of its own budget, which is larger when studies before it ended
    early. Begun again, an interrupted run goes on with the study that it was at.
    """

    def __init__(self, pairs: Sequence[StudyPair], path: Path, total_s: float, is_quick: bool) -> None:
        self._path, self._total_s = path, total_s
        self._budgets = {one.name: own_budget_s(one) for one in pairs}
        self.state = _kept(path, is_quick)
        self._begun_s = time.monotonic()

    @property
    def left(self) -> list[str]:
        """Studies that are still to be done."""
        return [one for one in self._budgets if one not in self.state.done and one not in self.state.failed]

    def budget_s(self, name: str) -> float:
        """The time for samples of a study."""
        own = self._budgets[name]
        later = [one for one in self.left if self._budgets[one]]
        samples_s = self._total_s - self._spent_s - PLACES_S * len(later)
        if not own:
            return 0.0
        share_s = samples_s * own / sum(self._budgets[one] for one in later)
        return min(max(LEAST_PART * own, share_s), MOST_PART * own)

    def end(self, name: str, said: str) -> None:
        """Notes that a study is done or left out."""
        self.state.done[name] = said
        self._write()

    def fail(self, name: str) -> None:
        """Notes that a study failed."""
        self.state.failed.append(name)
        self._write()

    def forget(self) -> None:
        """Ends the run: the next one begins with the first study."""
        self._path.unlink(missing_ok=True)

    def estimate(self) -> str:
        """What is to be expected, in a sentence."""
        wanted = [one for one in self.left if self._budgets[one]]
        budgets_s = sum(self._budgets[one] for one in wanted)
        left_s = max(0.0, self._total_s - self._spent_s)
        until = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=left_s)
        going_on = f", {len(self.state.done)} are done" if self.state.done else ""
        return (
            f"{counted(len(wanted), 'study', 'studies')} to be measured{going_on}: their budgets are "
            f"{duration(budgets_s)}, their places take some {duration(PLACES_S * len(wanted))}, the first files a few "
            f"minutes; {duration(left_s)} are there, until {until:%H:%M} UTC"
        )

    @property
    def _spent_s(self) -> float:
        return self.state.spent_s + time.monotonic() - self._begun_s

    def _write(self) -> None:
        kept = replace(self.state, spent_s=self._spent_s)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._path, json.dumps(asdict(kept), indent=1).encode())


def own_budget_s(pair: StudyPair) -> float:
    """The budget that a study's file gives; 0 for one that cannot be measured here."""
    if pair.published.cannot:
        return 0.0
    found = next((one for one in pair.asked.read_text(encoding="utf-8").splitlines() if one.startswith("budget")), "")
    return seconds_of(found.partition("=")[2].strip().strip('"'))


def _kept(path: Path, is_quick: bool) -> RunState:
    """The state of an interrupted run of the same kind, or that of a new one."""
    try:
        state = RunState(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return RunState(is_quick)
    return replace(state, failed=[]) if state.is_quick == is_quick else RunState(is_quick)
