"""Run a study: rounds of all arms in random order, until the intervals are narrow enough or the budget is spent."""

from __future__ import annotations

import dataclasses
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from branchline._core import __version__
from branchline.base.plain import to_plain
from branchline.base.quantities import counted, duration
from branchline.base.whole_files import write_whole
from branchline.errors import BranchlineError, OptionError
from branchline.lab.limits import STUDY_BLOCK_ROUNDS, STUDY_LIMIT_ROUNDS, STUDY_LOST_MAX, STUDY_TRACES_PART
from branchline.lab.sampling.sampler import Taker, Turn
from branchline.lab.sampling.samples import SAMPLES, STUDY, KeptStudy, SampleFile, SampleKind, StudySample, load_kept
from branchline.lab.sampling.study_files import JobFiles, files_of
from branchline.lab.sampling.traces import TRACED_CLIENTS
from branchline.lab.statistics import PAIRS_MIN
from branchline.lab.studies.storage_limits import BLOCKS, all_limits, files_of_blocks
from branchline.lab.studies.study_result import StudyResult, result_of
from branchline.lab.study import JobSettings, Study


class FailedStudyError(BranchlineError):
    """No baseline of a study can be measured."""


@dataclass(frozen=True)
class _Entry:
    """A sample that a round will take."""

    kind: SampleKind
    arm: str
    settings: JobSettings


@dataclass
class _Progress:
    """The state of a running study."""

    samples: list[StudySample] = field(default_factory=list)
    taken: set[tuple[int, str, str]] = field(default_factory=set)
    session: int = 0
    spent_s: float = 0.0
    begun_s: float = field(default_factory=time.monotonic)
    took_s: dict[tuple[str, str], float] = field(default_factory=dict)

    def add(self, sample: StudySample) -> None:
        last = self.samples[-1] if self.samples else None
        is_next = last is None or last.session == sample.session
        self.took_s[sample.kind, sample.arm] = sample.spent_s - (last.spent_s if last and is_next else 0.0)
        self.samples.append(sample)
        self.taken.add(sample.key)

    @property
    def spent_now_s(self) -> float:
        return self.spent_s + time.monotonic() - self.begun_s


