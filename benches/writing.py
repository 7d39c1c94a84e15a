"""Writing a TTree and an RNTuple from arrays in memory with Branchline, uproot and ROOT, on one core and on all.

Each writer is a separate process (`benches/writers.py`). Times are from its first call until the file is closed. Codecs
are compared at equivalent levels: zstd levels are twice as high in ROOT's numbers, and uproot's LZ4 is ROOT's fast LZ4
at every level. ROOT fills entry by entry in compiled code; on several cores it writes a TTree with TBufferMerger and
implicit multithreading, and an RNTuple with RNTupleParallelWriter, with one thread per core.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from benches.conditions import codec_versions, machine_lines
from benches.tables import table
from benches.worker import REPOSITORY
from benches.writers import TREE, WRITERS, Order, arrays_of


@dataclass(frozen=True)
class Codec:
    """Equivalent settings in the numbers of each writer; uproot's is None if it does not support the codec."""

    name: str
    ours: str
    root: int
    uproot: int | None


CODECS = (
    Codec("none", "none", 0, 0),
    Codec("LZ4, fast", "lz4:1", 401, 401),
    Codec("LZ4, thorough", "lz4:4", 404, None),
    Codec("zlib 1", "zlib:1", 101, 101),
    Codec("zstd 4", "zstd:2", 502, 504),
    Codec("zstd 10", "zstd:5", 505, 510),
    Codec("LZMA 1", "lzma:1", 201, 201),
)
#: This codec gets a third of the rounds, since a pass takes as long as a round of all others.
SLOW = "LZMA 1"
KINDS = ("TTree", "RNTuple")
SHAPES = ("fixed", "jagged")
#: Files in memory exclude the disk. On a disk, all writers must sync the file, as Branchline does.
IN_MEMORY = Path("/dev/shm")
OURS, UPROOT, ROOT = WRITERS
LIMIT_PASSES = 3
ABOUT = (
    "{events} entries of 12 floats (fixed) or of 4 lists of 0 to 7 floats (jagged) in memory. Seconds are medians of "
    "{repeats} rounds ({slow} of LZMA) in rotating order. Files are in memory, too, except in rows labelled `on the "
    "disk`: there every writer waits until the file is on the disk, Branchline by default and the others with an "
    "fsync. zstd 4 and 10 are zstd's levels, which are ROOT's 2 and 5. The lists of a TTree share one counter. Baskets "
    "have 1 MiB in all writers; ROOT's default of 32 kB, which grows after the first 30 MB, compresses less in less "
    "time. On several cores ROOT writes with TBufferMerger and RNTupleParallelWriter; uproot has one thread. uproot "
    "read every file of Branchline, and its values were compared with the input.",
    "**x uproot** and **x ROOT** are the speedups of Branchline: medians of the ratios within a round, of wall seconds "
    "and, after the slash, of CPU seconds. The limit is only the compression of the same bytes with the same codec, "
    "and one write of the file. **% of the limit** is its CPU time in per cent of Branchline's. **limit x uproot** is "
    "its speedup over uproot in CPU time, an upper bound for every writer with the same codec on one core. Below 2, "
    "the codec is the bottleneck, or the kernel if the data is not compressed. Above 2, the remaining time is "
    "Branchline's own work: byte order, checksums, and the overhead of calls in Python, which matters for files that "
    "take 10 ms. The limit excludes pages of an RNTuple that do not compress, and counts pages shared by several "
    "columns, such as list offsets, once per column.",
)


@dataclass(frozen=True)
class Case:
    """A file written by all writers."""

    kind: str
    shape: str
    codec: Codec
    cores: int
    place: Path | None

    @property
    def name(self) -> str:
        """The label of the row."""
        return f"{self.kind}, {self.shape}, {self.codec.name}{'' if self.place else ', on the disk'}"


@dataclass(frozen=True)
class Written:
    """A measurement: the passes of a writer, by round."""

    case: str
    cores: int
    writer: str
    wall_s: list[float]
    cpu_s: list[float]
    file_bytes: int


