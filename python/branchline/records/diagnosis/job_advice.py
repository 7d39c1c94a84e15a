"""Advice based only on a job's record: no files are opened, so that the report can show the advice at once.

The record shows workers that mostly start or wait, files and access modes that slowed down the job, expensive wagons
and results, and clusters that are too large (their baskets are decompressed repeatedly, or by a single worker).
`branchline advise JOB` also inspects the files and plans their requests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from branchline.base.codecs import CODECS, DEFAULT_CODEC
from branchline.base.quantities import MB, count, counted, duration, percent, rate, size
from branchline.records.diagnosis.advice import (
    ANALYST,
    CACHE_OPTION,
    MANAGER,
    SITE,
    Advice,
    Idea,
    chosen,
    inputs_words,
    names_words,
    tree_words,
)
from branchline.records.diagnosis.diagnosis import learns, long_file, name_text, returns_much
from branchline.records.diagnosis.figures import (
    codec_name,
    delivered_bytes,
    files_read,
    other_programs,
    others_cores,
    phase_s,
    small_chunks,
    unwanted_bytes,
)
from branchline.records.sensors.record import FileRecord, JobRecord, StorageRecord

#: Minimum seconds of work on the data: shorter jobs do not predict what would speed up larger ones.
MEANINGFUL_DATA_S = 0.5
#: If a job lost more workers per sub-job than this, its times do not predict the times of the next job.
LOST_SHARE = 0.01


def advise_job(job: JobRecord) -> list[Advice]:
    """Return advice that makes the job faster, the largest gain first; empty if nothing in the record suggests any."""
    if not job.events or job.wall_s <= 0 or (job.wagons and all(one.error for one in job.wagons)):
        return []
    if len(job.workers_lost) > LOST_SHARE * job.subjobs:
        # Retries dominate the job's time.
        return []
    kinds: list[Callable[[JobRecord], Iterator[Idea]]] = [_fewer_workers, _pictures]
    if job.wall_s - phase_s(job, "start") - phase_s(job, "write") >= MEANINGFUL_DATA_S:
        kinds += [_workers, _threads, _codec, _small_files, _requests, _copies, _places]
        kinds += [_clusters, _heavy_wagon, _outputs, _balance, _cores]
    return chosen((idea for ideas in kinds for idea in ideas(job)), job.wall_s)


def advise_jobs(jobs: Sequence[JobRecord]) -> list[Advice]:
    """Return advice for several jobs: to run all their wagons in one train, if they read the same files."""
    first = {(one.path, one.tree) for one in jobs[0].dataset} if jobs else set()
    if len(jobs) < 2 or not first or any({(one.path, one.tree) for one in job.dataset} != first for job in jobs):
        return []
    own_s = sum(phase_s(job, "wagons") + phase_s(job, "merge") + phase_s(job, "write") for job in jobs)
    others_s = [job.wall_s - phase_s(job, "wagons") - phase_s(job, "merge") - phase_s(job, "write") for job in jobs]
    read = sum(job.totals.bytes_read + job.totals.cached_bytes for job in jobs)
    what = f"{count(len(jobs))} jobs read the same {counted(len(jobs[0].dataset), 'file')}, {size(read)} together"
    files = ", ".join(dict.fromkeys(one.path for job in jobs for one in job.sources))
    change = f"run the wagons of all jobs in one train{': import the wagons of ' if files else ''}{files}"
    change += " into one file" if files else ""
    # Apart from the wagons, the train takes as long as the slowest job, because it reads each file once. The time
    # for branches that only faster jobs need is not included.
    then_s = own_s + max(others_s)
    joined = Idea("train-joined", what, change, then_s, "the results of all jobs arrive at the same time", ANALYST)
    return chosen([joined], sum(job.wall_s for job in jobs))


# --- workers and machines ---------------------------------------------------------------------------------------------

#: Seconds to start a worker: the Python interpreter, and the imports of awkward, hist and the user's modules.
WORKER_START_S = 1.0
#: A wagon is waiting if it uses less than this fraction of its core.
WAITS = 0.5


def _workers(job: JobRecord) -> Iterator[Idea]:
    workers, cores = job.workers or 1, job.cpu_count or 1
    wagons_s = sum(one.seconds for one in job.wagons)
    busy = sum(one.cpu_s for one in job.wagons) / wagons_s if wagons_s > 0 else 1.0
    waited = sum(one.core_wait_s for one in job.wagons) / wagons_s if wagons_s > 0 else 0.0
    # Wagons that wait for something external do not need a core meanwhile.
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
    """Suggest fewer workers if more cores would then be used for decoding.

    Each worker gets as many decoding threads as the number of cores divided by the number of workers, rounded down; the
    remaining cores are idle.
    """
    wanted = workers_for_threads(job.workers, job.threads, job.cpu_count or 1)
    if wanted is None or others_cores(job):
        return
    threads = (job.cpu_count or 1) // wanted
    what = threads_words(job, job.cpu_count or 1)
    cost = f"{counted(wanted, 'process', 'processes')} with {counted(threads, 'thread')} each in place of {job.workers}"
    yield Idea("workers-threads", what, f"--workers {wanted}", seconds_with(job, wanted), cost, ANALYST)


def workers_for_threads(workers: int, threads: int, cores: int) -> int | None:
    """Return the largest number of workers below ``workers`` with more decoding threads in total.

    Returns None if fewer workers never have more threads, or if the number of threads was not recorded.
    """
    if threads < 1:
        return None
    return next((one for one in range(workers - 1, 0, -1) if one * (cores // one) > workers * threads), None)


def threads_words(job: JobRecord, cores: int) -> str:
    """Describe how many threads decode data, and for how long."""
    unpack_s = phase_s(job, "decompress") + phase_s(job, "decode")
    what = (
        f"{counted(job.workers, 'worker')} with {counted(job.threads, 'decoding thread')} each on {count(cores)} cores"
    )
    return f"{what}, and decompressing and decoding take {percent(unpack_s, job.wall_s)} of the time"


def seconds_with(job: JobRecord, workers: int) -> float:
    """Estimate the wall time with a different number of workers on the same cores.

    The model divides the time of wagons and Python code by the number of workers, and the decompression and decoding
    time by the total number of decoding threads. Waiting for storage, and time outside the workers, stay the same.
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
    # Workers that start at the same time slow each other down.
    start_s = WORKER_START_S if workers == 1 else max(WORKER_START_S, *(row.start for row in rows))
    # More workers do not shorten the warm-up, because each worker has its own.
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
    change = "run the job where cores are free: --on slurm, --on htcondor, or another machine"
    yield Idea("cores", what, change, job.wall_s - saved_s, "free cores elsewhere, each time", SITE)


