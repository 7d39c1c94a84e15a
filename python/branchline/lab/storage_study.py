"""A study of storages without a file: copying, reading and a real job, for any of them.

The three tests are those of W Bhimji et al., "Optimising grid storage resources for LHC data analysis", J. Phys.: Conf.
Ser. 396 (2012) 032010, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from branchline.errors import OptionError
from branchline.lab.study import Factor, JobSettings, Level, Study

COPY, READING, JOB = "file copy", "reading", "real job"


@dataclass(frozen=True, kw_only=True)
class StorageTests:
    """What is tested of the storages ``where``: their first files that match ``files``, which all of them hold.
    ``train`` are the wagons of the real job; without it there is none. ``jobs`` are numbers of jobs at once.
    """

    where: tuple[str, ...]
    files: tuple[str, ...] = ("**/*.root",)
    files_per_job: int = 0
    tree: str = ""
    train: str = ""
    jobs: tuple[int, ...] = (1,)
    cold: bool = True
    budget_s: float = 1200.0
    precision: float = 0.02
    rounds_max: int = 30

    def study(self) -> Study:
        """The study that does it: each storage beside the first one. Raises OptionError."""
        if len(set(self.where)) < len(self.where):
            raise OptionError("a storage is given twice")
        tests = [
            Level(COPY, {"client": "copy"}),
            Level(READING, {"client": "branchline"}),
        ]
        if self.train:
            tests.append(Level(JOB, {"client": "train", "train": self.train}))
        factors = [
            Factor("storage", tuple(Level(one, {"where": (one,)}) for one in self.where)),
            Factor("test", tuple(tests)),
        ]
        if len(self.jobs) > 1:
            factors.append(Factor("jobs", tuple(Level(str(one), {"jobs": one}) for one in self.jobs)))
        study = Study(
            question=_question(self.where),
            job=JobSettings(
                files=self.files, files_per_job=self.files_per_job, tree=self.tree, jobs=self.jobs[0], cold=self.cold
            ),
            factors=tuple(factors),
            baseline={"storage": self.where[0]},
            precision=self.precision,
            budget_s=self.budget_s,
            rounds_max=self.rounds_max,
        )
        study.check()
        return study


def _question(where: Sequence[str]) -> str:
    if len(where) == 1:
        return f"How fast is {where[0]}, for copies, reading and jobs?"
    return f"Which of {', '.join(where)} is faster, for copies, reading and jobs?"
