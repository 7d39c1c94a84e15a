"""Files of 100 events with some 480 branches of split objects: opening counts as much as reading there.

Every reader reads the branches that Branchline reads; uproot leaves out those of them that it cannot read itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benches.arms import BRANCHLINE, GET_ENTRY, UPROOT, Arm, split_object_arms
from benches.data import SPLIT_TREE, basket_sizes, split_object_files
from benches.rounds import Case, Sample, Spread, fastest, ratio, run_rounds
from benches.tables import arms_of, case_line, opening, spread, table


def readable_branches(path: Path) -> list[str]:
    """The chains of names of the branches with values that Branchline reads."""
    import branchline

    tree = branchline.open(f"{path}:{SPLIT_TREE}")
    return [name for name in tree.keys() if tree[name].readable and tree[name].baskets_count]


def measured_table(arms: list[Arm], case: Case, samples: list[Sample]) -> str:
    """Events per second, time per file and read calls per file of every arm."""
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
    """Branchline against the fastest setting of each peer that was measured on as many cores."""
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
    """Makes the files, measures, and gives the page with its cases and samples."""
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
        f"Each pass opens each file and reads its {len(branches)} branches with values that Branchline reads; events/s",
        "count whole events. Read calls are those of the reader to the file; uproot maps the files into memory, and",
        "its calls are the ranges that it asked for.",
        "",
        measured_table(arms, case, samples),
        "",
        *ratio_lines(arms, case, samples),
    ]
    return "\n".join(lines) + "\n", [case], samples
