"""Changes that would make a job faster, with estimates from the record of the job alone.

Each function returns an empty text if its change would save too little, or if the record lacks the figures.
"""

from __future__ import annotations

import math

from branchline.quantities import count, counted, duration, significant, size
from branchline.report.records import phase_s
from branchline.sensors.record import JobRecord

#: A remedy has to save this part of the wall time to be named.
WORTH_SAVING = 0.1
#: Seconds to start a worker: Python, awkward, hist and the user's imports.
WORKER_START_S = 1.0
#: Decompressed bytes per second on one core of a server, measured with the demo's collisions.
ZSTD_BYTES_PER_S = 1.0e9
#: Approximate seconds for writing results and records without pictures.
RECORDS_S = 1.0
#: From this share of the decompression time on, a sentence treats a codec as the only one.
SINGLE_CODEC_SHARE = 0.95
#: Other programs are named if they use this share of the cores, and this share of the cores is busy.
OTHERS_SHARE, FULL_SHARE = 0.2, 0.85
#: For smaller files and chunks the fixed cost of each is higher than that of their content.
SMALL_FILE_BYTES, SMALL_CHUNK_EVENTS = 4_000_000, 500
#: Size of the files that small ones should be merged into.
MERGED_FILE_BYTES = 100_000_000


def about(seconds: float) -> str:
    """Return an estimated time with two digits."""
    return f"about {duration(float(f'{max(0.0, seconds):.2g}'), 2)}"


def instead(job: JobRecord, seconds: float) -> str:
    """Return an estimated time and that of the job; empty if it is hardly shorter."""
    wall_s = job.wall_s
    return f"{about(seconds)} instead of {duration(wall_s)}" if seconds < (1 - WORTH_SAVING) * wall_s else ""


def others_cores(job: JobRecord) -> float:
    """Return how many cores other programs used while the job ran; 0 if some cores were free."""
    wall_s, machine_s, cores = job.wall_s, (job.machine_cpu_s or 0), (job.machine_cpu_count or 0)
    if wall_s <= 0 or cores <= 0 or machine_s < FULL_SHARE * cores * wall_s:
        return 0.0
    others = (machine_s - job.cpu_s) / wall_s
    return others if others > OTHERS_SHARE * cores else 0.0


def other_programs(job: JobRecord) -> str:
    """Return how many cores other programs used, if that slowed the job."""
    cores = others_cores(job)
    if not cores:
        return ""
    return f"other programs used {significant(cores, 2)} of the {count(job.machine_cpu_count or 0)} cores"


def more_workers(job: JobRecord, *, cores_needed: bool = True) -> str:
    """Return the time with a worker for each core, or with twice the workers if these need no cores."""
    workers, cores = job.workers or 1, job.cpu_count or 1
    wanted = cores if cores_needed else 2 * workers
    wanted = min(wanted, job.subjobs or wanted)
    if wanted <= workers or (cores_needed and others_cores(job)):
        return ""
    time = instead(job, seconds_with(job, wanted))
    return f"{wanted} workers would take {time}" if time else ""


def one_worker(job: JobRecord) -> str:
    """Return the time with a single worker, if it is not longer."""
    seconds, wall_s = seconds_with(job, 1), job.wall_s
    if job.workers < 2 or seconds > wall_s:
        return ""
    return f"1 worker would take {instead(job, seconds) or 'no longer'}"


def without_pictures(job: JobRecord) -> str:
    """Return the time of the job without pictures, if these take a large part of it."""
    pictures = sum(1 for result in job.results if result.picture)
    if not pictures:
        return ""
    time = instead(job, job.wall_s - phase_s(job, "write") + RECORDS_S)
    return f"without its {counted(pictures, 'picture')} (--pictures none) it would take {time}" if time else ""


def seconds_with(job: JobRecord, workers: int) -> float:
    """Estimate the wall time with another number of workers on the same cores.

    Assumption: workers share the time of wagons and of Python. The times of decompressing, decoding, waiting for the
    storage, and outside of the workers stay the same.
    """
    rows = job.worker_phases
    if not rows:
        return job.wall_s
    outside_s = job.wall_s - float(rows[0].wall_s or 0.0)
    shared_s = sum(getattr(row, name) for row in rows for name in ("plan", "wagons", "merge", "other"))
    same_s = sum(getattr(row, name) for row in rows for name in ("wait", "decompress", "decode")) / len(rows)
    # Several workers that start at once slow each other.
    start_s = WORKER_START_S if workers == 1 else max(WORKER_START_S, *(row.start for row in rows))
    return float(outside_s + start_s + shared_s / workers + same_s)


def recompressed(job: JobRecord, codec: str, plain_bytes: float, decompress_s: float) -> str:
    """Return the time with the same data in zstd."""
    if decompress_s <= 0 or plain_bytes <= 0:
        return ""
    if others_cores(job):
        return f"the same data in zstd would decompress at about {size(ZSTD_BYTES_PER_S)}/s a core"
    kept = plain_bytes / ZSTD_BYTES_PER_S / decompress_s
    of_codec = decompress_s / max(job.totals.decompress_s, decompress_s)
    time = instead(job, job.wall_s - phase_s(job, "decompress") * of_codec * max(0.0, 1 - kept))
    which = "" if of_codec > SINGLE_CODEC_SHARE else f" from {codec}"
    return f"recompressed{which} to zstd it would take {time}" if time else ""


def merged_files(job: JobRecord, small_bytes: float = SMALL_FILE_BYTES) -> str:
    """Return into how many files those of less than ``small_bytes`` on average could be merged."""
    files = job.files
    all_bytes = sum(file.size_bytes or 0 for file in files)
    if len(files) < 10 or all_bytes / len(files) > small_bytes:
        return ""
    wanted = max(1, math.ceil(all_bytes / MERGED_FILE_BYTES))
    return f"merging the {counted(len(files), 'file')} of {size(all_bytes / len(files))} into {wanted} would help most"


def small_chunks(job: JobRecord) -> str:
    """Return the number and size of chunks, if these are so small that calls cost more than events."""
    chunks = sum(wagon.chunks for wagon in job.wagons)
    events = sum(wagon.events for wagon in job.wagons)
    if chunks < 100 or events / chunks > SMALL_CHUNK_EVENTS:
        return ""
    return f"{counted(int(chunks), 'chunk')} of only {counted(round(events / chunks), 'event')} each"