def _balance(job: JobRecord) -> Iterator[Idea]:
    busy_s = sorted(row.wall_s - row.idle for row in job.worker_phases)
    if len(busy_s) < 2 or 0 < job.subjobs < job.workers:
        return
    spread = f"the busiest of {len(busy_s)} workers had work for {duration(busy_s[-1])}, the least busy for "
    spread += duration(busy_s[0])
    then_s = job.wall_s - phase_s(job, "idle")
    longest = long_file(job, busy_s[-1])
    # A file that cannot be split is read by a single worker, so the order of the files makes no difference.
    if longest is None or _unshared_file(job) is not None:
        return
    name = name_text(str(longest.path).rpartition("/")[2])
    if learns(job, longest):
        what = f"the branches were learned on {name} for {duration(longest.wall_s)} while other workers waited"
        change = f"--branches {names_words(one.name for one in job.branches)}"
        yield Idea("branches", what, change, then_s, "nothing", ANALYST)
        return
    what = f"{spread}: {duration(longest.wall_s)} of it went into {name} alone"
    change = f"list {name} first, or split it into smaller parts: --step-size with fewer entries"
    yield Idea("balance", what, change, then_s, "nothing", ANALYST)


# --- files, codecs, requests and places -------------------------------------------------------------------------------

#: Codecs that decompress more slowly than zstd, in their usual spelling.
SLOW_CODECS = {one.title for one in CODECS if one.is_slow}
#: Decompressed bytes per second that one server core produces with zstd, measured with the demo's collision data.
ZSTD_BYTES_PER_S = 1.0e9
#: Bytes per second that one core compresses with zstd at level 5, measured with the demo's collision data.
COMPRESS_BYTES_PER_S = 60e6
#: Maximum size of a small file, which takes longer to open than to read, in particular over a network.
SMALL_FILE_BYTES = 20_000_000
#: Minimum number of small files for which a merge is suggested.
SMALL_FILES_MIN = 10
#: Target file size when small files are merged.
MERGED_FILE_BYTES = 100_000_000
#: Calls of a wagon that are shorter than this are dominated by the fixed cost of a call.
SHORT_CALL_S = 0.02
#: Fraction of the time in short wagon calls that is saved by larger chunks.
CALL_COST_SHARE = 0.8
#: Read calls smaller than this spend more time on the round trip than on the transfer, on most storage systems.
SMALL_CALL_BYTES = 256_000
#: Size of a planned read, and the number of read calls for a file's metadata.
PLANNED_CALL_BYTES, METADATA_CALLS = 4_000_000, 3
#: Baskets count as small if their mean size is below this.
SMALL_BASKET_BYTES = 4_000
#: A storage system is slower than a disk if it delivers fewer bytes per second than this within a call.
SLOW_BYTES_PER_S = 50e6
#: Throughput of a local disk in bytes per second.
DISK_BYTES_PER_S = 400e6
#: Unneeded bytes are reported if they exceed this fraction; some always lie between the needed baskets.
UNWANTED_SHARE = 0.2


