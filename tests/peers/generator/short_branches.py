"""Branches with fewer entries than their tree. The array elements for unwritten baskets are uninitialised."""

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

# In all other cases, ROOT copies the tree, and fills up or drops such branches.
KEPT_BY = ("closed", "in memory", "indexed", "saved on the way")


def draw(rng: Random, layout: Layout) -> dict[str, list[int]]:
    """Draw the short branches of a tree, with their values."""
    if layout.entries == 0 or layout.aftermath not in KEPT_BY or rng.random() < 0.7:
        return {}
    counts = {f"short{i}": rng.choice((0, rng.randrange(layout.entries))) for i in range(rng.randint(1, 2))}
    return {name: [INT.random(rng, Limits()) for _ in range(count)] for name, count in counts.items()}


def fill(root: Any, tree: Any, branches: dict[str, list[int]], rng: Random, layout: Layout) -> None:
    """Add short branches to a tree that is already filled."""
    for name, values in branches.items():
        held = array("i", [0])
        branch = tree.Branch(name, held, f"{name}/I", layout.basket_bytes)
        for held[0] in values:
            branch.Fill()
        if layout.aftermath != "in memory":
            branch.FlushBaskets()
        root.peers.spoilUnwritten(branch, rng.getrandbits(32))


def check(tree: Any, branches: dict[str, list[int]], outcome: Outcome) -> None:
    """Check short branches: read alone, they have their entries; reading the whole tree omits them with a warning;
    reading them with other branches is an error.
    """
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
            outcome.add_wrong("short branch", name, f"it can be read together with {tree_name}")
        except branchline.UnsupportedBranchError as error:
            if name not in str(error):
                outcome.add_wrong("short branch", name, f"the refusal does not name it: {error}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # Read no entries: a class that the file does not describe would only be an error in an entry.
        fields = tree.arrays(entry_stop=0).fields
    told = " ".join(str(one.message) for one in caught if one.category is branchline.UnreadableBranchWarning)
    for name in branches:
        if name in fields or name not in told:
            outcome.add_wrong("short branch", name, f"the whole has fields {fields}, with the warnings {told!r}")
