"""Data sets and jobs with one known flaw each, and some without flaws.

Data sets are real files; distant storage is emulated by throttling. Jobs are job records with the numbers that the flaw
would cause.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import uproot

from benches.worker import REPOSITORY
from branchline.lab.forecast.subject import Subject, subject_of
from branchline.reading.access import Access
from branchline.records.sensors.record import JobRecord
from branchline.writing.merging.convert import convert
from branchline.writing.merging.merge import merge

TREE = "events"
ENTRIES, COLUMNS = 2_000_000, 8
#: Entries per small file, and number of small files.
SMALL_ENTRIES, SMALL_FILES = 400, 1500
#: Columns of a wide file. Cases read one of them.
WIDE = 40
RECORDS = REPOSITORY / "tests" / "unit" / "report" / "records"

Locations = Sequence[Path]


@dataclass(frozen=True)
class DataCase:
    """Files and how they are read. ``wanted`` has prefixes of the identifiers of the expected advice; it is empty for a
    case without a flaw.
    """

    flaw: str
    wanted: tuple[str, ...]
    make: Callable[[Path], Locations]
    branches: tuple[str, ...] | None = None
    access: Access = field(default_factory=Access)

    def subject(self, folder: Path) -> Subject:
        """Return the read to forecast, with measured rates."""
        paths = [f"{path}:{TREE}" for path in self.make(folder)]
        return subject_of(paths, self.branches, self.access)


@dataclass(frozen=True)
class JobCase:
    """Records of one or more jobs."""

    flaw: str
    wanted: tuple[str, ...]
    records: Callable[[], list[JobRecord]]


def far(mode: str = "planned", milliseconds: int = 20, bandwidth: str = "50MB/s", **others: Any) -> Access:
    """Return access to a distant storage."""
    return Access(mode=mode, throttle=f"latency={milliseconds}ms,bandwidth={bandwidth}", **others)


# --- files ------------------------------------------------------------------------------------------------------------


def _kept(path: Path, write: Callable[[Path], object]) -> Path:
    """Write a file unless it exists."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"part-{path.name}")
        write(part)
        part.rename(path)
    return path


def _columns(entries: int, columns: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        f"c{number}": (np.round(rng.exponential(10, entries) * 50) / 50).astype(np.float32) for number in range(columns)
    }


