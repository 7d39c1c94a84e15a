"""A clock that is always in exactly one phase, so that the times of all phases add up to the total time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from branchline.reading.sources import ReaderWait
from branchline.records.sensors.this_process import core_wait_s

# Phases of a job's wall time. The clock's phase "reading" is split afterwards into wait, decompress and decode.
PHASES = (
    "start", "plan", "warmup", "wait", "decompress", "decode", "wagons", "merge", "write", "idle", "lost", "other",
)  # fmt: skip
# The only phase for which CPU time and waits for a core are also measured: reading one of these
# values takes fifty times as long as calling time.monotonic().
CPU_PHASE = "wagons"


class PhaseClock:
    """Adds up the seconds of each phase, starting at ``begin_s``. ``begin_s`` is a value of ``time.monotonic``, which
    is the same in all processes of the machine.
    """

    def __init__(self, phase: str = "start", begin_s: float | None = None) -> None:
        self.begin_s = time.monotonic() if begin_s is None else begin_s
        self.phase = phase
        self._seconds: dict[str, float] = {}
        #: Seconds of CPU time of this thread in the phase "wagons", and seconds for which this thread waited for a core
        #: in that phase. Both are updated at each switch of the phase.
        self.wagons_cpu_s = self.wagons_core_wait_s = 0.0
        self._ended_s: dict[str, float] = {}
        self._since_s = self.begin_s
        self._cpu_since_s = time.thread_time()
        self._core_wait_since_s = core_wait_s()

    def switch(self, phase: str) -> str:
        """Switch to another phase and return the previous one."""
        previous = self.phase
        # CPU time and core wait are read within the interval of the wall time. If the thread loses its core between two
        # of these calls, the wait counts as wall time, so that the wall time is never too short.
        if previous == CPU_PHASE:
            cpu_now, core_wait_now = time.thread_time(), core_wait_s()
            self.wagons_cpu_s += cpu_now - self._cpu_since_s
            self.wagons_core_wait_s += core_wait_now - self._core_wait_since_s
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
        """Switch to a phase inside the block, and back to the previous one afterwards."""
        previous = self.switch(phase)
        try:
            yield
        finally:
            self.switch(previous)

    def ended_s(self, phase: str) -> float:
        """Return the time at which a phase last ended, as a value of ``time.monotonic``; the current time if it has not
        ended yet.
        """
        return self._ended_s.get(phase, time.monotonic())

    def spent(self, phase: str) -> float:
        """Return the seconds spent in a phase until the last switch."""
        return self._seconds.get(phase, 0.0)

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each phase until now."""
        self.switch(self.phase)
        return dict(self._seconds)


def split_reading(seconds: dict[str, float], waited: ReaderWait) -> dict[str, float]:
    """Split the phase "reading" into wait, decompress and decode, using times measured by the reader.

    The remaining reading time is spent on making arrays from decoded data, and counts as decode.
    """
    split = dict.fromkeys(PHASES, 0.0) | seconds
    reading = split.pop("reading", 0.0)
    waits = {
        "wait": max(waited.fetch_s, 0.0),
        "decompress": max(waited.decompress_s, 0.0),
        "decode": max(waited.decode_s, 0.0),
    }
    scale = min(1.0, reading / sum(waits.values())) if sum(waits.values()) > 0 else 0.0
    for phase, waited_s in waits.items():
        split[phase] += scale * waited_s
        reading -= scale * waited_s
    split["decode"] += reading
    return split
