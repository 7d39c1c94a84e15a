"""Compare the reads of a job with those of the reference job at the same storage element and type of worker.

The quantity that is comparable is the number of bytes per second of reading time, the thread time in read calls: it
includes neither decompression nor the analysis. Jobs are not compared if they read in another way than the reference
job, or in requests of another size.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from branchline.base.quantities import MB, counted, significant
from branchline.control.watched_storages import WatchedStorage, WatchSchedule
from branchline.lab.studies.history import ReferencePoint, counted_points
from branchline.reading.access import PLANNED
from branchline.reading.datasets.elements import server_of
from branchline.records.sensors.record import JobRecord, StorageRecord

#: Maximum time between a turn of the reference job and the start of a job.
RECENT = timedelta(days=7)
#: Minimum reading time in seconds and minimum number of bytes of a job, below which its rate says little.
FETCH_TELLING_S, BYTES_TELLING = 1.0, 100 * MB
#: Maximum ratio of the mean sizes of the requests of the job and of the reference job: where each request waits for the
#: server, a rate may be proportional to the size of requests.
REQUEST_TIMES_MAX = 2.0


def beside_reference(record: JobRecord, schedules: Sequence[WatchSchedule]) -> list[str]:
    """Return a sentence for each storage element at which the job can be compared with the reference job."""
    processors = {one.processor for one in record.worker_phases}
    is_usual = record.access.mode == PLANNED.mode and not record.access.chosen()
    if not is_usual or not processors or "" in processors:
        return []
    watched = [one for schedule in schedules for one in schedule.storages if one.reference is not None]
    found = []
    for element in record.storage_elements:
        if element.fetch_s < FETCH_TELLING_S or element.bytes_read < BYTES_TELLING or element.cached_bytes:
            continue
        points = {one: _recent(watched, element.name, one, record.started) for one in processors}
        if all(points.values()):
            turns = [point for each in points.values() for point in each]
            found += _sentence(element, turns, len(record.worker_phases))
    return found


def _recent(watched: Sequence[WatchedStorage], element: str, processor: str, started: str) -> list[ReferencePoint]:
    """Return the turns of the reference job at a storage element with a processor, around the start of a job."""
    try:
        begin = datetime.fromisoformat(started)
    except ValueError:
        return []
    begin = begin.replace(tzinfo=begin.tzinfo or UTC)
    return [
        point.reference
        for one in watched
        if _is_at(one.storage, element)
        for point in counted_points(one.turns)
        if point.processor == processor and abs(point.moment - begin) <= RECENT
        if point.reference is not None
        if (point.reference.fetch_bytes_per_s or 0.0) > 0 and (point.reference.call_bytes or 0.0) > 0
    ]


def _is_at(location: str, element: str) -> bool:
    """Return whether a path or URL belongs to a storage element, which is a server or a listed prefix of locations.

    All local paths without a listed prefix have the same storage element, so none of them belongs to it.
    """
    is_server = "://" in location and server_of(location) == element
    return bool(element) and (is_server or f"{location}/".startswith(f"{element.rstrip('/')}/"))


def _sentence(element: StorageRecord, turns: Sequence[ReferencePoint], workers: int) -> list[str]:
    call_bytes = statistics.median(one.call_bytes or 0.0 for one in turns)
    times = call_bytes / (element.bytes_read / max(element.read_calls, 1))
    if not 1 / REQUEST_TIMES_MAX <= times <= REQUEST_TIMES_MAX:
        return []
    own = significant(element.bytes_read / element.fetch_s / MB)
    usual = significant(statistics.median(one.fetch_bytes_per_s or 0.0 for one in turns) / MB)
    return [
        f"This job read {own} MB per second of reading time from {element.name} with {counted(workers, 'worker')};"
        f" the reference job reads {usual} MB/s there, alone, on the same type of processor"
        f" ({counted(len(turns), 'turn')} in the same week)"
    ]
