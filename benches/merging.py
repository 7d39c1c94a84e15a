"""Merging many files into one, compared with ROOT and `cat`. Whole processes are measured, until the output has its
name.

Warm inputs are in the page cache; cold inputs are evicted from it. Outputs are removed before each pass. ROOT's sort
orders are not available as a command, so a Python process calls TFileMerger. `cat` does not write a valid ROOT file; it
measures the speed of the disk.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benches import data
from benches.rounds import Case, Sample, Spread, ratio, seconds_of
from benches.tables import MEGA, opening, spread, table
from benches.worker import REPOSITORY
from branchline.lab.sampling.page_cache import forget

OURS, LEFT, HADD, CAT = "Branchline, by entry", "Branchline, --no-sync", "hadd -fk", "cat, synced"
CODEC = "zstd:5"
RECOMPRESSED, CODEC_ALONE = f"Branchline, --codec {CODEC}", f"{CODEC} alone"
# Numbers of files with only a small tree, to measure the cost per file.
INPUTS_COUNTS = (100, 1000, 5000)
KIB = 1024
# Goals.
TIMES_HADD_MIN, OF_CAT_MAX, OF_CODEC_MAX = 5, 1.2, 1.2

LAUNCHER = """
import os, sys, time
start = time.perf_counter()
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)])
_, status, used = os.wait4(child, 0)
print(time.perf_counter() - start, used.ru_maxrss, os.waitstatus_to_exitcode(status))
"""

SORTED = """
import sys, ROOT
merger = ROOT.TFileMerger(False)
merger.SetMergeOptions(sys.argv[1])
merger.SetPrintLevel(-1)
merger.OutputFile(sys.argv[2], "RECREATE", int(sys.argv[3]))
for path in sys.argv[4:]:
    merger.AddFile(path, False)
