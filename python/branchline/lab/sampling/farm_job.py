"""A job of a study on a farm: a sample with one job, taken on the machine that the farm chose.

`python -m branchline.lab.sampling.farm_job FOLDER NUMBER` is the command of the batch job: it reads the task with this
number from the folder, and writes the sample there atomically.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from branchline.base.checks import instance_of
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
    """A task for a machine of a farm: one job of an arm, with the timeout ``wait_s``. Tasks are sent as JSON."""

    settings: JobSettings
    files: JobFiles
    turn: Turn
    wait_s: float
    task_version: int = FARM_TASK_VERSION

    def to_json(self) -> str:
        return json.dumps(to_plain(self))

    @classmethod
    def from_json(cls, text: str) -> FarmTask:
        """Parse a task. Raises ValueError."""
        found: FarmTask = from_plain(cls, json.loads(text))
        return found

    @property
    def longest_s(self) -> float:
        """Time in seconds after which the task is killed."""
        return self.wait_s + 2 * STUDY_START_S


def work_on_jobs(context: Context) -> Iterator[Finished]:
    """Take samples of the jobs that a worker of the pool draws. Modules imported for one job are reused by the next
    one.
    """
    taker = _taker()
    while (subjob := context.draw()) is not None:
        context.at(f"job {subjob.index} of a study")
        yield Finished(subjob.index, _taken(taker, instance_of(subjob.payload, FarmTask)), context.worker)


def _taker() -> HereAtOnce:
    return HereAtOnce(Path(tempfile.gettempdir()))


def _taken(taker: HereAtOnce, task: FarmTask) -> StudySample:
    """Run the job of a task on this machine."""
    return taker.take(task.settings, task.files, task.turn, task.wait_s)


def task_path(folder: Path, number: int) -> Path:
    """Return the path of the task with this number."""
    return folder / f"task.{number}.json"


def answer_path(folder: Path, number: int) -> Path:
    """Return the path of the sample that the task with this number writes."""
    return folder / f"answer.{number}.json"


def main() -> None:
    folder, number = Path(sys.argv[1]), int(sys.argv[2])
    task = FarmTask.from_json(task_path(folder, number).read_text(encoding="utf-8"))
    sample = _taken(_taker(), task)
    write_whole(answer_path(folder, number), json.dumps(finite(to_plain(sample))).encode())


if __name__ == "__main__":
    main()
