"""A case of this format: ROOT writes a tree with random branches, and Branchline's values are compared by branch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import awkward as ak
import numpy as np
from tests.peers import root_files
from tests.peers.buffers import differences
from tests.peers.columns import Column, LeafColumn
from tests.peers.generator import short_branches, stages
from tests.peers.generator.aftermath import AFTERMATHS
from tests.peers.generator.compare import first_difference, form_of
from tests.peers.generator.families import Family
from tests.peers.generator.layouts import Layout, apply, mix_codecs, random_layout
from tests.peers.generator.object_columns import SPLIT_POINTERS, ObjectColumn
from tests.peers.generator.values import Container, Kind, Limits, Pointer, Text

import branchline

CANNOT = "uproot cannot read it"


@dataclass
class Outcome:
    """The outcome of a case: the results of its branches."""

    seed: int
    layout: str = ""
    equal: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    # Branches for which ROOT does not read the written values, so there are no expected values.
    lost: list[str] = field(default_factory=list)
    # Branches that were read, but that no other reader can check.
    unchecked: Counter[str] = field(default_factory=Counter)

    def add_wrong(self, kind: str, place: str, what: str) -> None:
        self.wrong.append(f"seed {self.seed}, {kind}, {place}: {what}\n    layout: {self.layout}")

    def refuse(self, kind: str, reason: str) -> None:
        self.refused[kind] += 1
        self.reasons.setdefault(kind, reason)


def family_name(text: str) -> str:
    """Return a C++ type without the family's namespace, so that kinds of many families are counted together."""
    return re.sub(r"\bf\d+::", "", text)


def run_case(root: Any, family: Family, seed: int, folder: Path) -> Outcome:
    """Write and compare the case of a seed."""
    rng = Random(seed)
    layout = random_layout(rng, list(AFTERMATHS))
    outcome = Outcome(seed, str(layout))
    columns = object_columns(rng, family, layout)
    leaves = leaf_columns(rng, layout)
    short = short_branches.draw(rng, layout)
    path = folder / f"case{seed}.root"
    stages.begin(stages.ROOT_WRITES)
    columns = write(root, family, path, columns, leaves, layout, rng, short, outcome)
    times, error = attempt(lambda: AFTERMATHS[layout.aftermath](root, path, layout))
    if error is not None:  # for example for a TClonesArray of objects with a std::bitset
        outcome.lost.append(f"ROOT fails when the tree is {layout.aftermath}: {shown_error(error)}")
        return outcome
    stages.begin(stages.ROOT_READS)
    written, columns = columns, trusted(root, family, path, columns, layout, outcome)
    stages.begin(stages.BRANCHLINE_READS)
    tree = branchline.open(path)[layout.path]
    if tree.num_entries != times * layout.entries:
        outcome.add_wrong("tree", "its entries", f"{tree.num_entries}, not {times * layout.entries}")
        return outcome
    check_leaves(tree, leaves, times, outcome)
    short_branches.check(tree, short, outcome)
    refused = [one for column in columns for one in check_object(tree, path, layout, column, times, outcome)]
    refused += [name for column in written if column not in columns for name in tree.keys() if column.owns(name)]
    check_chunks(tree, rng, refused, outcome)
    check_chain(tree, path, layout, outcome)
    return outcome


def warm_up(root: Any, family: Family, folder: Path) -> None:
    """Compile the code that all cases need with ROOT, before the processes of the cases are forked."""
    texts = next(kind for kind in family.tops if isinstance(kind, Text))
    for number, aftermath in enumerate(AFTERMATHS):
        rng = Random(number)
        layout = replace(random_layout(rng, [aftermath]), entries=2)
        columns = [ObjectColumn("o", texts, 0, ["a", "b"])]
        path = folder / f"warm{number}.root"
        write(root, family, path, columns, leaf_columns(rng, layout), layout, rng, {}, Outcome(0))
        AFTERMATHS[aftermath](root, path, layout)
        trusted(root, family, path, columns, layout, Outcome(number))


def object_columns(rng: Random, family: Family, layout: Layout) -> list[ObjectColumn]:
    """Draw branches of types of the family, split or unsplit."""
    chosen = rng.sample(family.tops, rng.randint(3, 6))
    columns = []
    for i, kind in enumerate(chosen):
        limits = Limits(elements=rng.choice((0, 2, 4, 6)))
        values = [kind.random(rng, limits) for _ in range(layout.entries)]
        name = f"o{i}" + rng.choice(("", ".", "", ".", ".x", ".x.", "/x", "[2]"))
        is_of_pointers = isinstance(kind, Container) and isinstance(kind.of, Pointer)
        # When ROOT copies a tree, it loses the branches that TBranchSTL has created while the tree was filled.
        may_divide = is_of_pointers and layout.aftermath in ("closed", "indexed", "saved on the way")
        columns.append(ObjectColumn(name, kind, rng.choice((0, 1, 99, SPLIT_POINTERS if may_divide else 99)), values))
    return columns


