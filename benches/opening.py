"""Measures the CPU time of opening files with 1500 branches, until the branches of the tree are available.

Each file is opened by a new process, like the first file of a job, and then repeatedly, like later files of a dataset,
whose classes are already known.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benches.arms import BRANCHLINE, UPROOT, Arm, arms_of_opening
from benches.readers import OPENINGS
from benches.root_loops import compile_loops
from benches.rounds import Case, Sample, Spread, ratio, run_rounds, seconds_of
from benches.tables import arms_of, opening, spread, table

BRANCHES = 1500
TREE = "tree"
KINDS = ("numbers and arrays", "split objects")
# Goals.
CPU_MS_MAX = 5
TIMES_UPROOT_MIN = 20


def written(cache: Path, kind: str, progress: Callable[[str], None]) -> Path:
    """Write a file with a tree of 1500 branches, unless it exists."""
    path = cache / "opening" / f"{kind.replace(' ', '_')}-{BRANCHES}.root"
    if not path.exists():
        progress(f"writing {BRANCHES} branches of {kind}")
        path.parent.mkdir(parents=True, exist_ok=True)
        compile_loops(cache, {}).objects.WriteWide(str(path), kind, BRANCHES)
    return path


def case_of(kind: str, path: Path) -> Case:
    """Return the case of opening this file, with the sizes of the whole file."""
    import branchline

    branches = branchline.open(f"{path}:{TREE}").keys()
    size = path.stat().st_size
    return Case(kind, "zlib", f"{len(branches)} branches", [str(path)], TREE, None, size, size, 0)


def row(arms: list[Arm], case: Case, samples: list[Sample], *, is_first: bool) -> list[str]:
    """Return the milliseconds of both readers, and Branchline's speedup."""
    chosen = [arm for arm in arms if arm.options["is_first"] == is_first]
    (ours,), (theirs,) = arms_of(chosen, BRANCHLINE, 1), arms_of(chosen, UPROOT, 1)
    times = [Spread.of(list(seconds_of(samples, case.name, arm.key).values())) for arm in (ours, theirs)]
    when = "first" if is_first else "again"
    cells = [case.name, case.selection.split()[0], when, *(spread(one, scale=1e3) for one in times)]
    return [*cells, spread(ratio(samples, case.name, theirs.key, ours.key), digits=1)]


def opening_page(cache: Path, repeats: int, progress: Callable[[str], None]) -> tuple[str, list[Case], list[Sample]]:
    """Write the files, measure, and return the page with its cases and samples."""
    cases = [case_of(kind, written(cache, kind, progress)) for kind in KINDS]
    arms = arms_of_opening()
    samples = run_rounds(arms, cases, repeats, {"cache": str(cache), "columns": {}}, progress)
    head = ["branches of", "branches", "opened", "Branchline ms", "uproot ms", "x uproot"]
    rows = [row(arms, case, samples, is_first=is_first) for case in cases for is_first in (True, False)]
    lines = opening("Opening files with 1500 branches", repeats)
    lines += [
        "CPU time of all threads to open a file and its tree, until its branches are available; median",
        f"(lowest-highest). `first` is the first opening in a new process, `again` the mean of {OPENINGS} further",
        f"openings. Goals: {CPU_MS_MAX} ms, {TIMES_UPROOT_MIN} times as fast as uproot.",
        "",
        table(head, rows),
    ]
    return "\n".join(lines) + "\n", cases, samples
