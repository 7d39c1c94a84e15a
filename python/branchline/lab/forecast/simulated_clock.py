"""Simulated time: processes that wait until a moment or for a gate, servers that take one task each, and a link."""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterable

#: What a process waits for: the moment at which it goes on, or a gate.
Wait = "float | Gate"
Process = Generator["float | Gate", None, None]


class Gate:
    """Closed until something has happened; processes wait for it."""

    def __init__(self) -> None:
        self.is_open = False
        self.waiting: list[Process] = []


class Clock:
    """Runs processes in the order of their moments; those of one moment in the order in which they came."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due: list[tuple[float, int, Process]] = []
        self._count = 0

    def start(self, process: Process) -> None:
        """Lets a process begin now."""
        self._at(self.now_s, process)

    def open(self, gate: Gate) -> None:
        """Lets those go on that wait for a gate."""
        gate.is_open = True
        for process in gate.waiting:
            self._at(self.now_s, process)
        gate.waiting = []

    def run(self) -> None:
        """Until no process has anything to do."""
        while self._due:
            moment, _, process = heapq.heappop(self._due)
            self.now_s = max(self.now_s, moment)
            self._step(process)

    def _step(self, process: Process) -> None:
        for wait in process:
            if isinstance(wait, Gate):
                if wait.is_open:
                    continue
                wait.waiting.append(process)
                return
            if wait > self.now_s:
                self._at(wait, process)
                return

    def _at(self, moment: float, process: Process) -> None:
        self._count += 1
        heapq.heappush(self._due, (moment, self._count, process))


class Servers:
    """So many that work side by side, each at one task: a task is taken by the one that is free first."""

    def __init__(self, count: int) -> None:
        self._free_s = [0.0] * max(1, count)
        self.worked_s = 0.0

    def take(self, now_s: float, tasks_s: Iterable[float]) -> float:
        """The moment at which the last of some tasks is done that come now."""
        end_s = now_s
        for task_s in tasks_s:
            begin_s = max(now_s, heapq.heappop(self._free_s))
            heapq.heappush(self._free_s, begin_s + task_s)
            end_s = max(end_s, begin_s + task_s)
            self.worked_s += task_s
        return end_s


class Way:
    """The link to a server: bytes of all answers pass it one after the other. 0 bytes per second are no bound."""

    def __init__(self, round_trip_s: float, bytes_per_s: float) -> None:
        self.round_trip_s = round_trip_s
        self._bytes_per_s = bytes_per_s
        self._free_s = 0.0

    def answered(self, now_s: float, size_bytes: float) -> float:
        """The moment at which the last byte has come of an answer that is asked for now."""
        begin_s = max(now_s + self.round_trip_s, self._free_s)
        if self._bytes_per_s > 0:
            self._free_s = begin_s + size_bytes / self._bytes_per_s
            return self._free_s
        return begin_s
