"""Branches that end before their tree, with anything in the slots of the baskets that they never wrote."""

from __future__ import annotations

import warnings
from array import array
from random import Random
from typing import TYPE_CHECKING, Any

from tests.peers.generator.layouts import Layout
from tests.peers.generator.values import INT, Limits

import branchline

if TYPE_CHECKING:
    from tests.peers.generator.cases import Outcome

# ROOT itself fills up or loses them when it copies a tree.
KEPT_BY = ("closed", "in memory", "indexed", "saved on the way")


def draw(rng: Random, layout: Layout) -> dict[str, list[int]]:
    """The values of the short branches of a tree."""
    if layout.entries == 0 or layout.aftermath not in KEPT_BY or rng.random() < 0.7:
        return {}
    counts = {f"short{i}": rng.choice((0, rng.randrange(layout.entries))) for i in range(rng.randint(1, 2))}
    return {name: [INT.random(rng, Limits()) for _ in range(count)] for name, count in counts.items()}


def fill(root: Any, tree: Any, branches: dict[str, list[int]], rng: Random, layout: Layout) -> None:
    """Adds them to a tree that has all its entries."""
    for name, values in branches.items():
        held = array("i", [0])
        branch = tree.Branch(name, held, f"{name}/I", layout.basket_bytes)
        for held[0] in values:
            branch.Fill()
        if layout.aftermath != "in memory":
            branch.FlushBaskets()
        root.peers.spoilUnwritten(branch, rng.getrandbits(32))


def check(tree: Any, branches: dict[str, list[int]], outcome: Outcome) -> None:
    """They are read by name as far as they go, left out of the whole with a warning, and refused beside others."""
    for name, values in branches.items():
        if (found := tree[name].array().to_list()) != values:
            outcome.add_wrong("short branch", name, f"{found}, not {values}")
        else:
            outcome.equal["short branch"] += 1
    if not branches:
        return
    tree_name = next(one for one in tree.keys(recursive=False) if one not in branches)
    for name in branches:
        try:
            tree.arrays([name, tree_name])
            outcome.add_wrong("short branch", name, f"it is read beside {tree_name}")
        except branchline.UnsupportedBranchError as error:
            if name not in str(error):
                outcome.add_wrong("short branch", name, f"it is refused without its name: {error}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # Among what Branchline reads: a class that the file does not describe is only found in an entry.
        fields = tree.arrays(entry_stop=0).fields
    told = " ".join(str(one.message) for one in caught if one.category is branchline.UnreadableBranchWarning)
    for name in branches:
        if name in fields or name not in told:
            outcome.add_wrong("short branch", name, f"the whole has fields {fields}, with the warnings {told!r}")