sys.exit(not merger.Merge())
"""


@dataclass(frozen=True)
class Merger:
    """A way of merging. ``command`` returns the command for an output and inputs."""

    key: str
    command: Callable[[str, list[str]], list[str]]
    makes_root: bool = True


def mergers() -> list[Merger]:
    """Return all ways of merging."""
    import ROOT

    hadd = str(Path(ROOT.__file__).parent / "bin" / "hadd")
    return [*_branchline(), *_root(hadd), *_plain()]


def _branchline() -> list[Merger]:
    def arm(key: str, *options: str) -> Merger:
        begin = [sys.executable, "-m", "branchline", "merge", *options, "-o"]
        return Merger(key, lambda output, files: [*begin, output, *files])

    orders = [arm(f"Branchline, by {order}", "--order", order) for order in ("entry", "branch", "offset")]
    return [
        *orders,
        arm(LEFT, "--no-sync"),
        arm("Branchline, --verify", "--verify"),
        arm(RECOMPRESSED, "--codec", CODEC),
        arm("Branchline, --cluster-bytes 30 MB", "--cluster-bytes", "30 MB"),
    ]


def _root(hadd: str) -> list[Merger]:
    def command(*options: str) -> Callable[[str, list[str]], list[str]]:
        return lambda output, files: [hadd, *options, "-v", "0", output, *files]

    def ordered(order: str) -> Callable[[str, list[str]], list[str]]:
        return lambda output, files: [sys.executable, "-c", SORTED, f"fast SortBasketsBy{order}", output, "101", *files]

    return [
        Merger(HADD, command("-fk")),
        Merger("hadd -ff", command("-ff")),
        *(Merger(f"TFileMerger, by {order.lower()}", ordered(order)) for order in ("Entry", "Branch", "Offset")),
    ]


def _plain() -> list[Merger]:
    def shell(end: str) -> Callable[[str, list[str]], list[str]]:
        return lambda output, files: [
            "sh",
            "-c",
            f"cat {shlex.join(files)} > {shlex.quote(output)}{end.format(shlex.quote(output))}",
        ]

    return [Merger("cat", shell(""), makes_root=False), Merger(CAT, shell(" && sync {}"), makes_root=False)]


def measure(merger: Merger, case: Case, output: Path, *, is_cold: bool) -> tuple[float, int, int | None]:
    """Return the seconds, the peak memory in bytes and the number of entries of a merge."""
    output.unlink(missing_ok=True)
    subprocess.run(["sync"], check=True)
    if is_cold:
        forget(case.files)
    seconds, peak = run(merger, output, case.files)
    return seconds, peak, entries_of(output, case.tree) if merger.makes_root else None


def run(merger: Merger, output: Path, files: list[str]) -> tuple[float, int]:
    """Run a merge and return its seconds and peak memory in bytes."""
    # Start the merge from a small process, since its peak memory includes the memory before exec.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "python"), str(REPOSITORY)])}
    # Cache compiled modules, as in an installation.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-S", "-c", LAUNCHER, *merger.command(str(output), files)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    seconds, peak_kib, status = done.stdout.split()[-3:]
    if status != "0":
        raise RuntimeError(f"{merger.key} ended with {status}: {done.stderr[-500:]}")
    return float(seconds), int(peak_kib) * KIB


def codec_alone(case: Case) -> float:
    """Return the seconds in which all cores decompress and recompress the same baskets."""
    from branchline import _core

    return float(_core.decompress_all(case.files, case.tree, None, os.cpu_count() or 1, CODEC).seconds)


def rows_of_many(folder: Path, counts: tuple[int, ...]) -> list[list[str]]:
    """Measure merging this many small files."""
    import numpy as np
    import uproot

    first = folder / "small.root"
    with uproot.recreate(first) as file:
        # Item assignment writes an RNTuple since uproot 5.7.
        columns = {f"x{number}": np.arange(100.0) + number for number in range(20)}
        file.mktree("events", {name: column.dtype for name, column in columns.items()}).extend(columns)
    rows = []
    output = folder / "merged.root"
    (ours,) = (merger for merger in _branchline() if merger.key == OURS)
    for count in counts:
        inputs = folder / f"{count}-inputs"
        shutil.rmtree(inputs, ignore_errors=True)
        inputs.mkdir()
        for number in range(count):
            shutil.copyfile(first, inputs / f"{number:05}.root")
        output.unlink(missing_ok=True)
        seconds, peak = run(ours, output, [str(inputs)])
        rows.append([f"{count}", f"{seconds:.2f}", f"{peak / MEGA:.0f}"])
        shutil.rmtree(inputs)
    output.unlink(missing_ok=True)
    return rows


def entries_of(path: Path, tree: str) -> int:
    """Return the number of entries of the merged tree."""
    import branchline

    return int(branchline.open(f"{path}:{tree}").num_entries)


def cases_of(cache: Path, files: int, events: int, progress: Callable[[str], None]) -> list[Case]:
    """Return the cases: small files of split objects, and the files of the demo."""
    split = [str(path) for path in data.split_object_files(cache, files, progress)]
    demo = [str(path) for path in data.collisions(cache, max(2, files // 5), events, progress)]
    found = []
    for name, paths, tree in (("split objects", split, data.SPLIT_TREE), ("demo", demo, data.TREE)):
        size = sum(Path(path).stat().st_size for path in paths)
        files_count = f"{len(paths)} files"
        found += [
            Case(f"{name}, {state}", "", files_count, paths, tree, None, 0, size, 0) for state in ("warm", "cold")
        ]
    return found


def rows_of(case: Case, arms: list[Merger], samples: list[Sample]) -> list[list[str]]:
    """Return a row for each way of merging."""
    rows = []
    for arm in arms:
        mine = [sample for sample in samples if (sample.case, sample.arm) == (case.name, arm.key)]
        seconds = Spread.of(list(seconds_of(samples, case.name, arm.key).values()))
        peak = max(sample.extra["peak_bytes"] for sample in mine) / MEGA
        size = mine[0].extra["size_bytes"] / MEGA
        ratios = [spread(ratio(samples, case.name, arm.key, other), digits=2) for other in (OURS, LEFT, CAT)]
        rows.append([arm.key, spread(seconds), f"{peak:.0f}", f"{size:.1f}", *ratios])
    return rows


def merging_page(
    cache: Path, files: int, events: int, repeats: int, progress: Callable[[str], None]
) -> tuple[str, list[Case], list[Sample]]:
    """Create the inputs, merge them in all ways, and return the page with its cases and samples."""
    cases, arms, samples = cases_of(cache, files, events, progress), mergers(), []
    if repeats == 1:
        cases = [case for case in cases if case.name.endswith("warm")]
    folder = cache / "merging"
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / "merged.root"
    warmups = min(1, repeats - 1)
    for number in range(1 - warmups, repeats + 1):
        order = random.Random(number).sample(arms, len(arms))
        for case in cases:
            progress(f"merging {case.name}: round {number} of {repeats}")
            for arm in order:
                seconds, peak, entries = measure(arm, case, output, is_cold=case.name.endswith("cold"))
                extra = {"peak_bytes": float(peak), "size_bytes": float(output.stat().st_size)}
                if number > 0:  # an additional round warms up programs and caches
                    samples.append(Sample(case.name, arm.key, number, seconds, entries, None, extra))
            if number > 0 and case.name.endswith("warm"):
                samples.append(Sample(case.name, CODEC_ALONE, number, codec_alone(case), None, None))
    output.unlink(missing_ok=True)
    for case in cases:
        counts = {sample.entries for sample in samples if sample.case == case.name} - {None}
        if len(counts) != 1:
            raise RuntimeError(f"{case.name}: outputs of {sorted(map(str, counts))} entries")
    many = rows_of_many(folder, INPUTS_COUNTS if repeats > 1 else INPUTS_COUNTS[:1])
    return _page(cases, arms, samples, (repeats, many)), cases, samples


def _page(cases: list[Case], arms: list[Merger], samples: list[Sample], measured: tuple[int, list[list[str]]]) -> str:
    repeats, many = measured
    head = ["merged with", "seconds", "peak MB", "output MB", f"x {OURS}", f"x {LEFT}", f"x {CAT}"]
    lines = opening("Merging many files into one", repeats, "wall time of a whole process")
    lines += [
        "Whole processes, median (lowest-highest); `x` columns are ratios to the seconds of the named process.",
        "Branchline waits until the output is on the disk, as `cat, synced` does; hadd, `cat` and Branchline with",
        f"`--no-sync` do not. Goals: {TIMES_HADD_MIN} times as fast as `hadd -fk` with warm files, and at most",
        f"{OF_CAT_MAX} times the seconds of `cat` if the disk is the bottleneck.",
    ]
    for case in cases:
        size = case.compressed_bytes / MEGA
        lines += [
            "",
            f"## {case.name}: {case.selection} of {size:.0f} MB",
            "",
            table(head, rows_of(case, arms, samples)),
        ]
        if case.name.endswith("warm"):
            lines += ["", *_compared_with_codec(case, samples)]
    lines += [
        "",
        "## Many small inputs, warm: 20 branches of 100 entries each, one pass",
        "",
        "Memory contains only the open inputs and the basket tables of the output.",
        "",
        table(["inputs", f"{OURS}: seconds", "peak MB"], many),
    ]
    return "\n".join(lines) + "\n"


def _compared_with_codec(case: Case, samples: list[Sample]) -> list[str]:
    """Return a sentence that compares recompression with the codec alone."""
    seconds = Spread.of(list(seconds_of(samples, case.name, CODEC_ALONE).values()))
    ratios = spread(ratio(samples, case.name, RECOMPRESSED, CODEC_ALONE), digits=2)
    return [
        f"Only decompressing the same baskets in memory and compressing them with {CODEC} on all cores takes",
        f"{spread(seconds)} s. `--codec {CODEC}` takes {ratios} times as long (goal: at most {OF_CODEC_MAX}).",
    ]
