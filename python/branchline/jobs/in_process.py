"""The place that needs no other process: this one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from branchline.jobs.interruption import Interruption
from branchline.jobs.subjob import Context, Draw, Finished, Folded, Held, Note, SubJob, Wait, Work
from branchline.jobs.workers.freed_memory import keep_freed_memory


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

    def run(self, work: Work, draw: Draw) -> Iterator[Finished | Folded | Note]:
        """Yields what the callable yields. It is called again when it leaves before the end, as behind a sub-job that
        failed.
        """
        keep_freed_memory()
        again: deque[SubJob] = deque()
        held: dict[int, SubJob] = {}

        def from_here(_wait: bool) -> SubJob | Wait | None:
            drawn = again.popleft() if again else draw()
            if isinstance(drawn, SubJob):
                held[drawn.index] = drawn
            return drawn

        while True:
            has_finished = False
            for message in work(Context(0, from_here, self._interruption)):
                if isinstance(message, Finished):
                    held.pop(message.index, None)
                    has_finished = True
                if not isinstance(message, Held):
                    yield message
            if self._interruption.asked or not has_finished:
                return
            again.extendleft(reversed(held.values()))
            held.clear()
            if not again and isinstance(drawn := draw(), SubJob):
                again.append(drawn)
            if not again:
                return

    def stop(self) -> None:
        """Asks the callable to end after the step at hand."""
        self._interruption.asked = True
