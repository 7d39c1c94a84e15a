"""The list of all sensors: each quantity measured for a job, its unit, and its location in the job's record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Real

from branchline.records.sensors.record import JobRecord

JOB, FILE, STORAGE_ELEMENT, WAGON, BRANCH = "job", "file", "storage_element", "wagon", "branch"
SCOPES = (JOB, FILE, STORAGE_ELEMENT, WAGON, BRANCH)

# For each scope: the field of the job's record that lists its objects, and the field with an object's name.
_LISTS = {FILE: ("files", "path"), STORAGE_ELEMENT: ("storage_elements", "name"), WAGON: ("wagons", "name")}
_LISTS |= {BRANCH: ("branches", "name")}


@dataclass(frozen=True)
class Sensor:
    """A measured quantity. ``key`` is its path in the record of the job, file, storage element, wagon or branch."""

    name: str
    unit: str
    scopes: tuple[str, ...]
    description: str
    key: tuple[str, ...] = ()

    def value_in(self, record: object) -> object:
        """Return the quantity's value in a record, or None if the record does not have it."""
        found = record
        for key in self.key or (self.name,):
            found = found.get(key) if isinstance(found, Mapping) else getattr(found, key, None)
        return found


@dataclass(frozen=True)
class SensorRow:
    """The value of a sensor for the job, or for the file, storage element, wagon or branch with the given name."""

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
    Sensor("wall_s", "s", (JOB, FILE), "wall time; for a file, the time spent waiting for and processing its chunks"),
    Sensor(
        "cpu_s", "s", (JOB, WAGON), "CPU time; for a job, of all threads of all processes, for a wagon, of its thread"
    ),
    Sensor("core_wait_s", "s", (WAGON,), "time in process() spent ready to run while other threads occupied the cores"),
    Sensor("python_lines_per_event", "lines", (WAGON,), "lines of the user's Python code executed for each event"),
    Sensor("machine_cpu_s", "s", (JOB,), "CPU time of all programs on this machine during the job, including the job"),
    Sensor("machine_iowait_s", "s", (JOB,), "time of idle cores of this machine while a program waited for a disk"),
    Sensor("machine_received_bytes", "B", (JOB,), "bytes that this machine received over the network, of all programs"),
    Sensor("memory_peak_bytes", "B", (JOB,), "peak resident memory, summed over the processes"),
    Sensor("events", "events", (JOB, FILE, WAGON), "events passed to wagons"),
    Sensor("seconds", "s", (WAGON,), "wall time in process(), without waiting for columns"),
    Sensor("chunks", "chunks", (WAGON,), "chunks processed"),
    Sensor("misses", "reads", (WAGON,), "columns read late because they were not planned"),
    Sensor("output_bytes", "B", (WAGON,), "size of the pickled result"),
    *_total("bytes_asked", "B", "bytes that were needed", FILE),
    *_total("bytes_read", "B", "bytes that the storage delivered", FILE, STORAGE_ELEMENT),
    *_total("cached_bytes", "B", "bytes read from a cache or a staged copy on this machine", FILE, STORAGE_ELEMENT),
    *_total("read_calls", "calls", "requests to the storage", FILE, STORAGE_ELEMENT),
    *_total("baskets", "baskets", "baskets read", FILE, BRANCH),
    *_total("compressed_bytes", "B", "bytes of baskets on disk", FILE, BRANCH),
    *_total("plain_bytes", "B", "bytes of baskets after decompression", FILE, BRANCH),
    *_total("fetch_s", "s", "thread time in read calls to the storage", FILE, STORAGE_ELEMENT),
    *_total("decompress_s", "s", "thread time in decompression", FILE, BRANCH),
    *_total("decode_s", "s", "thread time in decoding", FILE, BRANCH),
    Sensor("open_s", "s", (FILE,), "time to open: header, keys, streamer info, tree metadata"),
    Sensor("late_reads", "reads", (FILE,), "reads of columns outside of the plan"),
    Sensor("files", "files", (STORAGE_ELEMENT,), "files read from it"),
    _phase("start", "starting processes, loading wagons"),
    _phase("plan", "inspecting and partitioning the dataset"),
    _phase("warmup", "imports, and compilation by numba, in the first chunks of workers"),
    _phase("wait", "waiting for the storage"),
    _phase("decompress", "waiting for decompression"),
    _phase("decode", "waiting for decoding, making arrays"),
    _phase("wagons", "in wagons"),
    _phase("merge", "merging results"),
    _phase("write", "writing results"),
    _phase("idle", "workers without a sub-job"),
    _phase("lost", "in workers that were lost, until they were replaced"),
    _phase("other", "everything else that Branchline does"),
)


def rows_of(job: JobRecord) -> list[SensorRow]:
    """Return the values of all sensors for a job, except quantities that were not measured."""
    rows = []
    for scope in SCOPES:
        for name, record in _records(job, scope):
            for sensor in SENSORS:
                value = sensor.value_in(record) if scope in sensor.scopes else None
                if isinstance(value, Real):
                    rows.append(SensorRow(scope, name, sensor.name, float(value), sensor.unit))
    return rows


def _records(job: JobRecord, scope: str) -> Iterator[tuple[str, object]]:
    if scope == JOB:
        yield "", job
        return
    listed, key = _LISTS[scope]
    for record in getattr(job, listed):
        yield str(getattr(record, key)), record
