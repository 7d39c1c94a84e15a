"""Changes that may help a job or the reading of files, by how the files lie and how they are read.

`proposals` yields them without their gain: whether a proposal is worth it is measured or forecast afterwards
(`advise`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from branchline.base.quantities import count, counted, percent, size
from branchline.errors import MemoryLimitError
from branchline.lab.advice.changes import (
    ACCESS,
    CLUSTERED,
    CONVERTED,
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

#: Round trip from which on files are far away, in seconds.
FAR_S = 1e-3
#: Bytes per second of a local disk, for files that are kept near.
NEAR_BYTES_PER_S = 400e6
#: Smallest part of a file that is worth a copy of all of it on a local disk.
STAGED_SHARE = 0.5

#: Mean size of files below which merging them is proposed.
SMALL_FILE_BYTES = 50_000_000
#: Least time that opening a file takes, with all that it makes a reader do besides its calls.
OPEN_S = 5e-4

#: Small pages and baskets: their median is below the first. Their clusters are the reason if the mean cluster is below
#: the second.
SMALL_BASKET_BYTES, SMALL_CLUSTER_BYTES = 8_000, 10_000_000
#: Baskets that end together though the sizes of branches differ by this factor end with a cluster, not because they are
#: full.
DIFFERENT = 1.5
#: Size of a large basket.
LARGE_BASKET_BYTES = 1_000_000
#: Size in the file that larger baskets are tried with.
LARGER_BASKET_BYTES = 64_000
#: Usual ratio of the bytes of a basket before compression to those in the file.
BEFORE_COMPRESSION = 4
#: A basket above this keeps one thread busy, and memory, while the others wait.
HUGE_BASKET_BYTES = 8_000_000
#: Share of the baskets at which a reader may turn back without being slowed down.
JUMPS_BACK_SHARE = 0.02

ZSTD = "zstd:5"
#: Codecs that take longer to decompress than zstd.
SLOW_CODECS = ("lzma", "zlib", "old CS")
#: Least share of decompression in the CPU time of reading for which another codec is tried.
DECOMPRESSION_SHARE = 0.2
#: Seconds per byte above which the decoded objects are not split into columns.
SLOW_DECODE_S_PER_BYTE = 1e-8
#: An RNTuple is tried with the codec of the files at its usual level, so that the gain does not come from the codec.
#: Files without compression are left out: where a basket is not compressed the others may still be.
SAME_CODECS = {"zstd": ZSTD, "zlib": "zlib:1", "lz4": "lz4:4"}
#: Least seconds of decompressing and decoding for which files without a flaw are worth a copy.
WORTH_A_COPY_S = 1.0
#: Share of unwanted bytes that is worth a copy without them.
UNWANTED_SHARE = 0.3


@dataclass(frozen=True)
class Proposal:
    """Something that may help. ``what`` is how it is, ``words`` the command or option that changes it. ``then_s`` are
    the seconds that the work takes with it, where the record of a job shows them and no try would.
    """

    id: str
    what: str
    words: str
    cost: str
    whom: str
    change: AdvisedChange
    then_s: float | None = None


def proposals(subject: Subject) -> Iterator[Proposal]:
    """All that may help: what is clearly good as it is is not proposed to be otherwise."""
    yield from _access(subject)
    yield from _near(subject)
    yield from _workers(subject)
    yield from _small_files(subject)
    clusters = list(cluster_proposals(subject))
    # Baskets of other sizes are no matter where clusters are to be others.
    yield from clusters or _baskets(subject)
    yield from _order(subject)
    yield from _codec(subject)
    yield from _objects(subject)
    yield from _slim(subject)


def columns_of_ntuple(subject: Subject) -> Iterator[Proposal]:
    """An RNTuple in place of a TTree in which nothing is wrong: it is no flaw, so it is only proposed where files have
    none, where reading takes long enough to be worth a copy of all, and where a try can show the gain: near.
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
    """Seconds that unpacking and decoding take, now."""
    if subject.job is not None:
        return phase_s(subject.job, "decompress") + phase_s(subject.job, "decode")
    spent = subject.rates.decode_s_per_byte + max(subject.rates.decompress_s_per_byte.values(), default=0.0)
    return subject.scale * sum(one.plain_bytes for one in subject.laid) * spent / max(1, subject.threads)


# --- how files are read, and where ------------------------------------------------------------------------------------


def _access(subject: Subject) -> Iterator[Proposal]:
    access = subject.access
    far = is_far(subject)
    how = f"files are read with --access {access.mode}"
    if access.read_ahead is not None:
        how += f" --read-ahead {access.read_ahead}"
    how += f" over a round trip of {subject.rates.round_trip_s * 1e3:.2g} ms" if far else " from near storage"
    if access.mode == "planned" and access.read_ahead is None:
        if far:
            yield from _whole_files(subject, how)
        return
    yield _read_otherwise(access, "planned", how, "nothing")
    if far and access.mode not in ("prefetch", "stage"):
        yield from _whole_files(subject, how)


