"""What of a job's record says that its files, or the way in which they were read, made it slow."""

from __future__ import annotations

import math
from collections.abc import Iterator

from branchline.base.quantities import count, counted, duration, percent, rate, size
from branchline.records.diagnosis.advice import ANALYST, MANAGER
from branchline.records.diagnosis.figures import (
    codec_name,
    delivered_bytes,
    files_read,
    others_cores,
    phase_s,
    small_chunks,
    unwanted_bytes,
)
from branchline.records.diagnosis.ideas import CACHE_OPTION, Idea, inputs_words, names_words, tree_words
from branchline.records.sensors.record import JobRecord, StorageRecord

#: Decompressed bytes per second on one core of a server, measured with the demo's collisions.
ZSTD_BYTES_PER_S = 1.0e9
#: Bytes per second that one core compresses with zstd at level 5, measured with the same data.
COMPRESS_BYTES_PER_S = 60e6
ZSTD = "zstd:5"
#: Codecs that take longer to decompress than zstd, in their usual spelling.
SLOW_CODECS = ("zlib", "LZMA", "CS")
#: The average file is small below this: opening takes longer than reading, above all over a network.
SMALL_FILE_BYTES = 20_000_000
#: ... if there are so many.
SMALL_FILES_MIN = 10
#: Size of the files that small ones should be merged into.
MERGED_FILE_BYTES = 100_000_000
#: Calls of a wagon that are shorter are mostly the fixed cost of a call.
SHORT_CALL_S = 0.02
#: Of the time of such calls this part is saved by larger ones.
CALL_COST_SHARE = 0.8
#: Read calls smaller than this pay more for the journey than for the bytes, on most storage.
SMALL_CALL_BYTES = 256_000
#: Bytes of a read that is planned; a file takes some more for its metadata.
PLANNED_CALL_BYTES, METADATA_CALLS = 4_000_000, 3
#: Storage that delivers less than this within a call is slower than a disk.
SLOW_BYTES_PER_S = 50e6
#: What a local disk delivers.
DISK_BYTES_PER_S = 400e6
#: A smaller part of the bytes lies between the wanted ones anyway.
UNWANTED_SHARE = 0.2
#: Baskets below this are small; so large are those that are written anew.
SMALL_BASKET_BYTES = 4_000


def reading_ideas(job: JobRecord) -> Iterator[Idea]:
    """Ideas on files, codecs, requests and places, by what reading took."""
    yield from _codec(job)
    yield from _small_files(job)
    yield from _requests(job)
    yield from _copies(job)
    yield from _places(job)


def _inputs(job: JobRecord) -> str:
    return inputs_words([one.path for one in job.dataset] or [one.path for one in job.files])


def _stored_bytes(job: JobRecord) -> int:
    return sum(one.size_bytes or 0 for one in job.files)


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
    what += f", while other programs had {others_cores(job):.2g} cores" if others_cores(job) else ""
    stored = _stored_bytes(job)
    factor = job.totals.plain_bytes / max(1, job.totals.compressed_bytes)
    cpu_s = stored * factor / COMPRESS_BYTES_PER_S
    cost = f"{size(stored)} are written anew, once, with {duration(cpu_s, 2)} of CPU; the files grow a little"
    change = f"branchline recompress {_inputs(job)} -o zstd.root --codec {ZSTD}"
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


def _slowest(job: JobRecord) -> StorageRecord | None:
    found = max(job.storage_elements, key=lambda one: one.fetch_s, default=None)
    return found if found and found.read_calls and found.fetch_s > 0 else None


def _requests(job: JobRecord) -> Iterator[Idea]:
    """Many small requests, by the access mode, by a client's buffer or by small baskets."""
    slowest = _slowest(job)
    if slowest is None or phase_s(job, "wait") <= 0:
        return
    calls = slowest.read_calls
    each = slowest.bytes_read / calls
    wanted = METADATA_CALLS * max(1, slowest.files) + slowest.bytes_read / PLANNED_CALL_BYTES
    what = f"{counted(calls, 'read call')} of {size(each)} to {slowest.name}, {duration(slowest.fetch_s / calls)} each"
    # Of a call the journey is what larger calls save, the transfer is not.
    transfer_s = slowest.bytes_read / DISK_BYTES_PER_S
    trips = max(0.0, 1 - transfer_s / slowest.fetch_s) * max(0.0, 1 - wanted / calls)
    then_s = job.wall_s - phase_s(job, "wait") * trips
    if job.access.read_ahead is not None:
        asked = max(1, job.totals.bytes_asked)
        what += f", through a buffer of {size(job.access.read_ahead)}: {size(slowest.bytes_read)} for {size(asked)}"
        fewer = 1 - min(1.0, asked / max(1, slowest.bytes_read))
        then_s = min(then_s, job.wall_s - phase_s(job, "wait") * fewer)
        yield Idea("access-read-ahead", what, "run without --read-ahead", then_s, "nothing", ANALYST)
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
    """Copies of the data: of the wanted branches alone, or at a nearer or faster place."""
    slowest, wait_s = _slowest(job), phase_s(job, "wait")
    if slowest is None:
        return
    read, unwanted = delivered_bytes(job), unwanted_bytes(job)
    if read and unwanted > UNWANTED_SHARE * read:
        what = f"{percent(unwanted, read)} of the {size(read)} read are of branches that no wagon wants"
        names = names_words(one.name for one in job.branches)
        change = f"branchline slim {_inputs(job)} -o slim.root --branches {names}"
        change += tree_words(one.tree for one in job.dataset)
        cost = f"about {size(job.totals.compressed_bytes)} of space, and one reading of the files, once"
        yield Idea("slim", what, change, job.wall_s - wait_s * unwanted / read, cost, MANAGER)
    speed = slowest.bytes_read / slowest.fetch_s
    is_remote = "://" in slowest.name
    # What is read in a bad way is to be read well first: a copy would only hide that.
    is_planned = job.access.mode in ("planned", "prefetch") and job.access.read_ahead is None
    if job.access.cache_dir or not is_planned or not (is_remote or speed < SLOW_BYTES_PER_S):
        return
    what = f"{slowest.name} gives {rate(slowest.bytes_read, slowest.fetch_s)} within a call, and waiting for it takes "
    what += f"{percent(wait_s, job.wall_s)} of the time"
    then_s = job.wall_s - wait_s * (1 - min(1.0, speed / DISK_BYTES_PER_S))
    if is_remote:
        cost = f"{size(read)} of a disk; the first run takes as long as now"
        yield Idea("near-cache", what, CACHE_OPTION, then_s, cost, ANALYST)
    else:
        cost = f"{size(_stored_bytes(job))} of a faster disk, copied once"
        yield Idea("near-copy", what, "copy the files to a faster disk and run there", then_s, cost, MANAGER)


def _places(job: JobRecord) -> Iterator[Idea]:
    """Workers that read from elsewhere what comes much faster where it is local."""
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
    what = f"{counted(sum(one.files for one in far), 'file')} came from elsewhere, as from {element}, at "
    what += f"{size(far_speed)}/s, and local ones at {size(near_speed)}/s"
    change = f"branchline locate {_inputs(job)} > located.json"
    then_s = job.wall_s - phase_s(job, "wait") * lost
    cost = (
        "one question to the servers for each file, once; run with located.json then: workers near the files get them"
    )
    yield Idea("replicas", what, change, then_s, cost, MANAGER)
