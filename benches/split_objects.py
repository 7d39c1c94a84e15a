"""Files of 100 events with some 480 branches of split objects, for which opening takes as long as reading.

Every reader reads the branches that Branchline supports, except that uproot skips branches that it cannot read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benches.arms import BRANCHLINE, GET_ENTRY, UPROOT, Arm, split_object_arms
from benches.data import SPLIT_TREE, basket_sizes, split_object_files
from benches.rounds import Case, Sample, Spread, fastest, ratio, run_rounds
from benches.tables import arms_of, case_line, opening, spread, table


def readable_branches(path: Path) -> list[str]:
    """Return the full names of the branches with values that Branchline reads."""
    import branchline

    tree = branchline.open(f"{path}:{SPLIT_TREE}")
    return [name for name in tree.keys() if tree[name].readable and tree[name].baskets_count]


def measured_table(arms: list[Arm], case: Case, samples: list[Sample]) -> str:
    """Return a table of events per second, time per file and read calls per file of every arm."""
    files = len(case.files)
    rows = []
    for arm in arms:
        mine = [s for s in samples if s.arm == arm.key]
        took = Spread.of([s.seconds for s in mine])
        rate = Spread.of([(s.entries or 0) / s.seconds for s in mine])
        calls = mine[0].extra.get("read_calls")
        branches = mine[0].extra.get("branches", len(case.branches or []))
        row = [arm.key, f"{branches:.0f}", spread(took, digits=3), spread(rate, digits=0)]
        rows.append([*row, f"{took.median / files * 1e3:.2f}", "" if calls is None else f"{calls / files:.1f}"])
    return table(["reader", "branches", "seconds", "events/s", "ms per file", "read calls per file"], rows)


def ratio_lines(arms: list[Arm], case: Case, samples: list[Sample]) -> list[str]:
    """Compare Branchline with the fastest setting of each peer on the same number of cores."""
    lines = []
    for cores in sorted({arm.cores for arm in arms}):
        (ours,) = arms_of(arms, BRANCHLINE, cores)
        for family in (GET_ENTRY, UPROOT):
            rivals = arms_of(arms, family, cores)
            if rivals:
                best = fastest(samples, case.name, rivals)
                times = spread(ratio(samples, case.name, best.key, ours.key))
                lines.append(f"- {cores} core(s): {times} times as fast as {best.name}")
    return lines


def split_object_pages(
    cache: Path, count: int, repeats: int, progress: Callable[[str], None]
) -> tuple[str, list[Case], list[Sample]]:
    """Create the files, measure, and return the page with its cases and samples."""
    files = split_object_files(cache, count, progress)
    branches = readable_branches(files[0])
    sizes = basket_sizes(files, SPLIT_TREE, branches)
    paths = [str(path) for path in files]
    case = Case("split objects", "zlib", f"{len(branches)} branches", paths, SPLIT_TREE, branches, **sizes)
    arms = split_object_arms()
    samples = run_rounds(arms, [case], repeats, {"cache": str(cache), "columns": {}}, progress)
    lines = opening("Small files of split objects with hundreds of branches", repeats)
    lines += [
        f"{case_line(case)}.",
        f"Each pass opens each file and reads the {len(branches)} branches with values that Branchline supports.",
        "Events/s are complete events. Read calls are counted by the reader; for uproot, which maps the files into",
        "memory, they are the ranges that it requested.",
        "",
        measured_table(arms, case, samples),
        "",
        *ratio_lines(arms, case, samples),
    ]
    return "\n".join(lines) + "\n", [case], samples
