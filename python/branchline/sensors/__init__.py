"""Sensors: everything that is measured in a job, declared in one list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from branchline.lazily import lazily

if TYPE_CHECKING:
    from branchline.sensors.links import distinct_links, joined_links, links_chosen
    from branchline.sensors.process import core_wait_s, cpu_count, cpu_s, host, machine_cpu_s, memory_peak_bytes
    from branchline.sensors.record import FAILED, FINISHED, PARTIAL, RUNNING, SCHEMA_VERSION, JobRecord, WagonFault
    from branchline.sensors.sensors import SCOPES, SENSORS, Sensor, SensorRow, rows_of
    from branchline.sensors.status import STATUS_VERSION, TrainStatus
    from branchline.sensors.troubles import added_troubles, take_troubles

__all__ = [
    "FAILED",
    "FINISHED",
    "PARTIAL",
    "RUNNING",
    "SCHEMA_VERSION",
    "SCOPES",
    "SENSORS",
    "STATUS_VERSION",
    "JobRecord",
    "Sensor",
    "SensorRow",
    "TrainStatus",
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

__getattr__ = lazily(
    __name__,
    {
        "branchline.sensors.links": ("distinct_links", "joined_links", "links_chosen"),
        "branchline.sensors.process": (
            "core_wait_s",
            "cpu_count",
            "cpu_s",
            "host",
            "machine_cpu_s",
            "memory_peak_bytes",
        ),
        "branchline.sensors.record": (
            "FAILED",
            "FINISHED",
            "PARTIAL",
            "RUNNING",
            "SCHEMA_VERSION",
            "JobRecord",
            "WagonFault",
        ),
        "branchline.sensors.sensors": ("SCOPES", "SENSORS", "Sensor", "SensorRow", "rows_of"),
        "branchline.sensors.status": ("STATUS_VERSION", "TrainStatus"),
        "branchline.sensors.troubles": ("added_troubles", "take_troubles"),
    },
)