class StudyRun:
    """The run of a study in its own directory. After an interruption, it continues there."""

    def __init__(
        self, study: Study, folder: Path, seed: int, taker: Taker, say: Callable[[str], None], command: str = ""
    ) -> None:
        self._study, self._folder, self._taker, self._say = study, folder, taker, say
        folder.mkdir(parents=True, exist_ok=True)
        self.seed = _kept_seed(study, folder, seed, command)
        self._file = SampleFile(folder / SAMPLES)
        self._progress = _Progress()
        for sample in self._file.read():
            self._progress.add(sample)
        if self._progress.samples:
            last = self._progress.samples[-1]
            self._progress.session, self._progress.spent_s = last.session + 1, last.spent_s
        self._arms = study.arms()
        self._files: dict[str, JobFiles] = {}
        self._limits: list[tuple[SampleKind, str, JobSettings]] = []
        self._given_up: set[tuple[str, str]] = set()

    def run(self) -> StudyResult:
        """Take samples until the study ends.

        Raises FailedStudyError if no baseline can be measured. Raises OptionError and DatasetError only before the
        first sample.
        """
        for arm in self._arms:
            if arm.settings.jobs > self._taker.jobs_max:
                what = f"{arm.name}: {arm.settings.jobs} concurrent jobs, up to {self._taker.jobs_max} can run here"
                raise OptionError(what, hint="run it on a farm with --on")
            self._files[arm.name] = files_of(arm.settings)
        if self._study.limits:
            self._limits = all_limits(self._arms, self._files)
        number = 0
        while number < self._study.rounds_max:
            self._round(number)
            number += 1
            result = result_of(self._study, self.seed, self._progress.samples)
            self._say(f"round {number}: {result.progress}")
            if result.is_precise or self._next_is_too_long(number):
                break
        if self._study.limits:
            self._record_traces()
        return result_of(self._study, self.seed, self._progress.samples)

    def _round(self, number: int) -> None:
        entries = list(self._entries(number))
        random.Random(f"{self.seed}/{number}").shuffle(entries)  # noqa: S311 - a reproducible order
        for position, entry in enumerate(entries):
            turn = Turn(number, position, entry.arm, entry.kind)
            if (number, entry.kind, entry.arm) in self._progress.taken or self._is_given_up(entry):
                continue
            self._take(entry, turn)

    def _take(self, entry: _Entry, turn: Turn, files: JobFiles | None = None) -> None:
        sample = self._taker.take(entry.settings, files or self._files[entry.arm], turn, self._study.wait_s)
        progress = self._progress
        sample = dataclasses.replace(sample, spent_s=progress.spent_now_s, session=progress.session)
        self._file.add(sample)
        progress.add(sample)
        if not sample.error:
            return
        self._say(f"left out of round {sample.round + 1}: {entry.arm} ({entry.kind}): {sample.error}")
        if not self._is_given_up(entry):
            return
        self._say(f"{entry.arm} ({entry.kind}) failed repeatedly and is given up")
        baselines = [one.name for one in self._arms if self._study.baseline_of(one) == one.name]
        if all(("arm", one) in self._given_up for one in baselines):
            raise FailedStudyError(f"no baseline can be measured: {sample.error}", path=str(self._folder))

    def _entries(self, number: int) -> Iterator[_Entry]:
        """Yield everything that a round measures: each arm, each baseline a second time, and in the first rounds also
        the limits.
        """
        for arm in self._arms:
            yield _Entry("arm", arm.name, arm.settings)
            if self._study.baseline_of(arm) == arm.name:
                yield _Entry("control", arm.name, arm.settings)
        if self._study.limits and number < STUDY_LIMIT_ROUNDS:
            for kind, name, settings in self._limits:
                yield _Entry(kind, name, settings)

    def _record_traces(self) -> None:
        """Record the reads of each arm, and repeat them if local files with the same content are known, as time
        permits.

        Runs after the rounds, so that it does not reduce their number.
        """
        traced = [one for one in self._arms if self._taker.has_traces and one.settings.client in TRACED_CLIENTS]
        for position, arm in enumerate(traced):
            settings = arm.settings
            repeated = dataclasses.replace(settings, client="ranges", options={})
            behind = files_of_blocks(settings, self._files[arm.name])
            entries = [_Entry("trace", arm.name, settings), *[_Entry(BLOCKS, arm.name, repeated)] * STUDY_BLOCK_ROUNDS]
            for number, entry in enumerate(entries if behind else entries[:1]):
                key = (number, entry.kind, entry.arm)
                took_s = self._progress.took_s.get(("arm", arm.name), 0.0)
                if self._progress.spent_now_s + took_s > (1 + STUDY_TRACES_PART) * self._study.budget_s:
                    left = counted(len(traced) - position, "arm")
                    self._say(f"the budget is spent: not all reads of {left} are recorded and repeated on the disk")
                    return
                if key not in self._progress.taken and not self._is_given_up(entry):
                    self._take(entry, Turn(number, 0, entry.arm, entry.kind), behind if entry.kind == BLOCKS else None)

    def _is_given_up(self, entry: _Entry) -> bool:
        """Return whether the latest samples of an entry all failed, so that the entry is no longer measured."""
        own = [one for one in self._progress.samples if (one.kind, one.arm) == (entry.kind, entry.arm)]
        last = own[-STUDY_LOST_MAX:]
        if len(last) == STUDY_LOST_MAX and all(one.error for one in last):
            self._given_up.add((entry.kind, entry.arm))
        return (entry.kind, entry.arm) in self._given_up

    def _next_is_too_long(self, done: int) -> bool:
        """Return whether another round would exceed the budget."""
        spent_s = self._progress.spent_now_s
        # The first rounds measure the limits, later rounds do not.
        took_s = self._progress.took_s
        next_s = sum(took_s.get((one.kind, one.arm), 0.0) for one in self._entries(done) if not self._is_given_up(one))
        if spent_s + next_s <= self._study.budget_s:
            return False
        if done < PAIRS_MIN:
            wanted = duration(spent_s + next_s * (PAIRS_MIN - done))
            self._say(f"the budget is spent after {done} rounds; an interval needs six, which take about {wanted}")
        return True


def _kept_seed(study: Study, folder: Path, seed: int, command: str) -> int:
    """Return the seed stored in the directory; for a new study, store its description with ``seed``."""
    path = folder / STUDY
    if not path.exists():
        if any(folder.iterdir()):
            raise OptionError("the directory is not empty and contains no study", path=str(folder))
        kept = KeptStudy(study, seed, study.digest, __version__, command)
        write_whole(path, json.dumps(to_plain(kept), indent=1).encode())
        return seed
    kept = load_kept(folder)
    if kept.digest != study.digest:
        what = "the directory contains another study"
        raise OptionError(what, path=str(folder), hint="give another directory with -o")
    return kept.seed
