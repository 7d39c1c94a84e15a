"""Marks in a trace for which wagon a thread reads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from branchline import _core


@contextmanager
def reading_for(wagon: str) -> Iterator[None]:
    """While inside, the trace, if there is one, attributes what this thread reads to a wagon, which runs inside."""
    if not _core.trace_is_on():
        yield
        return
    begin_s = time.perf_counter()
    _core.trace_wagon(wagon)
    try:
        yield
    finally:
        _core.trace_wagon("")
        _core.trace_did("wagon", wagon, time.perf_counter() - begin_s)