def _codec(job: JobRecord) -> Iterator[Idea]:
    sums: dict[str, list[float]] = {}
    for branch in job.branches:
        each = sums.setdefault(codec_name(branch.codec), [0.0, 0.0])
        each[0] += branch.decompress_s
        each[1] += branch.plain_bytes
    total_s = sum(seconds for seconds, _ in sums.values())
    slow = {name: own for name, own in sums.items() if name in SLOW_CODECS and own[0] > 0 and own[1] > 0}
    if not slow or total_s <= 0:
        return
    codec, (spent_s, plain) = max(slow.items(), key=lambda item: item[1][0])
    kept = plain / ZSTD_BYTES_PER_S / spent_s
    share = spent_s / total_s
    then_s = job.wall_s - phase_s(job, "decompress") * share * max(0.0, 1 - kept)
    what = f"decompressing {codec} takes {percent(share * phase_s(job, 'decompress'), job.wall_s)} of the time, "
    what += f"at {rate(plain, spent_s)} a core"
    what += f", while other programs used {others_cores(job):.2g} cores" if others_cores(job) else ""
    stored = _stored_bytes(job)
    factor = job.totals.plain_bytes / max(1, job.totals.compressed_bytes)
    cpu_s = stored * factor / COMPRESS_BYTES_PER_S
    cost = f"{size(stored)} are rewritten, once, with {duration(cpu_s, 2)} of CPU time; the files grow slightly"
    change = f"branchline recompress {_inputs(job)} -o zstd.root --codec {DEFAULT_CODEC}"
    yield Idea("codec", what, change, then_s, cost, MANAGER)


def _small_files(job: JobRecord) -> Iterator[Idea]:
    files = files_read(job)
    stored = sum(one.size_bytes or 0 for one in files)
    if len(files) < SMALL_FILES_MIN or stored / len(files) > SMALL_FILE_BYTES:
        return
    into = max(1, math.ceil(stored / MERGED_FILE_BYTES))
    left = into / len(files)
    saved_s = phase_s(job, "plan") * (1 - left)
    chunks, wagons_s = sum(one.chunks for one in job.wagons), sum(one.seconds for one in job.wagons)
    what = f"{counted(len(files), 'file')} of {size(stored / len(files))} on average"
    if small_chunks(job) and wagons_s < SHORT_CALL_S * chunks:
        saved_s += (phase_s(job, "wagons") + phase_s(job, "other")) * (1 - left) * CALL_COST_SHARE
        what += f" make {small_chunks(job)}"
    if job.totals.read_calls and job.totals.bytes_read / job.totals.read_calls < SMALL_CALL_BYTES:
        saved_s += phase_s(job, "wait") * (1 - left)
    what += f"; opening them takes {percent(phase_s(job, 'plan'), job.wall_s)} of the time"
    change = f"branchline merge {_inputs(job)} -o merged.root --max-size '{size(MERGED_FILE_BYTES)}' --verify"
    cost = f"{size(stored)} are read and written, once"
    yield Idea("merge", what, change, job.wall_s - saved_s, cost, MANAGER)


