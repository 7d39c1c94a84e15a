"""The phases of a timeline add up to its length."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from branchline.reading.sources import ReaderWait
from branchline.records.sensors.this_process import core_wait_s
from branchline.trains.wagons.clock import PHASES, PhaseClock, split_reading


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
    assert 0.05 <= clock.wagons_cpu_s <= time.thread_time() - begin_s - 0.2


def test_reading_is_split_as_the_consumer_waited() -> None:
    waited = ReaderWait(whole_s=3.0, fetch_s=1.0, decompress_s=1.5, decode_s=0.5)
    phases = split_reading({"reading": 4.0, "wagons": 2.0}, waited)
    assert phases == {**dict.fromkeys(PHASES, 0.0), "wait": 1.0, "decompress": 1.5, "decode": 1.5, "wagons": 2.0}


def test_no_more_waiting_is_recorded_than_was_measured() -> None:
    waited = ReaderWait(fetch_s=6.0, decompress_s=2.0)
    phases = split_reading({"reading": 4.0}, waited)
    assert phases["wait"] == pytest.approx(3.0)
    assert sum(phases.values()) == pytest.approx(4.0)


def test_waiting_for_a_core_counts_in_the_phase_of_the_wagons_only_and_is_a_part_of_its_time() -> None:
    cores = os.sched_getaffinity(0)
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        core = {min(cores)}
        os.sched_setaffinity(other.pid, core)
        os.sched_setaffinity(0, core)
        clock = PhaseClock("other")
        before_s = core_wait_s()
        with clock.during("merge"):
            _compute(0.2)
        assert core_wait_s() > before_s
        assert clock.wagons_core_wait_s == 0.0
        with clock.during("wagons"):
            _compute(0.1)
            with clock.during("reading"):
                _compute(0.2)
    finally:
        os.sched_setaffinity(0, cores)
        other.kill()
        other.wait()
    assert clock.wagons_core_wait_s > 0.0
    # They are read within the phase; the system's clocks may run a little apart.
    assert clock.wagons_cpu_s + clock.wagons_core_wait_s <= clock.spent("wagons") + 0.02


def _compute(cpu_s: float) -> None:
    begin_s = time.thread_time()
    while time.thread_time() < begin_s + cpu_s:
        sum(range(10_000))
