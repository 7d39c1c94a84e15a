"""Settings that every train has, for type checkers, and those of trains submitted to a batch system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from branchline.base.checks import texts, whole_number
from branchline.base.limits import BATCH_RETRIES, BATCH_TASKS_MAX
from branchline.errors import OptionError

if TYPE_CHECKING:
    from branchline.reading.access import Access
    from branchline.reading.datasets.data_file import CompanionsLike
    from branchline.records.output import Pictures
    from branchline.records.sensors.status import TrainStatus


class RunSettings(TypedDict, total=False):
    """The settings of ``branchline.run``, which describes each of them. Its overloads share this list."""

    workers: int | None
    tree: str | None
    companions: CompanionsLike
    parameters: Mapping[str, object] | None
    max_events: int | None
    max_files: int | None
    seed: int
    branches: Sequence[str] | None
    step_size: int | str | None
    memory_limit: int | str
    access: Access | str | None
    skip_bad_files: bool
    worker_timeout: float
    allow_missing: float
    allow_partial: bool
    force: bool
    reuse: bool
    pictures: Pictures
    progress: Callable[[TrainStatus], None] | None
    command: str
    report_to: str | None


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """How a train is submitted. Raises OptionError for an impossible value.

    ``tasks`` is how many jobs read, by default as many as the size of the dataset is worth. ``options`` go to the batch
    system as they are. ``retries`` is how often the last job sends sub-jobs without a result again before it gives up.

        settings = branchline.BatchSettings(tasks=100, options=("--partition=long",))
        branchline.run("wagons.py", "data/*.root", "out", on="slurm", batch=settings)
    """

    tasks: int | None = None
    options: tuple[str, ...] = ()
    retries: int = BATCH_RETRIES

    def __post_init__(self) -> None:
        object.__setattr__(self, "retries", whole_number("number of retries", self.retries, 0))
        object.__setattr__(self, "options", texts("options of a batch system", self.options, '["--partition=long"]'))
        if self.tasks is None:
            return
        tasks = whole_number("number of tasks", self.tasks, 1)
        if tasks > BATCH_TASKS_MAX:
            raise OptionError(f"{tasks} tasks cannot be submitted", hint=f"give 1 to {BATCH_TASKS_MAX}")
        object.__setattr__(self, "tasks", tasks)
