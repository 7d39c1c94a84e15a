"""The place that needs no other process: this one."""

from __future__ import annotations

from collections.abc import Iterator

from branchline.jobs.interruption import Interruption
from branchline.jobs.subjob import Context, Draw, Message, SubJob, Wait, Work


class InThisProcess:
    """Runs a job in the calling process, one sub-job after the other."""

    workers = 1
    workers_seen = 1

    def __init__(self, interruption: Interruption | None = None) -> None:
        self._interruption = interruption or Interruption()

    def prepare(self) -> None:
        """Nothing has to be there before the run."""

    def close(self) -> None:
        """Nothing is left behind the run."""

    def run(self, work: Work, draw: Draw) -> Iterator[Message]:
        """Yields what the callable yields."""

        def from_here(_wait: bool) -> SubJob | Wait | None:
            return draw()

        return work(Context(0, from_here, self._interruption))

    def stop(self) -> None:
        """Asks the callable to end after the step at hand."""
        self._interruption.asked = True