class Writer:
    """A process that writes the files of its orders."""

    def __init__(self, name: str, cores: int) -> None:
        words = [sys.executable, "-W", "ignore", "-m", "benches.writers", name, str(cores)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, cwd=REPOSITORY)

    def write(self, order: Order) -> tuple[float, float]:
        """Return the wall and CPU seconds of one pass. Raises RuntimeError if the process ends."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(order)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            msg = f"the writer of {order} ended with exit code {self._process.wait()}"
            raise RuntimeError(msg)
        wall_s, cpu_s = json.loads(line)
        return wall_s, cpu_s

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def writing_page(events: int, repeats: int, progress: Callable[[str], None]) -> tuple[str, list[dict[str, object]]]:
    """Measure, and return the page with all measurements and its rows."""
    cores_all = sorted({1, len(os.sched_getaffinity(0))})
    places = [(codec, IN_MEMORY) for codec in CODECS if IN_MEMORY.is_dir()] + [(CODECS[1], None)]
    cases = [
        Case(kind, shape, codec, cores, place)
        for kind in KINDS
        for shape in SHAPES
        for codec, place in places
        for cores in cores_all
    ]
    rows, measured = [], []
    for cores in cores_all:
        writers = {name: Writer(name, cores) for name in WRITERS}
        for case in [case for case in cases if case.cores == cores]:
            progress(f"writing {case.name}, {cores} cores")
            rounds = max(1, repeats // 3) if case.codec.name == SLOW else repeats
            with tempfile.TemporaryDirectory(prefix="branchline-bench-", dir=case.place) as folder:
                of_case, limit_s = _measured(case, writers, Path(folder, "a.root"), events, rounds)
            rows.append(_row(case, of_case, limit_s))
            measured += [{**asdict(one), "limit_cpu_s": limit_s} for one in of_case]
        for writer in writers.values():
            writer.close()
    return _page(rows, events, repeats), measured


def _measured(
    case: Case, writers: dict[str, Writer], path: Path, events: int, rounds: int
) -> tuple[list[Written], float]:
    """Measure all writers in rotating order, after a warm-up round, and the CPU seconds of the limit."""
    codes = {OURS: 0, UPROOT: case.codec.uproot, ROOT: case.codec.root}
    passes: dict[str, list[tuple[float, float]]] = {name: [] for name, code in codes.items() if code is not None}
    sizes, limit_s = {}, 0.0
    for number in range(rounds + 1):
        for name in passes:
            order = Order(
                str(path), case.kind, case.shape, events, case.codec.ours, codes[name] or 0, case.place is None
            )
            took = writers[name].write(order)
            sizes[name] = path.stat().st_size
            if number:
                passes[name].append(took)
            elif name == OURS:
                _check(path, case, events)
                limit_s = _limit_s(path, case.codec.ours)
            path.unlink()
    written = [
        Written(case.name, case.cores, name, *([*column] for column in zip(*of_one, strict=True)), sizes[name])
        for name, of_one in passes.items()
    ]
    return written, limit_s


def _check(path: Path, case: Case, events: int) -> None:
    """Raise RuntimeError unless uproot reads the values that were written."""
    import awkward as ak
    import uproot

    read = uproot.open(path)[TREE].arrays()
    for name, given in arrays_of(case.shape, events).columns("RNTuple").items():
        if ak.to_list(ak.num(read, axis=0)) != events or not ak.array_equal(read[name], given, dtype_exact=False):
            msg = f"{path}: values of {name} read by uproot differ from those written"
            raise RuntimeError(msg)


def _limit_s(path: Path, codec: str) -> float:
    """Return the CPU seconds of compressing the content of a file, and of writing its bytes in one call."""
    from branchline import _core

    def cpu_s(work: Callable[[], object]) -> float:
        """Return the CPU seconds of the fastest of several passes."""
        took = []
        for _ in range(LIMIT_PASSES):
            begin_s = time.process_time()
            work()
            took.append(time.process_time() - begin_s)
        return min(took)

    stored = path.read_bytes()
    limit_s = cpu_s(lambda: path.with_suffix(".copy").write_bytes(stored))
    if codec != "none":
        both_s = cpu_s(lambda: _core.decompress_all([str(path)], TREE, None, 1, codec))
        limit_s += both_s - cpu_s(lambda: _core.decompress_all([str(path)], TREE, None, 1))
    return limit_s


def _row(case: Case, measured: list[Written], limit_s: float) -> list[str]:
    by_writer = {one.writer: one for one in measured}
    ours = by_writer[OURS]
    cpu_s = median(ours.cpu_s)
    row = [case.name, str(case.cores), f"{median(ours.wall_s):.3f}", f"{cpu_s:.3f}", f"{ours.file_bytes / 1e6:.1f}"]
    for name in (UPROOT, ROOT):
        peer = by_writer.get(name)
        row.append(f"{_times(peer.wall_s, ours.wall_s)} / {_times(peer.cpu_s, ours.cpu_s)}" if peer else "")
        row.append(f"{peer.file_bytes / 1e6:.1f}" if peer else "")
    uproot = by_writer.get(UPROOT)
    return [*row, f"{100 * limit_s / cpu_s:.0f}", f"{median(uproot.cpu_s) / limit_s:.2f}" if uproot else ""]


def _times(theirs: list[float], ours: list[float]) -> str:
    """Return the median ratio of a peer's seconds to Branchline's, pair by pair within the rounds."""
    return f"{median(one / other for one, other in zip(theirs, ours, strict=True)):.2f}"


def _page(rows: list[list[str]], events: int, repeats: int) -> str:
    head = ["what", "cores", "s", "CPU s", "MB", "x uproot", "its MB", "x ROOT", "its MB"]
    head += ["% of the limit", "limit x uproot"]
    about = [text.format(events=events, repeats=repeats, slow=max(1, repeats // 3)) for text in ABOUT]
    codecs = f"- Branchline's codecs: {codec_versions()}"
    lines = ["# Writing", "", *machine_lines(repeats), codecs, "", about[0], "", about[1], "", table(head, rows), ""]
    return "\n".join(lines)
