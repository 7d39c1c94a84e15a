"""Time budgets of the studies in a run, and the state of an interrupted run."""

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

#: Time in seconds to create and fill the disks of a study, to start its servers, and to load programs.
PLACES_S = 20.0
#: Minimum and maximum time for a study, as a multiple of its own budget.
LEAST_PART = 0.25
MOST_PART = 3.0


@dataclass
class RunState:
    """The state of a run, written after each study: a summary of each finished study, the names of failed studies, and
    the time in seconds that the run has taken. A resumed run repeats failed studies.
    """

    is_quick: bool
    done: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    spent_s: float = 0.0
    state_version: int = 1


class StudiesRun:
    """Divides the time among studies in proportion to their budgets. Unused time goes to later studies. A run that was
    interrupted, or in which studies failed, resumes with the remaining studies.
    """

    def __init__(self, pairs: Sequence[StudyPair], path: Path, total_s: float, is_quick: bool) -> None:
        self._path, self._total_s = path, total_s
        self._budgets = {one.name: own_budget_s(one) for one in pairs}
        self.state = _kept(path, is_quick)
        self._begun_s = time.monotonic()

    @property
    def left(self) -> list[str]:
        """Names of the remaining studies."""
        return [one for one in self._budgets if one not in self.state.done and one not in self.state.failed]

    def budget_s(self, name: str) -> float:
        """Return the time in seconds for the samples of a study."""
        own = self._budgets[name]
        later = self.left
        samples_s = self._total_s - self._spent_s - PLACES_S * len(later)
        share_s = samples_s * own / sum(self._budgets[one] for one in later)
        return min(max(LEAST_PART * own, share_s), MOST_PART * own)

    def end(self, name: str, said: str) -> None:
        """Record that a study was measured or left out."""
        self.state.done[name] = said
        self._write()

    def fail(self, name: str) -> None:
        """Record that a study failed."""
        self.state.failed.append(name)
        self._write()

    def forget(self) -> None:
        """End the run. The next run starts with the first study."""
        self._path.unlink(missing_ok=True)

    def estimate(self) -> str:
        """Return the expected course of the run in a sentence."""
        wanted = self.left
        budgets_s = sum(self._budgets[one] for one in wanted)
        left_s = max(0.0, self._total_s - self._spent_s)
        until = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=left_s)
        finished = f" ({len(self.state.done)} are finished)" if self.state.done else ""
        return (
            f"{counted(len(wanted), 'study', 'studies')} to measure{finished}: {duration(budgets_s)} for samples, "
            f"{duration(PLACES_S * len(wanted))} for places, a few minutes for the first files; time limit "
            f"{duration(left_s)}, until {until:%H:%M} UTC"
        )

    @property
    def _spent_s(self) -> float:
        return self.state.spent_s + time.monotonic() - self._begun_s

    def _write(self) -> None:
        kept = replace(self.state, spent_s=self._spent_s)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._path, json.dumps(asdict(kept), indent=1).encode())


def own_budget_s(pair: StudyPair) -> float:
    """Return the budget in the file of a study."""
    found = next((one for one in pair.asked.read_text(encoding="utf-8").splitlines() if one.startswith("budget")), "")
    return seconds_of(found.partition("=")[2].strip().strip('"'))


def _kept(path: Path, is_quick: bool) -> RunState:
    """Return the state of an interrupted run of the same kind, or the state of a new run."""
    try:
        state = RunState(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return RunState(is_quick)
    return replace(state, failed=[]) if state.is_quick == is_quick else RunState(is_quick)