def _whole_files(subject: Subject, how: str) -> Iterator[Proposal]:
    """Files as a whole: in memory where they fit into it, else on a local disk where most of them is wanted."""
    access, largest = subject.access, max(subject.laid, key=lambda one: one.size_bytes)
    prefetch = _read_otherwise(access, "prefetch", how, "memory for whole files, each time")
    limit, change = subject.memory_limit_bytes, prefetch.change
    request = PlanRequest(
        access=change.access or access, memory_limit_bytes=subject.stream_bytes, threads=subject.threads
    )
    # A file that is cut is opened before its parts are read, and never read whole.
    if largest.parts == 1 and planned(largest, request).is_whole:
        yield prefetch
    elif largest.wanted_bytes >= STAGED_SHARE * largest.size_bytes:
        how += f"; memory of {size(limit)} has no room for files of {size(largest.size_bytes)}"
        cost = f"a local disk for files of {size(largest.size_bytes)}, each time"
        yield _read_otherwise(access, "stage", how, cost)


def _read_otherwise(access: Access, mode: str, how: str, cost: str) -> Proposal:
    option = f"--access {mode}"
    words = option if access.read_ahead is None else f"read with {option}, and without --read-ahead"
    change = AdvisedChange(ACCESS, access=replace(access, mode=mode, read_ahead=None), option=option)
    return Proposal(f"access-{mode}", how, words, cost, ANALYST, change)


def _near(subject: Subject) -> Iterator[Proposal]:
    """What is far is kept near for the next runs, once it is read in a good way."""
    access, rates = subject.access, subject.rates
    is_read_well = access.mode in ("planned", "prefetch") and access.read_ahead is None
    is_elsewhere = any(not one.is_near for one in subject.laid)
    if not is_far(subject) or not is_read_well or access.cache_dir or not is_elsewhere:
        return
    wanted = subject.scale * sum(one.wanted_bytes for one in subject.laid)
    what = f"{size(wanted)} come over a round trip of {rates.round_trip_s * 1e3:.2g} ms in each run"
    cost = f"{size(wanted)} of a disk; the first run takes as long as now"
    conditions = Conditions(round_trip_s=0.0, bytes_per_second=NEAR_BYTES_PER_S)
    change = AdvisedChange(OTHER, conditions=conditions, option=CACHE_OPTION)
    yield Proposal("near-cache", what, CACHE_OPTION, cost, ANALYST, change)


def _workers(subject: Subject) -> Iterator[Proposal]:
    job = subject.job
    wanted = min(subject.cores, max(len(subject.files), job.subjobs if job else 0))
    if job is None:
        return
    others_cores = ((job.machine_cpu_s or 0.0) - job.cpu_s) / max(1e-9, job.wall_s)
    # Half a core of other programs is nothing.
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


# --- how files lie ----------------------------------------------------------------------------------------------------


def _small_files(subject: Subject) -> Iterator[Proposal]:
    mean = float(np.mean([one.size_bytes for one in subject.laid]))
    if len(subject.files) < 2 or mean >= SMALL_FILE_BYTES:
        return
    into = max(1, round(mean * len(subject.files) / MERGED_BYTES))
    if not is_far(subject) and _opening_share(subject, into) < GAIN_MIN:
        return
    what = f"{counted(len(subject.files), 'file')} of {size(mean)}, each opened for itself"
    words = f"branchline merge {_inputs(subject)} -o merged.root --max-size '1 GB' --verify"
    change = AdvisedChange(MERGED, max_bytes=MERGED_BYTES, conditions=Conditions(merged_bytes=MERGED_BYTES))
    cost = f"{_writing_cost(subject)}; then there is {counted(into, 'file')}"
    yield Proposal("merge", what, words, cost, MANAGER, change)


def _opening_share(subject: Subject, into: int) -> float:
    """The part of reading near files that opening takes, without that of ``into`` of them. Merging saves no more."""
    rates, files = subject.rates, len(subject.files)
    saved_s = (files - into) * max(rates.open_s, OPEN_S)
    spent = rates.decode_s_per_byte + max(rates.decompress_s_per_byte.values(), default=0.0)
    read_s = subject.scale * sum(one.plain_bytes for one in subject.laid) * spent
    return saved_s / max(1e-9, saved_s + read_s / max(1, subject.threads))


def cluster_proposals(subject: Subject) -> Iterator[Proposal]:
    """Other clusters, where those that are there are too small, or too large for the memory or the workers."""
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
    """Whether the baskets of a TTree end where clusters do: those of all branches end together, however large."""
    branches = [own for own in file.extents if own]
    stored = [sum(row[1] for row in own) for own in branches]
    ends = {tuple(row[3] for row in own) for own in branches}
    return len(ends) == 1 and len(stored) > 1 and max(stored) > DIFFERENT * min(stored)


