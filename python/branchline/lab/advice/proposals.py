"""Changes that may speed up a job or reading of files, derived from the layout of the files and the access settings.

`proposals` yields the changes without their gain, which `advise` measures or forecasts afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from branchline.base.codecs import CODECS, DEFAULT_CODEC, codec_named
from branchline.base.quantities import GB, MB, count, counted, duration, percent, size
from branchline.errors import MemoryLimitError
from branchline.lab.advice.changes import (
    ACCESS,
    CLUSTERED,
    CONVERTED,
    FLATTENED,
    MERGED,
    ORDERED,
    OTHER,
    REBASKETED,
    RECOMPRESSED,
    SLIMMED,
    AdvisedChange,
)
from branchline.lab.forecast.changed_layout import clusters_of, data_bytes
from branchline.lab.forecast.conditions import MERGED_BYTES, Conditions
from branchline.lab.forecast.laid_file import LaidFile
from branchline.lab.forecast.planned_requests import PlanRequest, planned
from branchline.lab.forecast.subject import Subject
from branchline.lab.simulation.kernel_requests import READ_AHEAD_BYTES
from branchline.reading.access import Access
from branchline.records.diagnosis.advice import (
    ANALYST,
    CACHE_OPTION,
    GAIN_MIN,
    MANAGER,
    inputs_words,
    names_words,
    tree_words,
)
from branchline.records.diagnosis.figures import phase_s
from branchline.records.diagnosis.job_advice import (
    CLUSTER_BYTES,
    CLUSTER_OPTION,
    UNPACKED_AGAIN,
    seconds_unpacked_once,
    threads_words,
    too_large_words,
    workers_for_threads,
)

#: Round trip in seconds above which files count as remote.
FAR_S = 1e-3
#: Assumed bandwidth of a local disk that has copies of remote files.
NEAR_BYTES_PER_S = 400e6
#: Minimum fraction of the bytes of a file that must be wanted to propose copying all of the file to a local disk.
STAGED_SHARE = 0.5

#: Mean size of files below which merging them is proposed.
SMALL_FILE_BYTES = 50_000_000
#: Minimum overhead per file in seconds for a reader, including opening the file, but not the calls to the storage.
OPEN_S = 5e-4

#: Baskets and pages are small if their median size is below the first value. The clusters are the cause if their mean
#: size is below the second value.
SMALL_BASKET_BYTES, SMALL_CLUSTER_BYTES = 8_000, 10_000_000
#: If all branches have baskets with the same entries although their total sizes differ by this factor, baskets end at
#: the borders of clusters and not because they are full.
DIFFERENT = 1.5
#: Compressed size in bytes above which a basket counts as large when clusters may be too large for the memory.
LARGE_BASKET_BYTES = MB
#: Compressed size of baskets after rewriting small baskets.
LARGER_BASKET_BYTES = 64_000
#: Typical ratio of a basket's uncompressed to its compressed size.
BEFORE_COMPRESSION = 4
#: Size above which a basket keeps one thread and much memory busy while the other threads wait.
HUGE_BASKET_BYTES = 8_000_000
#: Maximum fraction of baskets at which a reader jumps backwards in the file without being slowed down noticeably.
#: Shorter jumps than this are free: the kernel has already read these bytes ahead.
JUMPS_BACK_SHARE, JUMP_FREE_BYTES = 0.02, READ_AHEAD_BYTES

#: Minimum share of decompression in the CPU time of reading for another codec to be tried.
DECOMPRESSION_SHARE = 0.2
#: Decoding time in seconds per byte above which objects are assumed not to be split into columns.
SLOW_DECODE_S_PER_BYTE = 1e-8
#: Codecs with which an RNTuple is tried: that of the files at its usual level, so that the gain does not come from the
#: codec. Uncompressed files are excluded, since only some of their baskets may be uncompressed, and so are files with
#: LZMA, which is too slow to be kept.
SAME_CODECS = {one.name: one.setting for one in CODECS if one.level and one.name != "lzma"}
#: Minimum time in seconds of decompressing and decoding for a copy of files without a flaw to be proposed.
WORTH_A_COPY_S = 1.0
#: Minimum fraction of unwanted bytes for a copy without them to be proposed.
UNWANTED_SHARE = 0.3


@dataclass(frozen=True)
class Proposal:
    """A change that may be an improvement. ``what`` describes the present state, ``words`` is the command or option
    that makes the change. ``then_s`` is the time with the change, if only a job's record and not a trial can provide
    it.
    """

    id: str
    what: str
    words: str
    cost: str
    whom: str
    change: AdvisedChange
    then_s: float | None = None


def proposals(subject: Subject) -> Iterator[Proposal]:
    """Yield all changes that may be improvements. Settings that are known to be good are not changed."""
    yield from _access(subject)
    yield from _near(subject)
    yield from _workers(subject)
    yield from _small_files(subject)
    clusters = list(cluster_proposals(subject))
    # Changing the clusters changes the baskets too.
    yield from clusters or _baskets(subject)
    yield from _order(subject)
    yield from _codec(subject)
    yield from _objects(subject)
    yield from _slim(subject)


def columns_of_ntuple(subject: Subject) -> Iterator[Proposal]:
    """Propose to convert TTrees without flaws to RNTuples.

    A TTree is not a flaw itself, so files with flaws get other proposals first. The files must be nearby, so that a
    trial can show the gain, and reading must take long enough to be worth a copy.
    """
    if is_far(subject) or any(one.is_ntuple for one in subject.laid) or _reading_s(subject) < WORTH_A_COPY_S:
        return
    codec = SAME_CODECS.get(subject.laid[0].codec)
    if codec is None:
        return
    change = AdvisedChange(CONVERTED, codec=codec)
    what = f"no flaw: {counted(len(subject.files), 'file')} with TTrees, whose baskets are read and unpacked one by one"
    words = f"branchline convert {_inputs(subject)} -o columns.root --to rntuple --codec {codec}{_tree_option(subject)}"
    cost = f"{_writing_cost(subject)}, with CPU to compress; programs that read it need RNTuple"
    yield Proposal("format-rntuple", what, words, cost, MANAGER, change)


def _reading_s(subject: Subject) -> float:
    """Return the present time in seconds for decompressing and decoding."""
    if subject.job is not None:
        return phase_s(subject.job, "decompress") + phase_s(subject.job, "decode")
    spent = subject.rates.decode_s_per_byte + max(subject.rates.decompress_s_per_byte.values(), default=0.0)
    return subject.scale * sum(one.plain_bytes for one in subject.laid) * spent / max(1, subject.threads)


# --- access and workers -----------------------------------------------------------------------------------------------


def _access(subject: Subject) -> Iterator[Proposal]:
    access = subject.access
    far = is_far(subject)
    how = f"files are read with {access.words}"
    how += f" over a round trip of {duration(subject.rates.round_trip_s)}" if far else " from near storage"
    if access.mode == "planned" and access.read_ahead is None:
        if far:
            yield from _whole_files(subject, how)
        return
    yield _read_otherwise(access, "planned", how, "nothing")
    if far and access.mode not in ("prefetch", "stage"):
        yield from _whole_files(subject, how)


def _whole_files(subject: Subject, how: str) -> Iterator[Proposal]:
    """Propose to read whole files: into memory if they fit, or else to a local disk if most of their bytes are
    wanted.
    """
    access, largest = subject.access, max(subject.laid, key=lambda one: one.size_bytes)
    prefetch = _read_otherwise(access, "prefetch", how, "memory for whole files, each time")
    limit, change = subject.memory_limit_bytes, prefetch.change
    request = PlanRequest(
        access=change.access or access, memory_limit_bytes=subject.stream_bytes, threads=subject.threads
    )
    # A file that is read in parts is opened before its parts are read, and is never read as a whole.
    if largest.parts == 1 and planned(largest, request).is_whole:
        yield prefetch
    elif largest.wanted_bytes >= STAGED_SHARE * largest.size_bytes:
        how += f"; memory of {size(limit)} has no room for files of {size(largest.size_bytes)}"
        cost = f"a local disk for files of {size(largest.size_bytes)}, each time"
        yield _read_otherwise(access, "stage", how, cost)


def _read_otherwise(access: Access, mode: str, how: str, cost: str) -> Proposal:
    option = f"--access {mode}"
    words = option if access.read_ahead is None else f"read with {option}, and without --experiment read-ahead"
    change = AdvisedChange(ACCESS, access=replace(access, mode=mode, read_ahead=None), option=option)
    return Proposal(f"access-{mode}", how, words, cost, ANALYST, change)


def _near(subject: Subject) -> Iterator[Proposal]:
    """Propose a local cache of remote files, which speeds up later runs, if the access mode is already good."""
    access, rates = subject.access, subject.rates
    is_read_well = access.mode in ("planned", "prefetch") and access.read_ahead is None
    is_elsewhere = any(not one.is_near for one in subject.laid)
    if not is_far(subject) or not is_read_well or access.cache_dir or not is_elsewhere:
        return
    wanted = subject.scale * sum(one.wanted_bytes for one in subject.laid)
    what = f"{size(wanted)} come over a round trip of {duration(rates.round_trip_s)} in each run"
    cost = f"{size(wanted)} of a disk; the first run takes as long as now"
    conditions = Conditions(round_trip_s=0.0, bytes_per_second=NEAR_BYTES_PER_S)
    change = AdvisedChange(OTHER, conditions=conditions, option=CACHE_OPTION)
    yield Proposal("near-cache", what, CACHE_OPTION, cost, ANALYST, change)


def _workers(subject: Subject) -> Iterator[Proposal]:
    job = subject.job
    # Concurrent jobs share the cores.
    cores = max(1, subject.cores // subject.jobs)
    wanted = min(cores, max(len(subject.files), job.subjobs if job else 0))
    if job is None:
        return
    others_cores = ((job.machine_cpu_s or 0.0) - job.cpu_s) / max(1e-9, job.wall_s)
    # Rounding ignores other load of up to half a core.
    free = round(subject.cores - max(0.0, others_cores))
    fewer = workers_for_threads(subject.workers, subject.threads, subject.cores)
    if fewer is not None and free >= subject.cores:
        threads = subject.cores // fewer
        cost = f"{counted(fewer, 'process', 'processes')} with {counted(threads, 'thread')} each"
        conditions = Conditions(cores=fewer, threads=threads)
        change = AdvisedChange(OTHER, conditions=conditions, option=f"--workers {fewer}")
        yield Proposal("workers-threads", threads_words(job, subject.cores), change.option, cost, ANALYST, change)
    if wanted <= subject.workers or free < wanted:
        return
    what = f"{counted(subject.workers, 'worker')} on {count(subject.cores)} cores"
    change = AdvisedChange(OTHER, conditions=Conditions(cores=wanted), option=f"--workers {wanted}")
    yield Proposal("workers", what, change.option, f"{wanted} cores, each time", ANALYST, change)


# --- layout of files --------------------------------------------------------------------------------------------------


def _small_files(subject: Subject) -> Iterator[Proposal]:
    mean = float(np.mean([one.size_bytes for one in subject.laid]))
    if len(subject.files) < 2 or mean >= SMALL_FILE_BYTES:
        return
    into = max(1, round(mean * len(subject.files) / MERGED_BYTES))
    # Seeks and concurrent jobs cost more than opening the files; only a trial can show how much.
    is_alone_in_memory = subject.jobs == 1 and not subject.is_cold
    if is_alone_in_memory and not is_far(subject) and _opening_share(subject, into) < GAIN_MIN:
        return
    what = f"{counted(len(subject.files), 'file')} of {size(mean)}, each opened for itself"
    words = f"branchline merge {_inputs(subject)} -o merged.root --max-size '1 GB' --verify"
    change = AdvisedChange(MERGED, max_bytes=MERGED_BYTES, conditions=Conditions(merged_bytes=MERGED_BYTES))
    cost = f"{_writing_cost(subject)}; then there is {counted(into, 'file')}"
    yield Proposal("merge", what, words, cost, MANAGER, change)


def _opening_share(subject: Subject, into: int) -> float:
    """Return the maximum gain of merging nearby files into ``into`` files: the share of reading time spent on opening
    files.
    """
    rates, files = subject.rates, len(subject.files)
    saved_s = (files - into) * max(rates.open_s, OPEN_S)
    spent = rates.decode_s_per_byte + max(rates.decompress_s_per_byte.values(), default=0.0)
    read_s = subject.scale * sum(one.plain_bytes for one in subject.laid) * spent
    return saved_s / max(1e-9, saved_s + read_s / max(1, subject.threads))


def cluster_proposals(subject: Subject) -> Iterator[Proposal]:
    """Propose another cluster size if the present clusters are too small, or too large for the memory or the
    workers.
    """
    what, then_s = _too_small(subject), None
    if what is None:
        what, then_s = _too_large(subject)
    if what is None:
        return
    words = f"branchline merge {_inputs(subject)} -o clusters.root {CLUSTER_OPTION} --verify"
    change = AdvisedChange(CLUSTERED, cluster_bytes=CLUSTER_BYTES, conditions=Conditions(cluster_bytes=CLUSTER_BYTES))
    cost = f"{_writing_cost(subject)}, with CPU to compress"
    yield Proposal("layout-clusters", what, words, cost, MANAGER, change, then_s)


def _too_small(subject: Subject) -> str | None:
    sizes = [row[1] for one in subject.laid for branch in one.extents for row in branch]
    if not sizes:
        return None
    clusters = sum(clusters_of(one) for one in subject.laid)
    mean = sum(map(data_bytes, subject.laid)) / max(1, clusters)
    median = float(np.median(sizes))
    is_cut = clusters > len(subject.laid) and all(one.is_ntuple or _ends_with_clusters(one) for one in subject.laid)
    if median >= SMALL_BASKET_BYTES or mean >= SMALL_CLUSTER_BYTES or not is_cut:
        return None
    name = "pages" if subject.laid[0].is_ntuple else "baskets"
    entries = round(sum(one.entries for one in subject.laid) / clusters)
    small = f"half of the {name} have less than {size(median)}"
    return f"{counted(clusters, 'cluster')} have {count(entries)} entries each: {small}"


def _ends_with_clusters(file: LaidFile) -> bool:
    """Return whether the baskets of a TTree end at the borders of its clusters: the baskets of all branches have the
    same entries, although their sizes differ.
    """
    branches = [own for own in file.extents if own]
    stored = [sum(row[1] for row in own) for own in branches]
    ends = {tuple(row[3] for row in own) for own in branches}
    return len(ends) == 1 and len(stored) > 1 and max(stored) > DIFFERENT * min(stored)


def _too_large(subject: Subject) -> tuple[str | None, float | None]:
    """Return a sentence about clusters that are too large, and the time that smaller clusters would take, if a job
    shows it; None and None if they are not too large.
    """
    job = subject.job
    if job is not None:
        wanted = {one.path: one.wanted_bytes for one in subject.laid}
        return too_large_words(job, wanted), seconds_unpacked_once(job, wanted)
    largest = max(subject.laid, key=lambda one: one.wanted_bytes)
    most = sorted((max((row[1] for row in own), default=0) for own in largest.extents), reverse=True)
    times = _read_times(subject, largest)
    if sum(one > LARGE_BASKET_BYTES for one in most) < 2 or times < UNPACKED_AGAIN:
        return None, None
    limit = size(subject.memory_limit_bytes)
    return (
        f"{counted(len(largest.extents), 'branch', 'branches')} have baskets of up to {size(most[0])}, and memory of "
        f"{limit} has no room for one of each: they are read {times:.2g} times"
    ), None


def _read_times(subject: Subject, file: LaidFile) -> float:
    """Return how many times the baskets are planned to be read on average; 0 if they do not fit into the memory
    limit.
    """
    request = PlanRequest(
        access=subject.access,
        step_entries=subject.step_entries,
        memory_limit_bytes=subject.stream_bytes,
        threads=subject.threads,
        is_named=subject.branches is not None,
    )
    try:
        found = planned(file, request)
    except MemoryLimitError:
        return 0.0
    return found.times


def _baskets(subject: Subject) -> Iterator[Proposal]:
    sizes = np.array([row[1] for one in subject.laid for branch in one.extents for row in branch])
    if not len(sizes):
        return
    median, largest = float(np.median(sizes)), int(sizes.max())
    if any(one.is_ntuple for one in subject.laid):
        return
    basket_size = BEFORE_COMPRESSION * LARGER_BASKET_BYTES
    # Without this option, clusters are kept, and a basket cannot be larger than its cluster.
    layout = f"--basket-size '{basket_size // 1000} kB' {CLUSTER_OPTION}"
    words = f"branchline merge {_inputs(subject)} -o baskets.root {layout} --verify"
    conditions = Conditions(basket_bytes=LARGER_BASKET_BYTES)
    change = AdvisedChange(REBASKETED, basket_size=basket_size, cluster_bytes=CLUSTER_BYTES, conditions=conditions)
    cost = f"{_writing_cost(subject)}, with CPU to compress"
    has_several = any(len(branch) > 1 for one in subject.laid for branch in one.extents)
    if median < SMALL_BASKET_BYTES and has_several:
        what = f"half of the {count(len(sizes))} baskets have less than {size(median)}"
        yield Proposal("layout-baskets", what, words, cost, MANAGER, change)
    elif largest > HUGE_BASKET_BYTES:
        what = f"the largest of the {count(len(sizes))} baskets has {size(largest)}: one thread unpacks it"
        yield Proposal("layout-baskets", what, words, cost, MANAGER, replace(change, conditions=Conditions()))


def _order(subject: Subject) -> Iterator[Proposal]:
    """Propose to order the baskets by entry."""
    if any(one.is_ntuple for one in subject.laid):
        return
    baskets = sum(len(branch) for one in subject.laid for branch in one.extents)
    back = 0
    for file in subject.laid:
        rows = sorted((row[2], number, row[0]) for number, branch in enumerate(file.extents) for row in branch)
        back += sum(before[2] - after[2] > JUMP_FREE_BYTES for before, after in pairwise(rows))
    if back > JUMPS_BACK_SHARE * baskets:
        what = f"a reader turns back at {percent(back, baskets)} of the baskets"
        words = f"branchline reorder {_inputs(subject)} -o ordered.root --verify"
        change = AdvisedChange(ORDERED, conditions=Conditions(by_entry=True))
        yield Proposal("layout-order", what, words, _writing_cost(subject), MANAGER, change)


def _codec(subject: Subject) -> Iterator[Proposal]:
    codec = subject.laid[0].codec
    words = f"branchline recompress {_inputs(subject)} -o zstd.root --codec {DEFAULT_CODEC}"
    change = AdvisedChange(RECOMPRESSED, codec=DEFAULT_CODEC, conditions=Conditions(codec=DEFAULT_CODEC))
    speed = subject.rates.bytes_per_second
    if codec == "none" and is_far(subject) and 0 < speed < NEAR_BYTES_PER_S:
        wanted = subject.scale * sum(one.wanted_bytes for one in subject.laid)
        what = f"{size(wanted)} that are not compressed come at {size(speed)}/s"
        yield Proposal("codec", what, words, f"{_writing_cost(subject)}, with CPU to compress", MANAGER, change)
    spent = subject.rates.decompress_of(codec)
    if not codec_named(codec).is_slow or spent is None:
        return
    share = spent / max(1e-18, spent + subject.rates.decode_s_per_byte)
    if share < DECOMPRESSION_SHARE:
        return
    growth = "; the files grow by up to a third" if codec == "lzma" else ""
    cost = f"{_writing_cost(subject)}, with CPU to compress{growth}"
    what = f"decompressing {codec} takes {spent * GB:.2g} s for a GB, {percent(share, 1)} of the CPU time of reading"
    yield Proposal("codec", what, words, cost, MANAGER, change)


def _objects(subject: Subject) -> Iterator[Proposal]:
    """Propose to convert objects that are not split to columns of an RNTuple, or to flat columns."""
    decode, is_ntuple = subject.rates.decode_s_per_byte, any(one.is_ntuple for one in subject.laid)
    if is_ntuple or decode < SLOW_DECODE_S_PER_BYTE:
        return
    what = f"decoding takes {decode * GB:.2g} s for a GB: objects are not split into columns"
    words = f"branchline convert {_inputs(subject)} -o columns.root --to rntuple{_tree_option(subject)}"
    cost = f"{_writing_cost(subject)}, with CPU to compress; programs that read it need RNTuple"
    yield Proposal("format-rntuple", what, words, cost, MANAGER, AdvisedChange(CONVERTED))
    words = f"branchline convert {_inputs(subject)} -o flat.root --flatten --to ttree --verify"
    words += "" if subject.branches is None else f" --branches {names_words(subject.branches)}"
    cost = f"{_writing_cost(subject)}, with CPU to compress; programs read columns such as Track_fPt, not objects"
    change = AdvisedChange(FLATTENED, branches=subject.branches or ())
    yield Proposal("format-flat", what, f"{words}{_tree_option(subject)}", cost, MANAGER, change)


def _slim(subject: Subject) -> Iterator[Proposal]:
    """Propose a copy with only the wanted branches if files are read whole."""
    total = sum(one.size_bytes for one in subject.laid)
    wanted = sum(one.wanted_bytes for one in subject.laid)
    if subject.branches is None or not total or total - wanted < UNWANTED_SHARE * total:
        return
    if any(one.is_ntuple for one in subject.laid) or subject.access.mode not in ("prefetch", "stage"):
        return
    what = (
        f"{percent(total - wanted, total)} of the files are of branches that are never read, and files are read whole"
    )
    words = f"branchline slim {_inputs(subject)} -o slim.root --branches {names_words(subject.branches)}"
    words += _tree_option(subject)
    cost = f"about {size(subject.scale * wanted)} of space, and one reading of the files, once"
    yield Proposal("slim", what, words, cost, MANAGER, AdvisedChange(SLIMMED, branches=subject.branches))


# --- shared by proposals ----------------------------------------------------------------------------------------------


def is_far(subject: Subject) -> bool:
    """Return whether files are remote: on a server, or on a mounted file system with a long round trip. A local disk is
    never remote, even if it is busy and slow to respond.
    """
    is_remote = bool(subject.access.throttle) or any(not one.is_near for one in subject.laid)
    return is_remote and subject.rates.round_trip_s > FAR_S


def _inputs(subject: Subject) -> str:
    """Return the files as arguments of a command."""
    return inputs_words([one.path for one in subject.files])


def _tree_option(subject: Subject) -> str:
    """Return the command line option that selects the tree."""
    return tree_words([one.tree for one in subject.files])


def _writing_cost(subject: Subject) -> str:
    """Return a sentence about the cost of rewriting all files."""
    total = size(subject.scale * sum(one.size_bytes for one in subject.laid))
    return f"{total} are read and written, once"
