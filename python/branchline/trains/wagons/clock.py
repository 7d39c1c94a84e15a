"""A clock that is always in exactly one phase, so that the phases of a timeline add up to its length."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from branchline.reading.sources import ReaderWait
from branchline.records.sensors.this_process import core_wait_s

# Where the wall time of a job goes; "reading" is split by the engine's records before anyone sees it.
PHASES = (
    "start", "plan", "warmup", "wait", "decompress", "decode", "wagons", "merge", "write", "idle", "lost", "other",
)  # fmt: skip
# The phase whose CPU time and waits for a core are measured too. Calls for these take fifty times as long as one for
# the time of day.
CPU_PHASE = "wagons"


class PhaseClock:
    """Adds up the seconds of each phase from ``begin_s`` on (``time.monotonic``, the same in all processes)."""

    def __init__(self, phase: str = "start", begin_s: float | None = None) -> None:
        self.begin_s = time.monotonic() if begin_s is None else begin_s
        self.phase = phase
        self._seconds: dict[str, float] = {}
        self._cpu_s = 0.0
        self._core_wait_s = 0.0
        self._ended_s: dict[str, float] = {}
        self._since_s = self.begin_s
        self._cpu_since_s = time.thread_time()
        self._core_wait_since_s = core_wait_s()

    def switch(self, phase: str) -> str:
        """Goes over to another phase and returns the one that ends."""
        previous = self.phase
        # A thread may lose its core between two of these calls: what it waits for it is in the wall time, too.
        if previous == CPU_PHASE:
            cpu_now, core_wait_now = time.thread_time(), core_wait_s()
            self._cpu_s += cpu_now - self._cpu_since_s
            self._core_wait_s += core_wait_now - self._core_wait_since_s
            self._cpu_since_s, self._core_wait_since_s = cpu_now, core_wait_now
        now = time.monotonic()
        self._seconds[previous] = self._seconds.get(previous, 0.0) + now - self._since_s
        if phase == CPU_PHASE != previous:
            self._cpu_since_s, self._core_wait_since_s = time.thread_time(), core_wait_s()
        self._since_s = now
        self._ended_s[previous] = now
        self.phase = phase
        return previous

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Inside the block in this phase, afterwards in the one before."""
        previous = self.switch(phase)
        try:
            yield
        finally:
            self.switch(previous)

    def ended_s(self, phase: str) -> float:
        """When a phase ended last (``time.monotonic``); now, if it never did."""
        return self._ended_s.get(phase, time.monotonic())

    def spent(self, phase: str) -> float:
        """The seconds of one phase, as of the last switch."""
        return self._seconds.get(phase, 0.0)

    def wagons_cpu_s(self) -> float:
        """The CPU seconds of this thread in the wagons, as of the last switch."""
        return self._cpu_s

    def wagons_core_wait_s(self) -> float:
        """The seconds that this thread waited for a core in the wagons, as of the last switch."""
        return self._core_wait_s

    def seconds(self) -> dict[str, float]:
        """The seconds of each phase up to now."""
        self.switch(self.phase)
        return dict(self._seconds)


def split_reading(seconds: dict[str, float], waited: ReaderWait) -> dict[str, float]:
    """Replaces the phase "reading" by wait, decompress and decode, by the records of the engine.

    What of the reading is not waiting is the making of arrays from what was decoded, and counts as decode.
    """
    split = dict(seconds)
    reading = split.pop("reading", 0.0)
    waits = [max(part_s, 0.0) for part_s in (waited.fetch_s, waited.decompress_s, waited.decode_s)]
    scale = min(1.0, reading / sum(waits)) if sum(waits) > 0 else 0.0
    fetch, decompress, decode = (scale * part for part in waits)
    split["wait"] = split.get("wait", 0.0) + fetch
    split["decompress"] = split.get("decompress", 0.0) + decompress
    split["decode"] = split.get("decode", 0.0) + decode + reading - (fetch + decompress + decode)
    return {phase: split.get(phase, 0.0) for phase in PHASES}