def _requests(job: JobRecord) -> Iterator[Idea]:
    """Suggest larger requests if there are many small ones.

    The reason may be the access mode, the buffer of a client or small baskets.
    """
    slowest = _slowest(job)
    if slowest is None or phase_s(job, "wait") <= 0:
        return
    calls = slowest.read_calls
    each = slowest.bytes_read / calls
    wanted = METADATA_CALLS * max(1, slowest.files) + slowest.bytes_read / PLANNED_CALL_BYTES
    what = f"{counted(calls, 'read call')} of {size(each)} to {slowest.name}, {duration(slowest.fetch_s / calls)} each"
    # Larger calls save round trips, but no transfer time.
    transfer_s = slowest.bytes_read / DISK_BYTES_PER_S
    trips = max(0.0, 1 - transfer_s / slowest.fetch_s) * max(0.0, 1 - wanted / calls)
    then_s = job.wall_s - phase_s(job, "wait") * trips
    if job.access.read_ahead is not None:
        asked = max(1, job.totals.bytes_asked)
        what += (
            f", through a buffer of {size(job.access.read_ahead)}: {size(slowest.bytes_read)} read, "
            f"{size(asked)} needed"
        )
        fewer = 1 - min(1.0, asked / max(1, slowest.bytes_read))
        then_s = min(then_s, job.wall_s - phase_s(job, "wait") * fewer)
        yield Idea("access-read-ahead", what, "run without --experiment read-ahead", then_s, "nothing", ANALYST)
    elif job.access.mode in ("plain", "cache"):
        yield Idea("access-planned", what, "--access planned", then_s, "nothing", ANALYST)
    elif each < SMALL_CALL_BYTES and _mean_basket(job) < SMALL_BASKET_BYTES:
        what += f"; the {count(job.totals.baskets)} baskets have {size(_mean_basket(job))} on average"
        change = f"branchline merge {_inputs(job)} -o larger.root --basket-size '256 kB' --verify"
        cost = f"{size(_stored_bytes(job))} are read and written, once, with CPU to compress"
        yield Idea("layout-baskets", what, change, then_s, cost, MANAGER)


def _mean_basket(job: JobRecord) -> float:
    return job.totals.compressed_bytes / job.totals.baskets if job.totals.baskets else math.inf


def _copies(job: JobRecord) -> Iterator[Idea]:
    """Suggest copies of the data: of the needed branches only, or on closer or faster storage."""
    slowest, wait_s = _slowest(job), phase_s(job, "wait")
    if slowest is None:
        return
    read, unwanted = delivered_bytes(job), unwanted_bytes(job)
    if read and unwanted > UNWANTED_SHARE * read:
        what = f"{percent(unwanted, read)} of the {size(read)} read belong to branches that no wagon needs"
        names = names_words(one.name for one in job.branches)
        change = f"branchline slim {_inputs(job)} -o slim.root --branches {names}"
        change += tree_words(one.tree for one in job.dataset)
        cost = f"about {size(job.totals.compressed_bytes)} of disk space, and one pass over the files, once"
        yield Idea("slim", what, change, job.wall_s - wait_s * unwanted / read, cost, MANAGER)
    speed = slowest.bytes_read / slowest.fetch_s
    is_remote = "://" in slowest.name
    # An inefficient access mode has to be fixed first: a copy would only hide it.
    is_planned = job.access.mode in ("planned", "prefetch") and job.access.read_ahead is None
    if job.access.cache_dir or not is_planned or not (is_remote or speed < SLOW_BYTES_PER_S):
        return
    what = f"{slowest.name} has {rate(slowest.bytes_read, slowest.fetch_s)} within a call, and waiting for it takes "
    what += f"{percent(wait_s, job.wall_s)} of the time"
    then_s = job.wall_s - wait_s * (1 - min(1.0, speed / DISK_BYTES_PER_S))
    if is_remote:
        cost = f"{size(read)} of disk space; the first run is not faster"
        yield Idea("near-cache", what, CACHE_OPTION, then_s, cost, ANALYST)
    else:
        cost = f"{size(_stored_bytes(job))} on a faster disk, copied once"
        yield Idea("near-copy", what, "copy the files to a faster disk and run there", then_s, cost, MANAGER)