def _write(path: Path, entries: int, columns: int, seed: int = 1, steps: int = 20) -> None:
    with uproot.recreate(path, compression=uproot.ZSTD(5)) as file:
        file.mktree(TREE, {f"c{number}": np.float32 for number in range(columns)})
        for step in range(steps):
            file[TREE].extend(_columns(entries // steps, columns, seed + step))


def good(folder: Path) -> Locations:
    """One zstd file with large baskets in the order of entries."""
    return [_kept(folder / "good.root", lambda path: _write(path, ENTRIES, COLUMNS))]


def four_good(folder: Path) -> Locations:
    """Four files like ``good``, each large enough to read efficiently."""

    def write(number: int) -> Path:
        return _kept(folder / f"four-{number}.root", lambda path: _write(path, ENTRIES, COLUMNS, number, 10))

    return [write(number) for number in range(4)]


def good_ntuple(folder: Path) -> Locations:
    """The same data as an RNTuple."""
    return [_kept(folder / "ntuple.root", lambda path: convert(_places(good(folder)), path, to="rntuple"))]


def _places(paths: Locations) -> list[str]:
    return [f"{path}:{TREE}" for path in paths]


def wide(folder: Path) -> Locations:
    """A file with many branches."""
    return [_kept(folder / "wide.root", lambda path: _write(path, ENTRIES // 8, WIDE))]


def small_files(folder: Path) -> Locations:
    """Many small files."""
    return [
        _kept(folder / "small" / f"{number:04d}.root", lambda path: _write(path, SMALL_ENTRIES, COLUMNS, steps=1))
        for number in range(SMALL_FILES)
    ]


def rewritten(name: str, **options: Any) -> Callable[[Path], Locations]:
    """Return a function that rewrites the file of ``good`` with the given options."""

    def make(folder: Path) -> Locations:
        source = good(folder)[0]
        return [_kept(folder / f"{name}.root", lambda path: merge([str(source)], path, sync=False, **options))]

    return make


def by_branch(folder: Path) -> Locations:
    """Small baskets sorted by branch: reading by entry seeks backwards for each branch."""
    source = rewritten("baskets-16k", basket_size="16 kB")(folder)[0]
    return [_kept(folder / "unordered.root", lambda path: merge([str(source)], path, order="branch", sync=False))]


def one_huge_basket(folder: Path) -> Locations:
    """One branch of incompressible numbers in a single basket."""

    def write(path: Path) -> None:
        values = np.random.default_rng(3).integers(0, 2**20, 12_000_000).astype(np.int64)
        with uproot.recreate(path, compression=uproot.ZSTD(5)) as file:
            file.mktree(TREE, {"c0": np.int64})
            file[TREE].extend({"c0": values})

    return [_kept(folder / "huge.root", write)]


def tiny_clusters(folder: Path) -> Locations:
    """An RNTuple with clusters of a hundred entries."""
    source = _places(good(folder))
    return [_kept(folder / "tiny.root", lambda path: convert(source, path, to="rntuple", cluster_entries=100))]


def one_cluster(folder: Path) -> Locations:
    """Eight branches, each with one basket of 15 MB: not all of them fit into memory at once."""
    return [_kept(folder / "one-cluster.root", lambda path: _write(path, 4 * ENTRIES, COLUMNS, steps=1))]


# --- records of jobs --------------------------------------------------------------------------------------------------


def real(name: str) -> Callable[[], list[JobRecord]]:
    """Return a function that loads the record of a real run from the test data."""
    return lambda: [JobRecord.from_dict(json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8")))]


def made(
    phases: dict[str, float], change: Callable[[dict[str, Any]], None] | None = None, jobs: int = 1
) -> Callable[[], list[JobRecord]]:
    """Return a function that creates consistent records, with the time divided among the given phases."""

    def records() -> list[JobRecord]:
        from tests.unit.records.report.conftest import make_job

        found = []
        for _ in range(jobs):
            job = make_job(phases=phases)
            for branch in job["branches"]:
                branch["codec"] = "zstd"
            job.update(workers=4, cpu_count=4, machine_cpu_count=4)
            if change:
                change(job)
            found.append(JobRecord.from_dict(job))
        return found

    return records


def _heavy(job: dict[str, Any]) -> None:
    job["wagons"][2]["seconds"] = 20.0


def _replica(job: dict[str, Any]) -> None:
    reads = {"site": "A", "files": 9, "bytes_read": 900_000_000}
    job["sites"] = [
        {**reads, "storage_element": "root://near", "nearness": "site", "fetch_s": 9.0},
        {**reads, "storage_element": "root://far", "nearness": "elsewhere", "fetch_s": 90.0},
    ]
    job["storage_elements"] = []


def _far_again(job: dict[str, Any]) -> None:
    element = {"name": "root://far", "files": 24, "bytes_read": 76_800_000, "read_calls": 48, "fetch_s": 30.0}
    job["storage_elements"] = [element]


def _wide_copy(job: dict[str, Any]) -> None:
    element = {"name": "root://far", "files": 24, "bytes_read": 400_000_000, "read_calls": 96, "fetch_s": 40.0}
    job["storage_elements"] = [element]
    job["totals"] |= {"bytes_read": 400_000_000}
    job["access"] = {"mode": "planned", "cache_dir": "/cache"}


def _learns(job: dict[str, Any]) -> None:
    job["files"][0]["wall_s"] = 6.0
    job["misses"] = {}
    for number, row in enumerate(job["worker_phases"]):
        row["idle"] = 0.6 * job["wall_s"] if number else 0.0


def _threads_left_over(job: dict[str, Any]) -> None:
    """Five sub-jobs for five workers on eight cores: each has one thread, and three cores are idle."""
    rows = [dict(job["worker_phases"][0]) for _ in range(5)]
    job.update(workers=5, threads=1, subjobs=5, cpu_count=8, machine_cpu_count=8, worker_phases=rows)


def _one_worker(job: dict[str, Any]) -> None:
    job.update(workers=1, cpu_count=8, machine_cpu_count=8, worker_phases=job["worker_phases"][:1])


def _unshared(job: dict[str, Any]) -> None:
    """A file with one cluster in sixteen parts: one worker reads all parts, and decompresses the cluster for each
    chunk.
    """
    own = dict(job["files"][0])
    own |= {"subjobs": 16, "size_bytes": 125_000_000, "compressed_bytes": 625_000_000, "wall_s": 0.9 * job["wall_s"]}
    first = {**job["worker_phases"][0], "idle": 0.0, "decompress": 0.8 * job["wall_s"]}
    rest = [{**row, "decompress": 0.0, "wagons": 0.0, "idle": 0.95 * job["wall_s"]} for row in job["worker_phases"][1:]]
    job.update(files=[own], dataset=job["dataset"][:1], worker_phases=[first, *rest], misses={})
    job["files"][0]["late_reads"] = 8


ONE = ("c0",)
PLAIN_BUSY = {"wagons": 0.5, "decompress": 0.3, "decode": 0.2}

UNSHARED = {"idle": 0.7, "decompress": 0.2, "wagons": 0.1}
UNPACKING = {"decompress": 0.6, "decode": 0.35, "wagons": 0.05}
MOSTLY_READING = {"wait": 0.5, "decompress": 0.4, "wagons": 0.1}
THIN, BUFFERED = far(bandwidth="8MB/s"), far("plain", 5, "20MB/s", read_ahead=2**24)

#: Cases with a flaw in the files, the read or the job.
DATA_CASES = (
    DataCase("many small files", ("merge",), small_files),
    DataCase("baskets of half a kilobyte", ("layout-baskets",), rewritten("tiny-baskets", basket_size="500 B")),
    DataCase("one basket of 30 MB", ("layout-baskets",), one_huge_basket),
    DataCase("baskets of each branch together, far away", ("layout-order", "access"), by_branch, None, far("cache")),
    DataCase("compressed with LZMA", ("codec",), rewritten("lzma", codec="lzma:8")),
    DataCase("compressed with zlib at level 9", ("codec",), rewritten("zlib", codec="zlib:9")),
    DataCase("not compressed, over a thin link", ("codec",), rewritten("none", codec="none"), None, THIN),
    DataCase("an RNTuple of tiny clusters", ("layout-clusters",), tiny_clusters),
    DataCase("an RNTuple of tiny clusters, far away", ("layout-clusters",), tiny_clusters, None, far()),
    DataCase("a TTree of one cluster of 125 MB", ("layout-clusters",), one_cluster),
    DataCase("whole files read for one branch of 40", ("access", "slim"), wide, ONE, far("prefetch", 5, "10MB/s")),
    DataCase("basket by basket from far away", ("access",), rewritten("far", basket_size="32 kB"), ONE, far("plain")),
    DataCase("a cache of 100 kB from far away", ("access",), good, None, far("cache", tree_cache="100 kB")),
    DataCase("a client buffer of 16 MB for one branch of 40", ("access",), wide, ONE, BUFFERED),
    DataCase("a client buffer of 4 kB from far away", ("access",), wide, ONE, far("plain", 5, read_ahead=4096)),
)  # fmt: skip
JOB_CASES = (
    JobCase("one worker on eight free cores", ("workers",), made({"wagons": 0.95, "decode": 0.05}, _one_worker)),
    JobCase("three idle cores with five workers", ("workers-threads",), made(UNPACKING, _threads_left_over)),
    JobCase("a distant replica read although one is near", ("replicas",), made({"wait": 0.8, "wagons": 0.2}, _replica)),
    JobCase("distant files read again in each run", ("near",), made({"wait": 0.8, "wagons": 0.2}, _far_again)),
    JobCase("unused branches between the used ones", ("slim",), made({"wait": 0.8, "wagons": 0.2}, _wide_copy)),
    JobCase("three wagons run one by one", ("train-joined",), made(MOSTLY_READING, jobs=3)),
    JobCase("one heavy wagon in a train", ("train-split",), made({"wagons": 0.9, "decode": 0.1}, _heavy)),
    JobCase("a file of one cluster for four workers", ("layout-clusters",), made(UNSHARED, _unshared)),
    JobCase("branches learned while other workers wait", ("branches",), made({"idle": 0.5, "wagons": 0.5}, _learns)),
)  # fmt: skip
#: Cases without a flaw.
GOOD_CASES = (
    DataCase("a good TTree", (), good),
    DataCase("a good RNTuple", (), good_ntuple),
    DataCase("four good files", (), four_good),
    JobCase("a job that uses its cores", (), made(PLAIN_BUSY)),
    JobCase("a job of a second", (), real("few_events")),
)