def _too_large(subject: Subject) -> tuple[str | None, float | None]:
    """What is wrong with clusters that are too large, and the time without that where a job shows it."""
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
    """How often the bytes of a file are read, as planned; 0 where its baskets fit into no plan."""
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
    # Without a word on clusters they stay as they are, and no basket is larger than its cluster.
    layout = f"--basket-size '{basket_size // 1000} kB' {CLUSTER_OPTION}"
    words = f"branchline merge {_inputs(subject)} -o baskets.root {layout} --verify"
    conditions = Conditions(basket_bytes=LARGER_BASKET_BYTES)
    change = AdvisedChange(REBASKETED, basket_size=basket_size, cluster_bytes=CLUSTER_BYTES, conditions=conditions)
    cost = f"{_writing_cost(subject)}, with CPU to compress"
    if median < SMALL_BASKET_BYTES:
        what = f"half of the {count(len(sizes))} baskets have less than {size(median)}"
        yield Proposal("layout-baskets", what, words, cost, MANAGER, change)
    elif largest > HUGE_BASKET_BYTES:
        what = f"the largest of the {count(len(sizes))} baskets has {size(largest)}: one thread unpacks it"
        yield Proposal("layout-baskets", what, words, cost, MANAGER, replace(change, conditions=Conditions()))


def _order(subject: Subject) -> Iterator[Proposal]:
    """Baskets in the order of entries."""
    if any(one.is_ntuple for one in subject.laid):
        return
    baskets = sum(len(branch) for one in subject.laid for branch in one.extents)
    back = sum(_jumps_back(branches.extents) for branches in subject.laid)
    if back > JUMPS_BACK_SHARE * baskets:
        what = f"a reader turns back at {percent(back, baskets)} of the baskets"
        words = f"branchline reorder {_inputs(subject)} -o ordered.root --verify"
        change = AdvisedChange(ORDERED, conditions=Conditions(by_entry=True))
        yield Proposal("layout-order", what, words, _writing_cost(subject), MANAGER, change)


def _jumps_back(extents: list[list[tuple[int, int, int, int]]]) -> int:
    rows = sorted((row[2], number, row[0]) for number, branch in enumerate(extents) for row in branch)
    return sum(after[2] < before[2] for before, after in pairwise(rows))


def _codec(subject: Subject) -> Iterator[Proposal]:
    codec = subject.laid[0].codec
    words = f"branchline recompress {_inputs(subject)} -o zstd.root --codec {ZSTD}"
    change = AdvisedChange(RECOMPRESSED, codec=ZSTD, conditions=Conditions(codec=ZSTD))
    speed = subject.rates.bytes_per_second
    if codec == "none" and is_far(subject) and 0 < speed < NEAR_BYTES_PER_S:
        wanted = subject.scale * sum(one.wanted_bytes for one in subject.laid)
        what = f"{size(wanted)} that are not compressed come at {size(speed)}/s"
        yield Proposal("codec", what, words, f"{_writing_cost(subject)}, with CPU to compress", MANAGER, change)
    spent = subject.rates.decompress_of(codec)
    if codec not in SLOW_CODECS or spent is None:
        return
    share = spent / max(1e-18, spent + subject.rates.decode_s_per_byte)
    if share < DECOMPRESSION_SHARE:
        return
    cost = f"{_writing_cost(subject)}, with CPU to compress; files grow, from lzma by up to a third"
    what = f"decompressing {codec} takes {spent * 1e9:.2g} s for a GB, {percent(share, 1)} of the CPU time of reading"
    yield Proposal("codec", what, words, cost, MANAGER, change)


def _objects(subject: Subject) -> Iterator[Proposal]:
    """Objects that are written one after the other, and not as columns."""
    decode, is_ntuple = subject.rates.decode_s_per_byte, any(one.is_ntuple for one in subject.laid)
    if is_ntuple or decode < SLOW_DECODE_S_PER_BYTE:
        return
    what = f"decoding takes {decode * 1e9:.2g} s for a GB: objects are not split into columns"
    words = f"branchline convert {_inputs(subject)} -o columns.root --to rntuple{_tree_option(subject)}"
    cost = f"{_writing_cost(subject)}, with CPU to compress; programs that read it need RNTuple"
    yield Proposal("format-rntuple", what, words, cost, MANAGER, AdvisedChange(CONVERTED))


def _slim(subject: Subject) -> Iterator[Proposal]:
    """A copy of the wanted branches, where files are read whole or other branches lie in between."""
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


# --- words and distances that proposals share -------------------------------------------------------------------------


def is_far(subject: Subject) -> bool:
    """Whether files are behind a round trip: at a server, or on a mounted file system. A local disk that is busy has
    none, however long it takes to answer.
    """
    is_remote = bool(subject.access.throttle) or any(not one.is_near for one in subject.laid)
    return is_remote and subject.rates.round_trip_s > FAR_S


def _inputs(subject: Subject) -> str:
    """The files as the input of a command."""
    return inputs_words([one.path for one in subject.files])


def _tree_option(subject: Subject) -> str:
    """The option that names their tree."""
    return tree_words([one.tree for one in subject.files])


def _writing_cost(subject: Subject) -> str:
    """What writing all files again costs."""
    total = size(subject.scale * sum(one.size_bytes for one in subject.laid))
    return f"{total} are read and written, once"
