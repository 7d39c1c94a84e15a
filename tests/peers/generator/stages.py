"""What a case does next, reported to the process that waits for it: a crash of ROOT is not one of Branchline."""

from __future__ import annotations

from typing import TextIO

ROOT_WRITES = "ROOT wrote"
ROOT_READS = "ROOT read"
BRANCHLINE_WRITES = "Branchline wrote"
BRANCHLINE_READS = "Branchline read"
OF_ROOT = (ROOT_WRITES, ROOT_READS)

_listeners: list[TextIO] = []


def report_to(listener: TextIO) -> None:
    """Writes the stages that follow to a listener."""
    _listeners.append(listener)


def begin(stage: str) -> None:
    """Says what comes next."""
    for listener in _listeners:
        listener.write(f"{stage}\n")
        listener.flush()
