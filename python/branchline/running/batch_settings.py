"""What only trains have that are submitted to a batch system."""

from __future__ import annotations

from dataclasses import dataclass

from branchline.errors import OptionError
from branchline.limits import BATCH_TASKS_MAX


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """How a train is submitted. Raises OptionError for an impossible value.

    ``tasks`` is how many jobs read, by default as many as the size of the dataset is worth. ``options`` go to the batch
    system as they are.

    ``branchline.run("wagons.py", "data/*.root", "out", on="slurm", batch=branchline.BatchSettings(tasks=100))``
    """

    tasks: int | None = None
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.tasks is not None and not 1 <= self.tasks <= BATCH_TASKS_MAX:
            raise OptionError(f"{self.tasks} tasks cannot be submitted", hint=f"give 1 to {BATCH_TASKS_MAX}")
