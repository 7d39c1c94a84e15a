"""Tables of a run, in Markdown: ratios with their spread, and the seconds they come from."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import os
import platform
from pathlib import Path

from benches.arms import BRANCHLINE, DATA_FRAME, GET_ENTRY, LIMIT, PEERS, UPROOT, Arm
from benches.rounds import Case, Sample, Spread, fastest, ratio, seconds_of

MEGA = 1e6
# What Branchline is to reach on all branches with equal cores: times as fast as a peer, share of the limit.
TARGET_OVER_PEERS = {"zlib": 2.5, "LZ4": 2.5, "zstd": 1.7, "LZMA": 1.0}
TARGET_OF_LIMIT = 0.85
TARGET_TWO_CORES = 1.9
# The peers that TARGET_OVER_PEERS holds for; ahead of the others is enough.
TARGET_PEERS = (UPROOT, GET_ENTRY)


def cpu_name() -> str:
    """The processor's own name for itself."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def conditions(repeats: int) -> dict[str, str]:
    """What the numbers hold for."""
    packages = ("branchline", "uproot", "awkward", "numpy", "root", "cramjam")
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "processor": f"{cpu_name()}, {os.cpu_count()} cores",
        "system": platform.platform(),
        "load before": f"{os.getloadavg()[0]:.1f}",
        "versions": ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
        + f", Python {platform.python_version()}",
        "repeats": f"{repeats} interleaved rounds after one warm-up; files in the page cache",
    }


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table whose columns line up as plain text too."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(cells: list[str]) -> str:
        first = cells[0].ljust(widths[0])
        return "| " + " | ".join([first, *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))]) + " |"

    rule = "|" + "|".join(["-" * (widths[0] + 2), *("-" * (w + 1) + ":" for w in widths[1:])]) + "|"
    return "\n".join([line(head), rule, *(line(row) for row in rows)])


def spread(numbers: Spread, scale: float = 1.0, digits: int = 2, unit: str = "") -> str:
    """`median (lowest-highest)`."""
    low, mid, high = (f"{n * scale:.{digits}f}" for n in (numbers.low, numbers.median, numbers.high))
    return f"{mid}{unit} ({low}-{high})"


def arms_of(arms: list[Arm], family: str, cores: int) -> list[Arm]:
    return [arm for arm in arms if arm.family == family and arm.cores == cores]


def ratio_table(arms: list[Arm], cases: list[Case], samples: list[Sample]) -> str:
    """Branchline against the best setting of each peer and against the limit, one line per case and number of cores."""
    rows = []
    for case in cases:
        for cores in sorted({arm.cores for arm in arms}):
            (ours,) = arms_of(arms, BRANCHLINE, cores)
            took = Spread.of(list(seconds_of(samples, case.name, ours.key).values()))
            row = [case.codec, case.selection, str(cores), spread(took, digits=3)]
            row += [f"{size / MEGA / took.median:.0f}" for size in (case.plain_bytes, case.compressed_bytes)]
            for family in PEERS:
                peer = fastest(samples, case.name, arms_of(arms, family, cores))
                row.append(spread(ratio(samples, case.name, peer.key, ours.key)))
            (limit,) = arms_of(arms, LIMIT, cores)
            row.append(spread(ratio(samples, case.name, limit.key, ours.key), scale=100, digits=0))
            row.append(two_core_gain(arms, case, samples) if cores > 1 else "")
            rows.append(row)
    head = ["codec", "read", "cores", "Branchline s", "plain MB/s", "compressed MB/s"]
    head += [f"x {family}" for family in PEERS] + ["% of the limit", "x one core"]
    return table(head, rows)


def two_core_gain(arms: list[Arm], case: Case, samples: list[Sample]) -> str:
    """How much faster two cores are than one."""
    (one,), (two,) = arms_of(arms, BRANCHLINE, 1), arms_of(arms, BRANCHLINE, 2)
    return spread(ratio(samples, case.name, one.key, two.key))


def shortfalls(arms: list[Arm], cases: list[Case], samples: list[Sample]) -> list[str]:
    """The targets that the medians miss, in words."""
    missed = []

    def check(case: Case, cores: int, what: str, reached: float, wanted: float) -> None:
        if reached < wanted:
            missed.append(f"{case.name}, {cores} core(s): {what} is {reached:.2f}, to reach {wanted:.2f}")

    for case in (c for c in cases if c.branches is None):
        for cores in sorted({arm.cores for arm in arms}):
            (ours,), (limit,) = arms_of(arms, BRANCHLINE, cores), arms_of(arms, LIMIT, cores)
            share = ratio(samples, case.name, limit.key, ours.key).median
            check(case, cores, "share of the limit", share, TARGET_OF_LIMIT)
            for family in PEERS:
                peer = fastest(samples, case.name, arms_of(arms, family, cores))
                wanted = TARGET_OVER_PEERS[case.codec] if family in TARGET_PEERS else 1.0
                check(case, cores, f"speed over {family}", ratio(samples, case.name, peer.key, ours.key).median, wanted)
        (one,), (two,) = arms_of(arms, BRANCHLINE, 1), arms_of(arms, BRANCHLINE, 2)
        gain = ratio(samples, case.name, one.key, two.key).median
        check(case, 2, "gain over one core", gain, TARGET_TWO_CORES)
    return missed


def seconds_table(arms: list[Arm], case: Case, samples: list[Sample]) -> str:
    """Every arm of a case: seconds, throughput, and what it counted."""
    rows = []
    for arm in arms:
        mine = [s for s in samples if s.case == case.name and s.arm == arm.key]
        took = Spread.of([s.seconds for s in mine])
        entries, values = ("" if n is None else str(n) for n in (mine[0].entries, mine[0].values))
        row = [arm.key, spread(took, digits=3), f"{case.plain_bytes / MEGA / took.median:.0f}"]
        rows.append([*row, f"{case.compressed_bytes / MEGA / took.median:.0f}", entries, values])
    return table(["reader", "seconds", "plain MB/s", "compressed MB/s", "entries", "values"], rows)


def case_line(case: Case) -> str:
    """The sizes of a case in words."""
    return (
        f"{len(case.files)} files, {case.baskets} baskets, {case.compressed_bytes / MEGA:.1f} MB compressed, "
        f"{case.plain_bytes / MEGA:.1f} MB after decompression"
    )


def opening(title: str, repeats: int) -> list[str]:
    """Title and conditions of a page."""
    return [f"# {title}", "", *(f"- {name}: {text}" for name, text in conditions(repeats).items()), ""]


def readers_page(arms: list[Arm], cases: list[Case], samples: list[Sample], repeats: int) -> str:
    """The page of the comparison of readers."""
    lines = opening("Branchline, uproot and ROOT on the same files", repeats)
    lines += [
        "One core is one processor that the whole process is bound to, two are two. Ratios say how many times the",
        f"seconds of Branchline the fastest setting of {UPROOT}, {GET_ENTRY} and {DATA_FRAME} (both compiled)",
        "takes, and what part of Branchline's seconds decompression alone takes: median (lowest-highest) of the ratios",
        "taken pair by pair within the rounds. MB are 10^6 bytes of the branches' baskets.",
        "",
        ratio_table(arms, cases, samples),
        "",
        "## Targets missed",
        "",
    ]
    missed = shortfalls(arms, cases, samples)
    lines += [f"- {text}" for text in missed] or ["None: all branches reach every target."]
    for case in cases:
        lines += ["", f"## {case.name}", "", case_line(case), "", seconds_table(arms, case, samples)]
    return "\n".join(lines) + "\n"