def _places(job: JobRecord) -> Iterator[Idea]:
    """Suggest storing remotely read data locally, if local storage is much faster."""
    near = [one for one in job.sites if one.nearness != "elsewhere" and one.fetch_s > 0 and one.bytes_read]
    far = [one for one in job.sites if one.nearness == "elsewhere" and one.fetch_s > 0 and one.bytes_read]
    if not near or not far:
        return
    near_speed, far_speed = (
        sum(one.bytes_read for one in each) / sum(one.fetch_s for one in each) for each in (near, far)
    )
    fetch_s = sum(one.fetch_s for one in (*near, *far))
    lost = sum(one.fetch_s for one in far) * max(0.0, 1 - far_speed / near_speed) / fetch_s
    element = max(far, key=lambda one: one.fetch_s).storage_element
    what = f"{counted(sum(one.files for one in far), 'file')} came from other sites, such as {element}, at "
    what += f"{size(far_speed)}/s, and local files at {size(near_speed)}/s"
    change = f"branchline locate {_inputs(job)} > located.json"
    then_s = job.wall_s - phase_s(job, "wait") * lost
    cost = "one request to the servers per file, once; then run with located.json: workers near the files read them"
    yield Idea("replicas", what, change, then_s, cost, MANAGER)


def _slowest(job: JobRecord) -> StorageRecord | None:
    found = max(job.storage_elements, key=lambda one: one.fetch_s, default=None)
    return found if found and found.read_calls and found.fetch_s > 0 else None


def _inputs(job: JobRecord) -> str:
    return inputs_words([one.path for one in job.dataset] or [one.path for one in job.files])


def _stored_bytes(job: JobRecord) -> int:
    return sum(one.size_bytes or 0 for one in job.files)


# --- clusters ---------------------------------------------------------------------------------------------------------

#: Target size of a cluster (compressed) when files are rewritten, and the command-line option that sets it.
CLUSTER_BYTES = 30_000_000
CLUSTER_OPTION = f"--cluster-bytes '{CLUSTER_BYTES // MB} MB'"
#: Baskets count as decompressed repeatedly if more than this multiple of their bytes was decompressed. Ratios slightly
#: above 1 are normal, because a basket that straddles two chunks is decompressed for each of them.
UNPACKED_AGAIN = 1.5
#: A file that was split into at least this number of parts counts as large enough to keep all workers busy.
PARTS_MIN = 3
#: Range of the ratio of a file's reading time to the busiest worker's time. A file in this range counts as read by a
#: single worker, if workers were also idle for more than IDLE_MIN of the job's time.
ALL_OF_IT = (0.7, 1.2)
#: A file counts as read by a single worker only if workers were idle for more than this fraction of the job's time.
IDLE_MIN = 0.1


def _clusters(job: JobRecord) -> Iterator[Idea]:
    """Suggest smaller clusters if more bytes were decompressed than the files contain."""
    wanted = {one.path: one.size_bytes or 0 for one in job.files}
    words = too_large_words(job, wanted)
    if words is None:
        return
    change = f"branchline merge {_inputs(job)} -o clusters.root {CLUSTER_OPTION} --verify"
    cost = f"{size(_stored_bytes(job))} are read and written, once, with CPU to compress"
    yield Idea("layout-clusters", words, change, seconds_unpacked_once(job, wanted), cost, MANAGER)


