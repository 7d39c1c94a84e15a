"""Sensors: everything that is measured in a job, declared in one list."""

from branchline.sensors.links import distinct_links, joined_links, links_chosen
from branchline.sensors.process import core_wait_s, cpu_count, cpu_s, host, machine_cpu_s, memory_peak_bytes
from branchline.sensors.record import FAILED, FINISHED, PARTIAL, RUNNING, SCHEMA_VERSION, JobRecord, WagonFault
from branchline.sensors.sensors import SCOPES, SENSORS, Sensor, SensorRow, rows_of
from branchline.sensors.troubles import added_troubles, take_troubles

__all__ = [
    "FAILED",
    "FINISHED",
    "PARTIAL",
    "RUNNING",
    "SCHEMA_VERSION",
    "SCOPES",
    "SENSORS",
    "JobRecord",
    "Sensor",
    "SensorRow",
    "WagonFault",
    "added_troubles",
    "core_wait_s",
    "cpu_count",
    "cpu_s",
    "distinct_links",
    "host",
    "joined_links",
    "links_chosen",
    "machine_cpu_s",
    "memory_peak_bytes",
    "rows_of",
    "take_troubles",
]
