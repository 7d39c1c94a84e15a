"""The names of two-sided variations, in the conventions of several experiments."""

from __future__ import annotations

from collections.abc import Collection, Sequence

#: Endings of the names of two-sided variations: Branchline's, those of ATLAS, and those of CMS and Combine. The last
#: ones are only recognised in pairs, since other names, such as PileUp, may end in the same way.
_ENDINGS = (("_up", "_down"), ("__1up", "__1down"), ("Up", "Down"))


def side_of(variation: str, variations: Collection[str]) -> tuple[str, str]:
    """Return the name of the uncertainty to which a variation belongs, and its side: ``up``, ``down`` or empty."""
    for endings in _ENDINGS:
        for ending, opposite, side in ((*endings, "up"), (*endings[::-1], "down")):
            base = variation.removesuffix(ending)
            is_side = base not in ("", variation) and ("_" in ending or base + opposite in variations)
            if is_side:
                return base.rstrip("_") or base, side
    return variation, ""


def sides(variations: Sequence[str]) -> list[tuple[str, ...]]:
    """Group variations into uncertainties: the two sides of an uncertainty form a group, and any other variation a
    group of its own.
    """
    pairs: dict[tuple[str, bool], list[str]] = {}
    for name in variations:
        base, side = side_of(name, variations)
        pairs.setdefault((base, side == ""), []).append(name)
    return [tuple(one) for one in pairs.values()]