def too_large_words(job: JobRecord, wanted: Mapping[str, int]) -> str | None:
    """Describe the evidence that clusters are too large; None without evidence.

    ``wanted`` is the number of bytes of each file that the job needs, or an upper bound.
    """
    said = []
    times = unpacked_times(job, wanted)
    if times > UNPACKED_AGAIN:
        said.append(f"each basket is unpacked {times:.2g} times: clusters are larger than the memory for reading")
    one = _unshared_file(job)
    if one is not None:
        said.append(
            f"{counted(one.subjobs, 'sub-job')} should have shared {one.path}, but one worker read all of it: it has "
            f"too few clusters, and workers waited {percent(phase_s(job, 'idle'), job.wall_s)} of the time"
        )
    return "; ".join(said) or None


def unpacked_times(job: JobRecord, wanted: Mapping[str, int]) -> float:
    """Return the mean number of times that baskets were decompressed, in files with repeated decompression."""
    again = [one for one in job.files if one.compressed_bytes > UNPACKED_AGAIN * wanted.get(one.path, 0) > 0]
    return sum(one.compressed_bytes for one in again) / max(1, sum(wanted[one.path] for one in again))


def _unshared_file(job: JobRecord) -> FileRecord | None:
    """Return the file that was split into parts but read by a single worker because it has too few clusters; None if
    there is no such file.
    """
    busiest_s = max((row.wall_s - row.idle - row.start for row in job.worker_phases), default=0.0)
    longest = max(job.files, key=lambda one: one.wall_s, default=None)
    if len(job.worker_phases) < 2 or longest is None or longest.subjobs < PARTS_MIN or busiest_s <= 0:
        return None
    part = longest.wall_s / busiest_s
    is_alone = ALL_OF_IT[0] <= part <= ALL_OF_IT[1] and phase_s(job, "idle") > IDLE_MIN * job.wall_s
    return longest if is_alone else None


def seconds_unpacked_once(job: JobRecord, wanted: Mapping[str, int]) -> float:
    """Estimate the wall time if each basket were decompressed only once. If a single worker read a file that should
    have been shared, the estimate assumes that all workers share it evenly.
    """
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
    then_s = sum(busy_s) / len(rows) if _unshared_file(job) else max(busy_s)
    return min(job.wall_s, outside_s + max(row.start for row in rows) + then_s)


# --- wagons and results -----------------------------------------------------------------------------------------------

#: Approximate number of seconds to write results and records without pictures.
RECORDS_S = 1.0
#: Pictures are useful, so they are only reported as expensive if writing takes at least this fraction of the time.
PICTURES_SHARE = 0.3
#: A wagon delays the others if it takes at least this fraction of the time of all wagons.
HEAVY_SHARE = 0.75
#: Merging histograms takes at most this fraction of the time that merging large arrays takes.
SMALL_OUTPUTS = 0.1


def _pictures(job: JobRecord) -> Iterator[Idea]:
    pictures = sum(1 for result in job.results if result.picture)
    if pictures and phase_s(job, "write") > max(RECORDS_S, PICTURES_SHARE * job.wall_s):
        what = f"{counted(pictures, 'picture')} in {duration(phase_s(job, 'write'))} of writing"
        then_s = job.wall_s - phase_s(job, "write") + RECORDS_S
        yield Idea("pictures", what, "--pictures none", then_s, "no pictures; see results.root instead", ANALYST)


def _heavy_wagon(job: JobRecord) -> Iterator[Idea]:
    wagons = sorted(job.wagons, key=lambda one: -one.seconds)
    total_s = sum(one.seconds for one in wagons)
    if len(wagons) < 2 or total_s <= 0 or wagons[0].seconds < HEAVY_SHARE * total_s:
        return
    heavy, others = wagons[0], len(wagons) - 1
    alone_s = phase_s(job, "wagons") * heavy.seconds / total_s
    what = f"{name_text(heavy.name)} takes {percent(heavy.seconds, total_s)} of the time of {len(wagons)} wagons"
    change = f"run {name_text(heavy.name)} alone, with its name after the wagon file: WAGONS.py:NAME"
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
