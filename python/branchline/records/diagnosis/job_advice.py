"""Advice for a job from its record alone: no file is opened, so that the report of a job may have it at once.

`branchline advise JOB` looks at the files too, and plans their requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from branchline.base.quantities import count, counted, duration, percent, size
from branchline.records.diagnosis.advice import ANALYST, SITE, Advice
from branchline.records.diagnosis.causes import learns, long_file, name_text, returns_much
from branchline.records.diagnosis.figures import other_programs, others_cores, phase_s
from branchline.records.diagnosis.ideas import Idea, chosen, names_words
from branchline.records.diagnosis.record_clusters import cluster_ideas, unshared_file
from branchline.records.diagnosis.record_reading import reading_ideas
from branchline.records.sensors.record import JobRecord

#: Seconds to start a worker: Python, awkward, hist and the user's imports.
WORKER_START_S = 1.0
#: Approximate seconds for writing results and records without pictures.
RECORDS_S = 1.0
#: Pictures are wanted: they are only worth a sentence where writing takes this part of the time.
PICTURES_SHARE = 0.3
#: A wagon that takes this part of the time of all delays the others.
HEAVY_SHARE = 0.75
#: Adding up histograms takes this part of the time of adding up large arrays, at most.
SMALL_OUTPUTS = 0.1
#: A wagon that waits uses less of its core than this.
WAITS = 0.5
#: Lost workers for each sub-job: above it the times of a job say nothing about those of the next.
LOST_SHARE = 0.01
#: Jobs of which less than this went into the data say nothing about what would help with more.
MEANINGFUL_DATA_S = 0.5


def advise_job(job: JobRecord) -> list[Advice]:
    """What would make a job faster, the largest gain first; empty where nothing is known to help."""
    if not job.events or job.wall_s <= 0 or _all_stopped(job) or _lost_much(job):
        return []
    return chosen(_ideas(job), job.wall_s)


def advise_jobs(jobs: Sequence[JobRecord]) -> list[Advice]:
    """What would make several jobs faster: one train with all their wagons, if they read the same files."""
    first = {(one.path, one.tree) for one in jobs[0].dataset} if jobs else set()
    if len(jobs) < 2 or not first or any({(one.path, one.tree) for one in job.dataset} != first for job in jobs):
        return []
    now_s = sum(job.wall_s for job in jobs)
    return chosen(_joined(jobs), now_s)


def _ideas(job: JobRecord) -> Iterator[Idea]:
    kinds: list[Callable[[JobRecord], Iterator[Idea]]] = [_fewer_workers, _pictures]
    if job.wall_s - phase_s(job, "start") - phase_s(job, "write") >= MEANINGFUL_DATA_S:
        kinds += [_workers, _threads, reading_ideas, cluster_ideas, _heavy_wagon, _outputs, _balance, _cores]
    for ideas in kinds:
        yield from ideas(job)


def _all_stopped(job: JobRecord) -> bool:
    return bool(job.wagons) and all(one.error for one in job.wagons)


def _lost_much(job: JobRecord) -> bool:
    """Return whether so many workers were lost that the times of the job are those of its repeated sub-jobs."""
    return len(job.workers_lost) > LOST_SHARE * job.subjobs


# --- workers and machines ---------------------------------------------------------------------------------------------


def _workers(job: JobRecord) -> Iterator[Idea]:
    workers, cores = job.workers or 1, job.cpu_count or 1
    wagons_s = sum(one.seconds for one in job.wagons)
    busy = sum(one.cpu_s for one in job.wagons) / wagons_s if wagons_s > 0 else 1.0
    waited = sum(one.core_wait_s for one in job.wagons) / wagons_s if wagons_s > 0 else 0.0
    # Wagons that wait for something outside need no core for that.
    waits = busy < WAITS and waited < WAITS and phase_s(job, "wagons") > 0.5 * job.wall_s
    wanted = 2 * workers if waits else cores
    wanted = min(wanted, job.subjobs or wanted)
    if wanted <= workers or (others_cores(job) and not waits):
        return
    what = f"{counted(workers, 'worker')} on {counted(cores, 'core')}"
    if waits:
        what += f", and wagons that use {percent(max(0.0, busy), 1)} of a core while they run"
    cost = f"memory of {wanted - workers} more processes, each time"
    yield Idea("workers", what, f"--workers {wanted}", seconds_with(job, wanted), cost, ANALYST)


def _fewer_workers(job: JobRecord) -> Iterator[Idea]:
    if job.workers > 1:
        what = f"starting {job.workers} workers took {duration(phase_s(job, 'start'))} of {duration(job.wall_s)}"
        if 0 < job.subjobs < job.workers:
            what = f"there were {counted(job.subjobs, 'sub-job')} for {counted(job.workers, 'worker')}"
        yield Idea("workers-fewer", what, "--workers 1", seconds_with(job, 1), "nothing", ANALYST)


def _threads(job: JobRecord) -> Iterator[Idea]:
    """Fewer workers where their decoding threads would use cores that no worker gets: a worker has as many threads as
    there are cores for it, and the rest of that division has nothing to do.
    """
    wanted = workers_for_threads(job.workers, job.threads, job.cpu_count or 1)
    if wanted is None or others_cores(job):
        return
    threads = (job.cpu_count or 1) // wanted
    what = threads_words(job, job.cpu_count or 1)
    cost = f"{counted(wanted, 'process', 'processes')} with {counted(threads, 'thread')} each in place of {job.workers}"
    yield Idea("workers-threads", what, f"--workers {wanted}", seconds_with(job, wanted), cost, ANALYST)


def workers_for_threads(workers: int, threads: int, cores: int) -> int | None:
    """The largest number below that of now with which all workers have more decoding threads together; None if there
    is none, or the number of threads was not recorded.
    """
    if threads < 1:
        return None
    return next((one for one in range(workers - 1, 0, -1) if one * (cores // one) > workers * threads), None)


def threads_words(job: JobRecord, cores: int) -> str:
    """How many threads decode, and how long."""
    unpack_s = phase_s(job, "decompress") + phase_s(job, "decode")
    what = (
        f"{counted(job.workers, 'worker')} with {counted(job.threads, 'decoding thread')} each on {count(cores)} cores"
    )
    return f"{what}, and decompressing and decoding take {percent(unpack_s, job.wall_s)} of the time"


def seconds_with(job: JobRecord, workers: int) -> float:
    """Estimate the wall time with another number of workers on the same cores.

    Assumption: workers share the time of wagons and of Python, and the decoding threads of all of them that of
    decompressing and decoding. The times of waiting for the storage, and outside of the workers, stay the same.
    """
    rows = job.worker_phases
    if not rows:
        return job.wall_s
    outside_s = job.wall_s - float(rows[0].wall_s or 0.0)
    shared_s = sum(getattr(row, name) for row in rows for name in ("plan", "wagons", "merge", "other"))
    wait_s, unpack_s = (
        sum(getattr(row, name) for row in rows for name in names) / len(rows)
        for names in (("wait",), ("decompress", "decode"))
    )
    if job.threads:
        unpack_s *= len(rows) * job.threads / (workers * max(1, (job.cpu_count or 1) // workers))
    # Several workers that start at once slow each other.
    start_s = WORKER_START_S if workers == 1 else max(WORKER_START_S, *(row.start for row in rows))
    # Each worker warms up by itself.
    warm_up_s = sum(row.warmup for row in rows) / len(rows)
    return float(outside_s + start_s + warm_up_s + shared_s / workers + wait_s + unpack_s)


def _cores(job: JobRecord) -> Iterator[Idea]:
    others = other_programs(job)
    waited_s = sum(one.core_wait_s for one in job.wagons)
    wagons_s = sum(one.seconds for one in job.wagons)
    if not others or wagons_s <= 0:
        return
    saved_s = phase_s(job, "wagons") * min(1.0, waited_s / wagons_s)
    what = f"{others}, and wagons waited for a core for {percent(min(waited_s, wagons_s), wagons_s)} of their time"
    change = "run it where cores are free: --on slurm, --on htcondor, or another machine"
    yield Idea("cores", what, change, job.wall_s - saved_s, "a place with free cores, each time", SITE)


# --- wagons and results -----------------------------------------------------------------------------------------------


def _pictures(job: JobRecord) -> Iterator[Idea]:
    pictures = sum(1 for result in job.results if result.picture)
    if pictures and phase_s(job, "write") > max(RECORDS_S, PICTURES_SHARE * job.wall_s):
        what = f"{counted(pictures, 'picture')} in {duration(phase_s(job, 'write'))} of writing"
        then_s = job.wall_s - phase_s(job, "write") + RECORDS_S
        yield Idea("pictures", what, "--pictures none", then_s, "no pictures; results.root has the same", ANALYST)


def _heavy_wagon(job: JobRecord) -> Iterator[Idea]:
    wagons = sorted(job.wagons, key=lambda one: -one.seconds)
    total_s = sum(one.seconds for one in wagons)
    if len(wagons) < 2 or total_s <= 0 or wagons[0].seconds < HEAVY_SHARE * total_s:
        return
    heavy, others = wagons[0], len(wagons) - 1
    alone_s = phase_s(job, "wagons") * heavy.seconds / total_s
    what = f"{name_text(heavy.name)} takes {percent(heavy.seconds, total_s)} of the time of {len(wagons)} wagons"
    change = f"run {name_text(heavy.name)} alone, with its name behind the file of wagons: WAGONS.py:NAME"
    cost = f"the data are read twice; it saves the time of the {counted(others, 'other wagon')}, not of this one"
    yield Idea("train-split", what, change, job.wall_s - alone_s, cost, ANALYST)


def _outputs(job: JobRecord) -> Iterator[Idea]:
    if not returns_much(job):
        return
    largest = max(job.wagons, key=lambda one: one.output_bytes)
    spent_s = phase_s(job, "merge") + phase_s(job, "write")
    what = f"{name_text(largest.name)} returns {size(largest.output_bytes)}, and merging and writing take "
    what += f"{percent(spent_s, job.wall_s)} of the time"
    kinds = {one.kind for one in job.results if one.wagon == largest.name}
    change = "return histograms in place of arrays, or a branchline.Table: sub-jobs write its rows to files"
    if kinds == {"histogram"}:
        change = "fill histograms with fewer bins or axes, or with sparse ones where most bins stay empty"
    yield Idea("outputs", what, change, job.wall_s - (1 - SMALL_OUTPUTS) * spent_s, "a change of the wagon", ANALYST)


def _joined(jobs: Sequence[JobRecord]) -> Iterator[Idea]:
    own_s = sum(phase_s(job, "wagons") + phase_s(job, "merge") + phase_s(job, "write") for job in jobs)
    others_s = [job.wall_s - phase_s(job, "wagons") - phase_s(job, "merge") - phase_s(job, "write") for job in jobs]
    read = sum(job.totals.bytes_read + job.totals.cached_bytes for job in jobs)
    what = f"{count(len(jobs))} jobs read the same {counted(len(jobs[0].dataset), 'file')}, {size(read)} together"
    files = ", ".join(dict.fromkeys(one.path for job in jobs for one in job.sources))
    change = f"run the wagons of all in one train{': import those of ' if files else ''}{files}"
    change += " into one file" if files else ""
    # The longest reading is what all of them need; branches that only others want come on top.
    then_s = own_s + max(others_s)
    yield Idea("train-joined", what, change, then_s, "results of all come at the same time", ANALYST)


def _balance(job: JobRecord) -> Iterator[Idea]:
    busy_s = sorted(row.wall_s - row.idle for row in job.worker_phases)
    if len(busy_s) < 2 or 0 < job.subjobs < job.workers:
        return
    spread = f"the busiest of {len(busy_s)} workers had work for {duration(busy_s[-1])}, the least busy for "
    spread += duration(busy_s[0])
    then_s = job.wall_s - phase_s(job, "idle")
    longest = long_file(job, busy_s[-1])
    # Whoever has a file that cannot be cut, and whenever: it stays with one worker.
    if longest is None or unshared_file(job) is not None:
        return
    name = name_text(str(longest.path).rpartition("/")[2])
    if learns(job, longest):
        what = f"the branches were learned on {name} for {duration(longest.wall_s)} while other workers waited"
        change = f"--branches {names_words(one.name for one in job.branches)}"
        yield Idea("branches", what, change, then_s, "nothing", ANALYST)
        return
    what = f"{spread}: {duration(longest.wall_s)} of it went into {name} alone"
    change = f"list {name} first, or give it in parts of entries: --step-size with fewer entries"
    yield Idea("balance", what, change, then_s, "nothing", ANALYST)
