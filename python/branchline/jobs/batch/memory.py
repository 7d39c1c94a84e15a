"""Memory that jobs request, as Slurm and HTCondor write it: a whole number with K, M, G or T, or none for MiB."""

from __future__ import annotations

import re

from branchline.base.limits import BATCH_MEMORY_GROWTH, BATCH_MEMORY_GROWTH_MAX

_UNITS_KIB = {"K": 1, "": 2**10, "M": 2**10, "G": 2**20, "T": 2**30}


def memory_kib(text: str) -> int | None:
    """The number of KiB; None for 0, which is a whole node for Slurm, and for what is no number, as an expression."""
    found = re.fullmatch(r"(\d+)\s*([KMGT]?)B?", text.strip(), re.IGNORECASE | re.ASCII)
    return None if found is None else int(found[1]) * _UNITS_KIB[found[2].upper()] or None


def more_memory(before: str, first: str, most: str | None) -> str:
    """What a task requests after it died of memory with ``before``: twice that.

    The bound is ``most``, or four times what it requested ``first``. ``before`` is returned where that is reached, and
    where it is no number.
    """
    now_kib, first_kib = memory_kib(before), memory_kib(first)
    if now_kib is None or first_kib is None:
        return before
    most_kib = memory_kib(most) if most is not None else first_kib * BATCH_MEMORY_GROWTH_MAX
    wanted_kib = min(now_kib * BATCH_MEMORY_GROWTH, most_kib or now_kib)
    return before if wanted_kib <= now_kib else f"{-(-wanted_kib // 2**10)}M"
