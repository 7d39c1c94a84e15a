"""What of a job's record says that clusters are too large: baskets are unpacked again and again, or by one worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from branchline.base.quantities import counted, percent, size
from branchline.records.diagnosis.advice import MANAGER
from branchline.records.diagnosis.figures import phase_s
from branchline.records.diagnosis.ideas import Idea, inputs_words
from branchline.records.sensors.record import FileRecord, JobRecord

#: Clusters that a rewrite makes, as bytes in the file and as an option.
CLUSTER_BYTES = 30_000_000
CLUSTER_OPTION = f"--cluster-bytes '{CLUSTER_BYTES // 1_000_000} MB'"
#: Chunks end within baskets, which are then unpacked for both: up to this it is usual.
UNPACKED_AGAIN = 1.5
#: A file in so many parts is large enough to keep all workers busy, if it can be cut.
PARTS_MIN = 3
#: The busiest worker has all of a file if the file took this part of its time, or up to that.
ALL_OF_IT = (0.7, 1.2)
#: ... and others had nothing to do for this part of the time.
IDLE_MIN = 0.1


def cluster_ideas(job: JobRecord) -> Iterator[Idea]:
    """The idea to make clusters smaller, by the record alone: what is unpacked is more than all of a file."""
    words = too_large_words(job, {one.path: one.size_bytes or 0 for one in job.files})
    if words is None:
        return
    paths = [one.path for one in job.dataset] or [one.path for one in job.files]
    change = f"branchline merge {inputs_words(paths)} -o clusters.root {CLUSTER_OPTION} --verify"
    stored = size(sum(one.size_bytes or 0 for one in job.files))
    cost = f"{stored} are read and written, once, with CPU to compress"
    wanted = {one.path: one.size_bytes or 0 for one in job.files}
    yield Idea("layout-clusters", words, change, seconds_unpacked_once(job, wanted), cost, MANAGER)


def too_large_words(job: JobRecord, wanted: Mapping[str, int]) -> str | None:
    """What shows that clusters are too large, in words; None if nothing does. ``wanted`` are the bytes of each file
    that a job needs, or more.
    """
    said = []
    times = unpacked_times(job, wanted)
    if times > UNPACKED_AGAIN:
        said.append(f"baskets are unpacked {times:.2g} times each: they are larger than what memory has room for")
    one = unshared_file(job)
    if one is not None:
        said.append(
            f"{counted(one.subjobs, 'sub-job')} were to share {one.path}, and one worker read all of it: it has too "
            f"few clusters to be cut, and workers waited {percent(phase_s(job, 'idle'), job.wall_s)} of the time"
        )
    return "; ".join(said) or None


def unpacked_times(job: JobRecord, wanted: Mapping[str, int]) -> float:
    """How often baskets were unpacked, of those files of which any was unpacked more often than once."""
    again = [one for one in job.files if one.compressed_bytes > UNPACKED_AGAIN * wanted.get(one.path, 0) > 0]
    return sum(one.compressed_bytes for one in again) / max(1, sum(wanted[one.path] for one in again))


def unshared_file(job: JobRecord) -> FileRecord | None:
    """The file that was cut into parts, all of which one worker had: the others found no border in it."""
    busiest_s = max((row.wall_s - row.idle - row.start for row in job.worker_phases), default=0.0)
    longest = max(job.files, key=lambda one: one.wall_s, default=None)
    if len(job.worker_phases) < 2 or longest is None or longest.subjobs < PARTS_MIN or busiest_s <= 0:
        return None
    part = longest.wall_s / busiest_s
    is_alone = ALL_OF_IT[0] <= part <= ALL_OF_IT[1] and phase_s(job, "idle") > IDLE_MIN * job.wall_s
    return longest if is_alone else None


def seconds_unpacked_once(job: JobRecord, wanted: Mapping[str, int]) -> float:
    """The wall time if each basket were unpacked once, and workers shared the files that one had alone."""
    rows = job.worker_phases
    if not rows:
        return job.wall_s
    unpacked = sum(one.compressed_bytes for one in job.files)
    more = sum(
        one.compressed_bytes - wanted[one.path]
        for one in job.files
        if one.compressed_bytes > UNPACKED_AGAIN * wanted.get(one.path, 0) > 0
    )
    part = 1 - more / max(1, unpacked)
    busy_s = [
        row.plan + row.wagons + row.merge + row.other + row.decode + part * (row.wait + row.decompress) for row in rows
    ]
    outside_s = job.wall_s - rows[0].wall_s
    then_s = sum(busy_s) / len(rows) if unshared_file(job) else max(busy_s)
    return min(job.wall_s, outside_s + max(row.start for row in rows) + then_s)
