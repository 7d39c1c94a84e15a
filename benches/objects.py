"""Branches of objects and containers of each kind, read on one core by Branchline, uproot and ROOT's GetEntry.

Each kind has a file with one branch, written and read by ROOT with dictionaries of all classes. The column of uproot is
empty for kinds that it cannot read.
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
# uproot 5.7 mistakes their headers for lengths and exhausts the memory.
NOT_FOR_UPROOT = ("pairs, memberwise",)


def written(cache: Path, kind: str, entries: int, progress: Callable[[str], None]) -> Path:
    """Write the file of a kind, unless it exists."""
    name = "".join(letter if letter.isalnum() else "_" for letter in kind)
    path = cache / "objects" / f"{name}-{entries}.root"
    if not path.exists():
        progress(f"writing {entries} entries of {kind}")
        path.parent.mkdir(parents=True, exist_ok=True)
        compile_loops(cache, {}).objects.WriteKind(str(path), kind, entries)
    return path


def case_of(kind: str, path: Path) -> Case:
    """Return the case of reading all branches with values in the file of a kind."""
    import branchline

    tree = branchline.open(f"{path}:{TREE}")
    branches = [name for name in tree.keys() if tree[name].readable and tree[name].baskets_count]
    sizes = basket_sizes([path], TREE, branches)
    return Case(kind, "zlib", f"{len(branches)} branches", [str(path)], TREE, branches, **sizes)


def kind_row(arms: list[Arm], case: Case, samples: list[Sample]) -> list[str]:
    """Return the speed of every reader, and Branchline's speedup over its peers."""
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
    """Return the fastest setting of a peer, or None if it does not read all branches."""
    rivals = [arm for arm in arms_of(arms, family, 1) if reads_all(arm, samples, case)]
    return fastest(samples, case.name, rivals) if rivals else None


def reads_all(arm: Arm, samples: list[Sample], case: Case) -> bool:
    """Whether a reader reads all branches of a case."""
    counts = [s.extra.get("branches") for s in samples if s.arm == arm.key]
    return bool(counts) and all(count is None or count == len(case.branches or []) for count in counts)


def objects_page(
    cache: Path, entries: int, repeats: int, progress: Callable[[str], None]
) -> tuple[str, list[Case], list[Sample]]:
    """Write the files, measure, and return the page with its cases and samples."""
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
        f"Files of {entries} entries (of TH1F a quarter), one core. A pass opens the file and reads every branch with",
        "values. Sizes are uncompressed. Most values are random, so that decompression takes long.",
        "",
        "- **x uproot, x GetEntry**: speedup of Branchline over the fastest setting of the peer; ROOT has dictionaries",
        "  of all classes",
        "- **% of the limit**: the seconds of decompression alone, in per cent of Branchline's",
        "- **limit x uproot**: speedup of decompression alone over uproot, an upper bound for every reader",
        "",
        table(head, [kind_row(arms, case, samples) for case in cases]),
    ]
    return "\n".join(lines) + "\n", cases, samples
