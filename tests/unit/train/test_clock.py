"""The phases of a timeline add up to its length."""

from __future__ import annotations

import time

import pytest

from branchline.train.clock import PHASES, PhaseClock, split_reading
from branchline.tree import ReaderWait


def test_nested_phases_add_up_to_the_time_since_the_start() -> None:
    begin_s = time.monotonic()
    clock = PhaseClock("start", begin_s)
    with clock.during("wagons"):
        time.sleep(0.01)
        with clock.during("reading"):
            time.sleep(0.02)
    least_s = time.monotonic() - begin_s
    seconds = clock.seconds()
    most_s = time.monotonic() - begin_s
    assert set(seconds) == {"start", "wagons", "reading"}
    assert seconds["reading"] >= 0.02
    assert seconds["wagons"] >= 0.01
    rounding_s = 1e-9
    assert least_s - rounding_s <= sum(seconds.values()) <= most_s + rounding_s


def test_the_cpu_time_of_the_wagons_is_without_that_of_phases_within_them() -> None:
    clock = PhaseClock("other")
    begin_s = time.thread_time()
    with clock.during("wagons"):
        until_s = time.thread_time() + 0.05
        while time.thread_time() < until_s:
            pass
        with clock.during("reading"):
            until_s = time.thread_time() + 0.2
            while time.thread_time() < until_s:
                pass
        clock.switch("wagons")
    assert 0.05 <= clock.wagons_cpu_s() <= time.thread_time() - begin_s - 0.2


def test_reading_is_split_as_the_consumer_waited() -> None:
    waited = ReaderWait(whole_s=3.0, fetch_s=1.0, decompress_s=1.5, decode_s=0.5)
    phases = split_reading({"reading": 4.0, "wagons": 2.0}, waited)
    assert phases == {**dict.fromkeys(PHASES, 0.0), "wait": 1.0, "decompress": 1.5, "decode": 1.5, "wagons": 2.0}


def test_no_more_waiting_is_recorded_than_was_measured() -> None:
    waited = ReaderWait(fetch_s=6.0, decompress_s=2.0)
    phases = split_reading({"reading": 4.0}, waited)
    assert phases["wait"] == pytest.approx(3.0)
    assert sum(phases.values()) == pytest.approx(4.0)
