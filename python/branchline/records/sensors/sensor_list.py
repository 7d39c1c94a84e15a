"""The list of all sensors: each quantity of a job, its unit, and its place in the record of the job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from branchline.records.sensors.record import JobRecord

JOB, FILE, STORAGE_ELEMENT, WAGON, BRANCH = "job", "file", "storage_element", "wagon", "branch"
SCOPES = (JOB, FILE, STORAGE_ELEMENT, WAGON, BRANCH)

# For each scope: its list in the record of the job, and the field with the name.
_LISTS = {FILE: ("files", "path"), STORAGE_ELEMENT: ("storage_elements", "name"), WAGON: ("wagons", "name")}
_LISTS |= {BRANCH: ("branches", "name")}


@dataclass(frozen=True)
class Sensor:
    """A measured quantity. ``key`` is its path in the record of the job, or in that of a file, wagon, ... by scope."""

    name: str
    unit: str
    scopes: tuple[str, ...]
    description: str
    key: tuple[str, ...] = ()

    def value_in(self, record: object) -> Any:
        """The value in a record; None if the record lacks it."""
        found: Any = record
        for key in self.key or (self.name,):
            found = found.get(key) if isinstance(found, Mapping) else getattr(found, key, None)
        return found


@dataclass(frozen=True)
class SensorRow:
    """The value of a sensor for the job, or for the file, storage element, wagon or branch of this name."""

    scope: str
    name: str
    sensor: str
    value: float
    unit: str


def _phase(name: str, description: str) -> Sensor:
    return Sensor(f"{name}_phase_s", "s", (JOB,), f"wall time of the job: {description}", ("phases", name))


def _total(name: str, unit: str, description: str, *scopes: str) -> tuple[Sensor, Sensor]:
    return (
        Sensor(name, unit, (JOB,), description, ("totals", name)),
        Sensor(name, unit, scopes, description),
    )


SENSORS: tuple[Sensor, ...] = (
    Sensor("wall_s", "s", (JOB, FILE), "wall time; of a file the time of waiting for its chunks and working on them"),
    Sensor("cpu_s", "s", (JOB, WAGON), "CPU time; of a job all threads of all processes, of a wagon its own thread"),
    Sensor("core_wait_s", "s", (WAGON,), "time in process() ready to run, while other threads had the cores"),
    Sensor("machine_cpu_s", "s", (JOB,), "CPU time of all programs on this machine during the job, this one included"),
    Sensor("memory_peak_bytes", "B", (JOB,), "peak resident memory, added up over the processes"),
    Sensor("events", "events", (JOB, FILE, WAGON), "events handed to wagons"),
    Sensor("seconds", "s", (WAGON,), "wall time in process(), without waiting for columns"),
    Sensor("chunks", "chunks", (WAGON,), "chunks processed"),
    Sensor("misses", "reads", (WAGON,), "columns read late because they were not planned"),
    Sensor("output_bytes", "B", (WAGON,), "size of the pickled result"),
    *_total("bytes_asked", "B", "bytes that the reading needed", FILE),
    *_total("bytes_read", "B", "bytes that the storage delivered", FILE, STORAGE_ELEMENT),
    *_total("cached_bytes", "B", "bytes that a cache or a staged copy on this machine had", FILE, STORAGE_ELEMENT),
    *_total("read_calls", "calls", "requests to the storage", FILE, STORAGE_ELEMENT),
    *_total("baskets", "baskets", "baskets read", FILE, BRANCH),
    *_total("compressed_bytes", "B", "bytes of baskets on disk", FILE, BRANCH),
    *_total("plain_bytes", "B", "bytes of baskets after decompression", FILE, BRANCH),
    *_total("fetch_s", "s", "thread time inside the storage's read calls", FILE, STORAGE_ELEMENT),
    *_total("decompress_s", "s", "thread time in decompressing", FILE, BRANCH),
    *_total("decode_s", "s", "thread time in decoding", FILE, BRANCH),
    Sensor("open_s", "s", (FILE,), "time to open: header, keys, streamer info, description of the tree"),
    Sensor("late_reads", "reads", (FILE,), "reads of columns outside of the plan"),
    Sensor("files", "files", (STORAGE_ELEMENT,), "files read from it"),
    _phase("start", "starting processes, loading wagons"),
    _phase("plan", "looking at the dataset and cutting it"),
    _phase("warmup", "imports, and compilation by numba, in the first chunks of workers"),
    _phase("wait", "waiting for the storage"),
    _phase("decompress", "waiting for decompression"),
    _phase("decode", "waiting for decoding, making arrays"),
    _phase("wagons", "in wagons"),
    _phase("merge", "adding up results"),
    _phase("write", "writing results"),
    _phase("idle", "workers without a sub-job"),
    _phase("lost", "in workers that were lost, until others took their places"),
    _phase("other", "everything else that Branchline does"),
)


def rows_of(job: JobRecord) -> list[SensorRow]:
    """The values of all sensors of a job, without those that were not measured."""
    return list(_rows(job))


def _rows(job: JobRecord) -> Iterator[SensorRow]:
    for scope in SCOPES:
        for name, record in _records(job, scope):
            for sensor in SENSORS:
                value = sensor.value_in(record) if scope in sensor.scopes else None
                if value is not None:
                    yield SensorRow(scope, name, sensor.name, float(value), sensor.unit)


def _records(job: JobRecord, scope: str) -> Iterator[tuple[str, object]]:
    if scope == JOB:
        yield "", job
        return
    listed, key = _LISTS[scope]
    for record in getattr(job, listed):
        yield str(getattr(record, key)), record
