"""Sensors: everything that is measured in a job, declared in one list."""

from branchline.sensors.process import cpu_count, cpu_s, host, memory_peak_bytes
from branchline.sensors.sensors import SCOPES, SENSORS, Sensor, rows_of

__all__ = ["SCOPES", "SENSORS", "Sensor", "cpu_count", "cpu_s", "host", "memory_peak_bytes", "rows_of"]
