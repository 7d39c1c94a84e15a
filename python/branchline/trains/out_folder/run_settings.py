"""The settings that every train has, wherever it runs, for checkers of types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from branchline.reading.access import Access
    from branchline.reading.datasets.companions import CompanionsLike
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
