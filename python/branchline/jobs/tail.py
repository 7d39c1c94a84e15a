"""The end of a job: which sub-jobs are slow enough to be run a second time on workers that have nothing else to do.

Limits are those of Spark's speculation, whose classic defaults are 1.5 times the median when 75 % are done.
"""

from __future__ import annotations

from bisect import insort

from branchline.base.limits import TAIL_DONE_PART, TAIL_FACTOR, TAIL_MIN_S, TAIL_PATIENCE


class Tail:
    """How long sub-jobs took so far."""

    def __init__(self) -> None:
        self._seconds: list[float] = []

    def finished(self, seconds: float) -> None:
        """A sub-job came to its end after this long."""
        insort(self._seconds, seconds)

    def limit_s(self, unfinished_count: int, together: int = 1) -> float | None:
        """The time after which ``together`` sub-jobs in a row count as slow; None while nothing is known."""
        done_count = len(self._seconds)
        if not done_count:
            return None
        is_known_well = done_count >= TAIL_DONE_PART * (done_count + unfinished_count)
        factor = TAIL_FACTOR * (1 if is_known_well else TAIL_PATIENCE)
        return max(TAIL_MIN_S, factor * together * self._median_s)

    def why(self, elapsed_s: float, together: int = 1) -> str:
        """Why they run a second time, in words."""
        usual_s = together * self._median_s
        return f"it took {elapsed_s:.0f} s, where half of all took {usual_s:.1f} s or less"

    @property
    def _median_s(self) -> float:
        # They are in order already: a job with thousands of groups at work asks for each of them.
        middle = len(self._seconds) // 2
        return (self._seconds[middle] + self._seconds[~middle]) / 2
