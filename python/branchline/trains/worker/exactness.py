"""Determines whether a sum of outputs is identical, to the last bit, for any grouping of its summands.

Integers add without rounding. So do floating-point numbers with integer values below 2**53, such as the contents of an
unweighted histogram. Other floating-point numbers are rounded at each addition.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import numpy as np

from branchline.trains.sums.accumulators import is_joined
from branchline.trains.tables.table import TablePieces

# Largest number up to which double precision represents every integer.
_WHOLE_MAX = 2.0**53


def is_exact(total: object) -> bool:
    """Return whether all numbers in a sum are integers that add without rounding. False for unknown types, such as
    objects with their own addition.

    >>> is_exact({"events": 12, "mass": np.array([1.0, 2.0])}), is_exact(0.5)
    (True, False)
    """
    if total is None or isinstance(total, str | bytes | bool | int | AbstractSet):
        return True
    if isinstance(total, Mapping):
        return all(is_exact(one) for one in total.values())
    if isinstance(total, tuple):
        return all(is_exact(one) for one in total)
    if is_joined(total) or isinstance(total, TablePieces):
        return True
    if isinstance(total, float | complex | np.generic | np.ndarray):
        return _are_whole(np.asarray(total))
    view = getattr(total, "view", None)
    if callable(view) and hasattr(total, "axes"):
        return _are_whole(np.asarray(view(flow=True)))
    return False


def _are_whole(values: np.ndarray) -> bool:
    if values.dtype.names is not None:
        # A weighted histogram stores several sums per bin.
        return all(_are_whole(values[name]) for name in values.dtype.names)
    if values.dtype.kind in "biuSUMm":
        return True
    if values.dtype.kind == "c":
        return _are_whole(values.real) and _are_whole(values.imag)
    return values.dtype.kind == "f" and bool(np.all((np.abs(values) < _WHOLE_MAX) & (values == np.floor(values))))
