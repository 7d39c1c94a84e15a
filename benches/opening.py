"""Opening files with 1500 branches: the processor's time until a tree can be asked for its branches.

Each file is opened first by a process that has opened nothing before, as a job does, and then again and again, as the
next files of a dataset are, whose classes are known by then.
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
# What is to be reached.
CPU_MS_MAX = 5
TIMES_UPROOT_MIN = 20


def written(cache: Path, kind: str, progress: Callable[[str], None]) -> Path:
    """A file with a tree of 1500 branches, which is made once."""
    path = cache / "opening" / f"{kind.replace(' ', '_')}-{BRANCHES}.root"
    if not path.exists():
        progress(f"writing {BRANCHES} branches of {kind}")
        path.parent.mkdir(parents=True, exist_ok=True)
        compile_loops(cache, {}).objects.WriteWide(str(path), kind, BRANCHES)
    return path


def case_of(kind: str, path: Path) -> Case:
    """Opening this file; the sizes are those of the whole file."""
    import branchline

    branches = branchline.open(f"{path}:{TREE}").keys()
    size = path.stat().st_size
    return Case(kind, "zlib", f"{len(branches)} branches", [str(path)], TREE, None, size, size, 0)


def row(arms: list[Arm], case: Case, samples: list[Sample], *, is_first: bool) -> list[str]:
    """Milliseconds of both readers, and how many times as fast Branchline is."""
    chosen = [arm for arm in arms if arm.options["is_first"] == is_first]
    (ours,), (theirs,) = arms_of(chosen, BRANCHLINE, 1), arms_of(chosen, UPROOT, 1)
    times = [Spread.of(list(seconds_of(samples, case.name, arm.key).values())) for arm in (ours, theirs)]
    when = "first" if is_first else "again"
    cells = [case.name, case.selection.split()[0], when, *(spread(one, scale=1e3) for one in times)]
    return [*cells, spread(ratio(samples, case.name, theirs.key, ours.key), digits=1)]


def opening_page(cache: Path, repeats: int, progress: Callable[[str], None]) -> tuple[str, list[Case], list[Sample]]:
    """Writes the files, measures, and gives the page with its cases and samples."""
    cases = [case_of(kind, written(cache, kind, progress)) for kind in KINDS]
    arms = arms_of_opening()
    samples = run_rounds(arms, cases, repeats, {"cache": str(cache), "columns": {}}, progress)
    head = ["branches of", "branches", "opened", "Branchline ms", "uproot ms", "x uproot"]
    rows = [row(arms, case, samples, is_first=is_first) for case in cases for is_first in (True, False)]
    lines = opening("Opening files with 1500 branches", repeats)
    lines += [
        "Processor's time, of all threads, of opening a file and its tree up to where the branches can be asked for;",
        "median (lowest-highest). `first` is in a process that opened nothing before, `again` the mean of",
        f"{OPENINGS} openings after that. To be reached: {CPU_MS_MAX} ms, {TIMES_UPROOT_MIN} times as fast as uproot.",
        "",
        table(head, rows),
    ]
    return "\n".join(lines) + "\n", cases, samples