def leaf_columns(rng: Random, layout: Layout) -> list[Column]:
    """Draw columns of numbers, strings and vectors. Returns no columns for a tree without entries, which these columns
    do not support.
    """
    entries = layout.entries
    if entries == 0:
        return []
    draw = np.random.default_rng(rng.getrandbits(32))
    columns = root_files.random_columns(draw, entries)
    first_counted = next(i for i, column in enumerate(columns) if column.name == "n")
    chosen = columns[: rng.randint(1, 4)] + columns[first_counted : first_counted + rng.randint(1, 3)]
    # If two branches have the same name, ROOT clones the first one twice.
    if rng.random() < 0.2 and layout.aftermath != "cloned":
        chosen += [LeafColumn(draw, "twin", code, (), entries) for code in rng.sample("BSIFDO", 2)]
    return chosen


def write(
    root: Any,
    family: Family,
    path: Path,
    columns: list[ObjectColumn],
    leaves: list[Column],
    layout: Layout,
    rng: Random,
    short: dict[str, list[int]],
    outcome: Outcome,
) -> list[ObjectColumn]:
    """Write the tree with ROOT. Returns the columns for which ROOT creates branches."""
    file = root.TFile.Open(str(path), "RECREATE", "", layout.compression)
    directory = file.mkdir(layout.folder) if layout.folder else file
    directory = file.GetDirectory(layout.folder) if layout.folder else file
    (root.gROOT if layout.aftermath == "in memory" else directory).cd()
    tree = root.TTree("tree", "random branches")
    apply(root, layout, tree)
    for leaf in leaves:
        leaf.attach(root, tree, writing=True)
    lost = [column for column in columns if not column.attach(root, family, tree, layout.basket_bytes)]
    outcome.lost += [f"ROOT cannot create a branch of {column.kind.cpp}" for column in lost]
    columns = [column for column in columns if column not in lost]
    tree.SetBasketSize("*", layout.basket_bytes)
    if layout.mixed_codecs:
        mix_codecs(rng, tree.GetListOfBranches())
    save_at = rng.randrange(layout.entries) if layout.aftermath == "saved on the way" and layout.entries else -1
    for entry in range(layout.entries):
        for leaf in leaves:
            leaf.put(entry)
        for column in columns:
            column.put()
        if tree.Fill() < 0:
            raise RuntimeError(f"ROOT cannot fill entry {entry}")
        if entry == save_at:
            tree.AutoSave()
    short_branches.fill(root, tree, short, rng, layout)
    directory.cd()
    tree.Write()
    tree.ResetBranchAddresses()
    if layout.aftermath == "in memory":
        root.SetOwnership(tree, True)
    file.Close()
    root.TVirtualStreamerInfo.SetStreamMemberWise(True)
    return columns


def trusted(
    root: Any, family: Family, path: Path, columns: list[ObjectColumn], layout: Layout, outcome: Outcome
) -> list[ObjectColumn]:
    """Return the columns for which ROOT reads the written values. All other columns are counted as lost."""
    file = root.TFile.Open(str(path))
    tree = file.Get(layout.path)
    kept = []
    for column in columns:
        found, error = attempt(lambda column=column: column.read_by_root(root, family, tree, layout.entries))
        if error is not None:
            tree.ResetBranchAddresses()
            found = f"{column.name} ({column.kind.cpp}): {shown_error(error)}"
        if layout.offset_map and column.counts_short_floats():
            found = f"ROOT generates wrong entry offsets for the packed floats of {column.name}"
        if found is None:
            kept.append(column)
        else:
            outcome.lost.append(f"ROOT reads other values: {found}")
    file.Close()
    return kept


