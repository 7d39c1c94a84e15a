"""Report the current stage of a case to the parent process, which can then tell crashes of ROOT from others."""

from __future__ import annotations

from typing import TextIO

ROOT_WRITES = "ROOT wrote"
ROOT_READS = "ROOT read"
BRANCHLINE_WRITES = "Branchline wrote"
BRANCHLINE_READS = "Branchline read"
OF_ROOT = (ROOT_WRITES, ROOT_READS)

_listeners: list[TextIO] = []


def report_to(listener: TextIO) -> None:
    """Write all further stages to a listener."""
    _listeners.append(listener)


def begin(stage: str) -> None:
    """Report that a stage begins."""
    for listener in _listeners:
        listener.write(f"{stage}\n")
        listener.flush()
