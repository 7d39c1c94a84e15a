"""A job of a study on a farm: a sample with one job, taken by the machine that the farm chose for it.

`python -m branchline.lab.sampling.farm_job FOLDER NUMBER` is what a batch system runs: it reads a task from the folder,
and leaves the sample there, whole or not at all.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from branchline.base.plain import finite, from_plain, to_plain
from branchline.base.whole_files import write_whole
from branchline.jobs.subjob import Context, Finished
from branchline.lab.limits import STUDY_START_S
from branchline.lab.sampling.sampler import HereAtOnce, Turn
from branchline.lab.sampling.samples import StudySample
from branchline.lab.sampling.study_files import JobFiles
from branchline.lab.study import JobSettings

FARM_TASK_VERSION = 1


@dataclass(frozen=True)
class FarmTask:
    """What a machine of a farm is to do: one job of an arm, which may take ``wait_s``. It crosses machines, as JSON."""

    settings: JobSettings
    files: JobFiles
    turn: Turn
    wait_s: float
    task_version: int = FARM_TASK_VERSION

    def to_json(self) -> str:
        return json.dumps(to_plain(self))

    @classmethod
    def from_json(cls, text: str) -> FarmTask:
        """Raises ValueError."""
        found: FarmTask = from_plain(cls, json.loads(text))
        return found

    @property
    def longest_s(self) -> float:
        """After so long it is ended, wherever it is."""
        return self.wait_s + 2 * STUDY_START_S


def work_on_jobs(context: Context) -> Iterator[Finished]:
    """Takes the samples of the jobs that a pool's worker draws. What one of them has loaded is there for the next."""
    taker = _taker()
    while (subjob := context.draw()) is not None:
        context.at(f"job {subjob.index} of a study")
        yield Finished(subjob.index, _taken(taker, subjob.payload), context.worker)


def _taker() -> HereAtOnce:
    return HereAtOnce(Path(tempfile.gettempdir()))


def _taken(taker: HereAtOnce, task: FarmTask) -> StudySample:
    """Runs one job on this machine."""
    return taker.take(task.settings, task.files, task.turn, task.wait_s)


def task_path(folder: Path, number: int) -> Path:
    """Where the task with this number is written."""
    return folder / f"task.{number}.json"


def answer_path(folder: Path, number: int) -> Path:
    """Where its sample is left."""
    return folder / f"answer.{number}.json"


def main() -> None:
    folder, number = Path(sys.argv[1]), int(sys.argv[2])
    task = FarmTask.from_json(task_path(folder, number).read_text(encoding="utf-8"))
    sample = _taken(_taker(), task)
    write_whole(answer_path(folder, number), json.dumps(finite(to_plain(sample))).encode())


if __name__ == "__main__":
    main()