def attempt(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Call a function, and return its result or its exception."""
    try:
        return work(), None
    except BaseException as error:
        if not isinstance(error, Exception):
            raise
        return None, error


def shown_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def check_leaves(tree: Any, leaves: list[Column], times: int, outcome: Outcome) -> None:
    """Compare branches of leaves with their values, bit by bit."""
    seen: Counter[str] = Counter()
    for own_name, truth in (item for leaf in leaves for item in leaf.truths().items()):
        seen[own_name] += 1
        name = own_name if seen[own_name] == 1 else f"{own_name}#{seen[own_name]}"
        kind = "leaf " + name.split("/")[0].rsplit("_", 1)[0]
        array, error = attempt(tree[name].array)
        if isinstance(error, branchline.UnsupportedBranchError):
            outcome.refuse(kind, str(error))
            continue
        found = [shown_error(error)] if error else differences(array, ak.concatenate([truth] * times))
        if found:
            outcome.add_wrong(kind, name, "; ".join(found))
        else:
            outcome.equal[kind] += 1


def check_object(
    tree: Any, path: Path, layout: Layout, column: ObjectColumn, times: int, outcome: Outcome
) -> list[str]:
    """Check all branches of an object, and return the refused branches."""
    refused = []
    paths = [one for one in tree.keys() if column.owns(one)]
    for one in paths:
        branch = tree[one]
        if branch.is_group:
            continue
        has_parts = any(other.startswith(one + "/") for other in paths)
        found = column.part(branch.name, is_part=one != column.name, has_parts=has_parts)
        label = label_of(column, one, found)
        array, error = attempt(branch.array)
        if isinstance(error, branchline.UnsupportedBranchError):
            outcome.refuse(label, str(error))
            refused.append(one)
            continue
        if error is None and found is None and column.is_divided:
            continue  # uproot omits the entries before the branch was added
        if error is not None:
            wrong = shown_error(error)
        elif found is None:
            wrong = by_uproot(path, layout, one, array)
        else:
            wrong = first_difference(found[0], array, found[1] * times)
        if wrong is None:
            outcome.equal[label] += 1
        elif wrong.startswith(CANNOT):
            outcome.unchecked[wrong] += 1
        else:
            outcome.add_wrong(label, one, wrong)
    return refused


def by_uproot(path: Path, layout: Layout, name: str, array: ak.Array) -> str | None:
    """Describe the difference from the values that uproot reads; None if they are equal."""
    import uproot

    def read() -> ak.Array:
        with uproot.open(path) as file:
            return file[layout.path][name].array()

    wanted, error = attempt(read)
    if error is not None:
        return f"{CANNOT}: {type(error).__name__}: {str(error).splitlines()[0]}"
    one, two = form_of(ak.to_layout(array)), form_of(ak.to_layout(wanted))
    # uproot loses the extents of arrays in collections, and the form of empty lists.
    has_values = len(ak.flatten(array, axis=None)) > 0
    if repr(array.to_list()) != repr(wanted.to_list()) or (one != two and has_values):
        return f"uproot reads {two} {str(wanted.to_list())[:80]}, not {one} {str(array.to_list())[:80]}"
    return None


def label_of(column: ObjectColumn, path: str, found: tuple[Kind, list[Any]] | None) -> str:
    """Return the label under which a branch is counted."""
    whole = family_name(column.kind.cpp)
    if path == column.name:
        return f"{whole} as one branch"
    if found is None:
        return f"{path.rsplit('.', 1)[-1]} in a split {whole}, which only uproot knows"
    return f"{family_name(found[0].cpp)} in a split {whole}"


def check_chunks(tree: Any, rng: Random, refused: list[str], outcome: Outcome) -> None:
    """Compare all readable branches, read in steps and as a range of entries, with the whole tree."""
    if tree.num_entries == 0:
        return

    def is_kept(branch: Any) -> bool:  # exclude groups, which would select all their branches
        return not branch.is_group and branch.path not in refused

    some = {"filter_branch": is_kept} if refused else {}
    start, stop = sorted((rng.randint(0, tree.num_entries), rng.randint(0, tree.num_entries)))
    step = rng.randint(1, tree.num_entries)
    read = attempt(
        lambda: (
            tree.arrays(**some),
            tree.arrays(**some, entry_start=start, entry_stop=stop),
            list(tree.iterate(**some, step_size=step)),
        )
    )
    if read[1] is not None:
        outcome.add_wrong("all together", f"entries {start} to {stop}, steps of {step}", shown_error(read[1]))
        return
    whole, part, steps = read[0]
    for name in whole.fields:
        wanted = repr(whole[name].to_list())
        if repr(part[name].to_list()) != repr(whole[name][start:stop].to_list()):
            outcome.add_wrong("range", name, f"entries {start} to {stop} differ from the whole tree")
        if repr([value for chunk in steps for value in chunk[name].to_list()]) != wanted:
            outcome.add_wrong("steps", name, f"steps of {step} entries differ from the whole tree")


def check_chain(tree: Any, path: Path, layout: Layout, outcome: Outcome) -> None:
    """Check that reading the file twice in a chain returns its entries twice."""
    once, error = attempt(tree.arrays)
    if error is not None or len(once.fields) == 0:
        return
    both, error = attempt(lambda: branchline.concatenate([f"{path}:{layout.path}"] * 2))
    if error is not None:
        outcome.add_wrong("chain", "the file and itself", shown_error(error))
    elif repr(both.to_list()) != repr(once.to_list() * 2):
        outcome.add_wrong("chain", "the file and itself", "the entries are not the entries of the file, twice")
