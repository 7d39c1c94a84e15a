"""Verifies flat columns: both files are read again, and every column is compared with the members of the objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import awkward as ak

from branchline.errors import BranchlineError
from branchline.reading.access import Access
from branchline.reading.arrays.nesting import IMPORTED
from branchline.reading.trees.file import File
from branchline.reading.trees.tree import Tree
from branchline.writing.columns.fields import PlanChanged
from branchline.writing.columns.flat_plan import FlatPlan, FlatPlanner
from branchline.writing.merging.value_digests import BranchDigest, BranchHasher, branch_digests


@dataclass(frozen=True)
class ComparedColumns:
    """Names of columns with equal values, and sentences about columns that differ or that only one side has."""

    equal: tuple[str, ...]
    differences: tuple[str, ...]


def flat_plan_of(made: str, given: str, tree: str, access: Access | None) -> FlatPlan | None:
    """Return the plan of flat columns for ``given`` if the tree in ``made`` has only such columns."""
    own, original = (File(path, access).tree(tree) for path in (made, given))
    names = column_names(own)
    try:
        plan = FlatPlanner.of(original, None, (), "rntuple" if own.outline.nests else "ttree").plan()
    except BranchlineError:
        return None  # it can be flattened only in part
    return plan if names <= plan.names() and not names <= set(original.outline.paths) else None


def column_names(tree: Tree) -> set[str]:
    """Return the names of all columns of a flat tree, without the collections of an RNTuple that contain them."""
    return {name for name in tree.outline.paths if not name.startswith(IMPORTED)}


def compare_columns(
    plan: FlatPlan,
    chunks: Callable[[FlatPlan], Iterable[ak.Array]],
    made: Sequence[str],
    tree: str,
    access: Access | None,
) -> ComparedColumns:
    """Compare the columns in the files ``made`` with the columns of the chunks, which have the branches of the plan.

    Raises the errors of reading.
    """
    wanted = _digests(plan, chunks)
    counters = {column.counter for column in plan.flat if column.counter is not None}
    own = column_names(File(made[0], access).tree(tree))
    found = branch_digests(made, tree, [name for name in wanted if name in own], access, counters)
    differences = [f"column {name} is not in the output" for name in wanted if name not in found]
    differences += [f"column {name} is in none of the inputs" for name in sorted(own - wanted.keys())]
    for name, digest in found.items():
        if digest.entries != wanted[name].entries:
            difference = f"column {name} has {digest.entries} entries, but {wanted[name].entries} in the inputs"
            differences.append(difference)
        elif digest != wanted[name]:
            differences.append(f"column {name} has different values")
    return ComparedColumns(tuple(name for name, one in found.items() if one == wanted[name]), tuple(differences))


def _digests(plan: FlatPlan, chunks: Callable[[FlatPlan], Iterable[ak.Array]]) -> dict[str, BranchDigest]:
    """Return the digests of all columns and counters of a plan."""
    while True:
        hashers = {name: BranchHasher() for name in (column.name for column in plan.flat)}
        counters = {column.counter: column.name for column in plan.flat if column.counter is not None}
        hashers |= {counter: BranchHasher(of_any_integer=True) for counter in counters}
        try:
            for chunk in chunks(plan):
                values = {name: ak.Array(layout) for name, layout in plan.values(chunk).items()}
                values |= {counter: ak.num(values[name]) for counter, name in counters.items()}
                for name, hasher in hashers.items():
                    hasher.add(values[name])
        except PlanChanged as changed:
            plan = cast("FlatPlan", changed.plan)
        else:
            return {name: hasher.value() for name, hasher in hashers.items()}
