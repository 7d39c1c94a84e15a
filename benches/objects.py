"""Branches of objects and containers, kind by kind: Branchline, uproot and ROOT's GetEntry on one core.

Every kind has a file of its own with one branch, which ROOT writes with dictionaries of all classes, and reads with
them, too. uproot reads what it can; where it cannot, its column is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benches.arms import BRANCHLINE, GET_ENTRY, LIMIT, UPROOT, Arm, arms_of_objects
from benches.data import basket_sizes
from benches.root_loops import compile_loops
from benches.rounds import Case, Sample, Spread, fastest, ratio, run_rounds
from benches.tables import arms_of, opening, spread, table

TREE = "tree"
BRANCH = "values"
KINDS = (
    "TLorentzVector",
    "vector<TLorentzVector>",
    "vector<TLorentzVector>, split",
    "vector<vector<TLorentzVector>>",
    "class with bases, members and a pointer",
    "class, split",
    "vector of vectors",
    "strings",
    "map of strings, memberwise",
    "map of vectors, memberwise",
    "pairs, memberwise",
    "TClonesArray, unsplit",
    "TObjArray",
    "TH1F",
)
# uproot 5.7 takes headers of these for lengths and fills any memory.
NOT_FOR_UPROOT = ("pairs, memberwise",)


def written(cache: Path, kind: str, entries: int, progress: Callable[[str], None]) -> Path:
    """The file of a kind, which is made once."""
    name = "".join(letter if letter.isalnum() else "_" for letter in kind)
    path = cache / "objects" / f"{name}-{entries}.root"
    if not path.exists():
        progress(f"writing {entries} entries of {kind}")
        path.parent.mkdir(parents=True, exist_ok=True)
        compile_loops(cache, {}).objects.WriteKind(str(path), kind, entries)
    return path


def case_of(kind: str, path: Path) -> Case:
    """Reading all branches with values of the file of a kind."""
    import branchline

    tree = branchline.open(f"{path}:{TREE}")
    branches = [name for name in tree.keys() if tree[name].readable and tree[name].baskets_count]
    sizes = basket_sizes([path], TREE, branches)
    return Case(kind, "zlib", f"{len(branches)} branches", [str(path)], TREE, branches, **sizes)


def kind_row(arms: list[Arm], case: Case, samples: list[Sample]) -> list[str]:
    """The speed of every reader, and how much faster Branchline is than its peers."""
    mine = [sample for sample in samples if sample.case == case.name]
    row = [case.name, str(len(case.branches or [])), f"{case.plain_bytes / 1e6:.1f}"]
    (ours,) = arms_of(arms, BRANCHLINE, 1)
    seconds = Spread.of([s.seconds for s in mine if s.arm == ours.key])
    row += [spread(seconds, scale=1e3, digits=1), f"{case.plain_bytes / 1e6 / seconds.median:.0f}"]
    (limit,) = arms_of(arms, LIMIT, 1)
    uproot = fastest_of(UPROOT, arms, case, mine)
    for rival in (uproot, fastest_of(GET_ENTRY, arms, case, mine)):
        row.append(spread(ratio(samples, case.name, rival.key, ours.key)) if rival else "cannot")
    row.append(spread(ratio(samples, case.name, limit.key, ours.key), scale=100, digits=0))
    row.append(spread(ratio(samples, case.name, uproot.key, limit.key)) if uproot else "")
    return row


def fastest_of(family: str, arms: list[Arm], case: Case, samples: list[Sample]) -> Arm | None:
    """The fastest setting of a peer; none if it does not read all branches."""
    rivals = [arm for arm in arms_of(arms, family, 1) if reads_all(arm, samples, case)]
    return fastest(samples, case.name, rivals) if rivals else None


def reads_all(arm: Arm, samples: list[Sample], case: Case) -> bool:
    """Whether a reader reads all branches of a case."""
    counts = [s.extra.get("branches") for s in samples if s.arm == arm.key]
    return bool(counts) and all(count is None or count == len(case.branches or []) for count in counts)


def objects_page(
    cache: Path, entries: int, repeats: int, progress: Callable[[str], None]
) -> tuple[str, list[Case], list[Sample]]:
    """Writes the files, measures, and gives the page with its cases and samples."""
    cases = [case_of(kind, written(cache, kind, entries, progress)) for kind in KINDS]
    arms = arms_of_objects()
    setup: dict[str, object] = {"cache": str(cache), "columns": {}}
    for_all = [case for case in cases if case.name not in NOT_FOR_UPROOT]
    samples = run_rounds(arms, for_all, repeats, setup, progress)
    others = [arm for arm in arms if arm.family != UPROOT]
    samples += run_rounds(others, [case for case in cases if case not in for_all], repeats, setup, progress)
    head = ["kind", "branches", "plain MB", "Branchline ms", "plain MB/s", "x uproot", "x GetEntry"]
    head += ["% of the limit", "limit x uproot"]
    lines = opening("Objects and containers", repeats)
    lines += [
        f"Files of {entries} entries (of TH1F a quarter), one core. A pass opens the file and reads every branch",
        "with values; bytes are those after decompression. The last columns say how many times as fast Branchline is",
        "as the fastest setting of a peer, which has the dictionaries of all classes where it is ROOT; the limit is",
        "decompression alone: its seconds in per cent of Branchline's, and how many times it is as fast as uproot,",
        "which no reader of these files can exceed. Most values are random, and compressed ones take long to unpack.",
        "",
        table(head, [kind_row(arms, case, samples) for case in cases]),
    ]
    return "\n".join(lines) + "\n", cases, samples
