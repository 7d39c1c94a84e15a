"""Sensors are declared once, and every row in the long table comes from one of them."""

from __future__ import annotations

import os
import subprocess
import sys

from branchline.records.sensors.record import JobRecord
from branchline.records.sensors.sensor_list import SCOPES, SENSORS, rows_of
from branchline.records.sensors.this_process import (
    MachineCounters,
    core_wait_s,
    cpu_count,
    cpu_s,
    host,
    memory_peak_bytes,
)

JOB = {
    "wall_s": 2.0,
    "cpu_s": 3.0,
    "memory_peak_bytes": 1000,
    "events": 10,
    "phases": {"wait": 0.5, "wagons": 1.5},
    "totals": {"bytes_read": 100},
    "files": [{"path": "a.root", "events": 10, "bytes_read": 100, "late_reads": 0}],
    "storage_elements": [{"name": "/", "files": 1, "bytes_read": 100}],
    "wagons": [{"name": "spectra", "seconds": 1.5, "misses": 0, "error": None}],
    "branches": [{"name": "px", "baskets": 2}],
}


def test_every_scope_and_sensor_of_a_job_becomes_a_row() -> None:
    rows = {(row.scope, row.name, row.sensor): (row.value, row.unit) for row in rows_of(JobRecord.from_dict(JOB))}
    assert rows["job", "", "wall_s"] == (2.0, "s")
    assert rows["job", "", "wait_phase_s"] == (0.5, "s")
    assert rows["job", "", "bytes_read"] == (100.0, "B")
    assert rows["file", "a.root", "bytes_read"] == (100.0, "B")
    assert rows["file", "a.root", "late_reads"] == (0.0, "reads")
    assert rows["storage_element", "/", "files"] == (1.0, "files")
    assert rows["wagon", "spectra", "seconds"] == (1.5, "s")
    assert rows["branch", "px", "baskets"] == (2.0, "baskets")


def test_what_was_not_measured_has_no_row() -> None:
    assert not [row for row in rows_of(JobRecord.from_dict(JOB)) if row.sensor == "open_s"]


def test_each_sensor_says_what_it_is() -> None:
    names = [(sensor.name, scope) for sensor in SENSORS for scope in sensor.scopes]
    assert len(names) == len(set(names))
    for sensor in SENSORS:
        assert sensor.description
        assert sensor.unit
        assert set(sensor.scopes) <= set(SCOPES)


def test_the_machine_is_at_least_as_busy_as_this_process() -> None:
    before, own_before_s = MachineCounters.now(), cpu_s()
    while cpu_s() < own_before_s + 0.3:
        sum(range(10_000))
    found = MachineCounters.now().since(before)
    # Ticks of a hundredth of a second, and of each core.
    assert found.cpu_s is not None
    assert found.cpu_s > 0.2
    assert found.iowait_s is not None
    assert found.iowait_s >= 0
    assert isinstance(found.received_bytes, int)


def test_counters_that_are_unknown_or_disappear_do_not_grow() -> None:
    before = MachineCounters(10.0, None, 500)
    assert MachineCounters(12.5, 3.0, 200).since(before) == MachineCounters(2.5, None, 0)
    assert MachineCounters().since(before) == MachineCounters()


def test_a_thread_that_shares_a_core_waits_for_it() -> None:
    cores = os.sched_getaffinity(0)
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        core = {min(cores)}
        os.sched_setaffinity(other.pid, core)
        os.sched_setaffinity(0, core)
        before_s, own_before_s = core_wait_s(), cpu_s()
        while cpu_s() < own_before_s + 0.2:
            sum(range(10_000))
        assert core_wait_s() - before_s > 0.02
    finally:
        os.sched_setaffinity(0, cores)
        other.kill()
        other.wait()


def test_cpu_time_grows_with_work() -> None:
    before_s = cpu_s()
    sum(range(2_000_000))
    assert cpu_s() > before_s


def test_peak_memory_is_that_of_the_process_and_not_of_its_parent() -> None:
    held = b"x" * 200_000_000
    assert memory_peak_bytes() > len(held)
    code = "from branchline.records.sensors.this_process import memory_peak_bytes; print(memory_peak_bytes())"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    child = int(ended.stdout)
    assert 1_000_000 < child < 100_000_000
    del held


def test_host_and_cores_are_those_of_this_machine() -> None:
    assert host() == os.uname().nodename
    assert 1 <= cpu_count() <= (os.cpu_count() or 1)
