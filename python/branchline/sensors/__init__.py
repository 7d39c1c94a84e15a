"""Sensors: everything that is measured in a job, declared in one list."""

from branchline._core import __version__
from branchline.sensors.links import joined_links, links_chosen
from branchline.sensors.process import core_wait_s, cpu_count, cpu_s, host, machine_cpu_s, memory_peak_bytes
from branchline.sensors.sensors import SCOPES, SENSORS, Sensor, rows_of
from branchline.sensors.troubles import added_troubles, take_troubles

__all__ = [
    "SCOPES",
    "SENSORS",
    "Sensor",
    "__version__",
    "added_troubles",
    "core_wait_s",
    "cpu_count",
    "cpu_s",
    "host",
    "joined_links",
    "links_chosen",
    "machine_cpu_s",
    "memory_peak_bytes",
    "rows_of",
    "take_troubles",
]
