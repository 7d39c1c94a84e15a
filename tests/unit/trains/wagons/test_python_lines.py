"""Lines of Python are counted in a wagon's second chunk only, and never while something else traces."""

from __future__ import annotations

import json
import sys
from types import FrameType

import pytest

from branchline.trains.worker.python_lines import LINES_MAX, PythonLines


def loop(times: int) -> None:
    for _ in range(times):
        pass


def counted(lines: PythonLines, times: int, events: int = 100, wagon: str = "a") -> int:
    with lines.counted(wagon, events):
        loop(times)
    return lines.lines


def test_only_the_second_chunk_of_each_wagon_is_counted() -> None:
    lines = PythonLines()
    assert counted(lines, 50) == 0
    assert counted(lines, 50, wagon="b") == 0
    assert 100 <= counted(lines, 50) <= 105
    assert 100 <= counted(lines, 50, wagon="b") <= 105
    assert counted(lines, 50) == 0
    assert sys.gettrace() is None


def test_counting_ends_at_two_lines_per_event() -> None:
    lines = PythonLines()
    counted(lines, 1)
    assert counted(lines, 10 * LINES_MAX, events=1000) == LINES_MAX + 2000
    assert sys.gettrace() is None


def test_lines_of_libraries_do_not_count() -> None:
    lines = PythonLines()
    counted(lines, 1)
    with lines.counted("a", 100):
        json.dumps([{"a": number} for number in range(3)], indent=1)
    assert lines.lines < 15


def test_a_debugger_stays() -> None:
    def debugger(_frame: FrameType, _event: str, _: object) -> None:
        return None

    lines = PythonLines()
    counted(lines, 1)
    sys.settrace(debugger)
    try:
        assert counted(lines, 50) == 0
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(None)


def test_what_a_wagon_sets_stays_and_its_errors_pass() -> None:
    def own(_frame: FrameType, _event: str, _: object) -> None:
        return None

    def wagon() -> None:
        sys.settrace(own)
        raise ZeroDivisionError

    lines = PythonLines()
    counted(lines, 1)
    try:
        with pytest.raises(ZeroDivisionError), lines.counted("a", 100):
            wagon()
        assert sys.gettrace() is own
    finally:
        sys.settrace(None)
