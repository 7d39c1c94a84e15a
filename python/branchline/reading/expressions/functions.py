"""The functions that expressions may call: NumPy's and those of mathematics that uproot offers, and sums over lists."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import awkward as ak
import numpy as np


def _of_each_number(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """Applies a function of one number to every number of an array of any shape."""

    def of_number(number: float) -> float:
        try:
            return function(number)
        except OverflowError:
            return math.inf
        except ValueError:  # a pole
            return math.nan

    vectorized = np.vectorize(of_number, otypes=["f8"])

    def of_numbers(layout: Any, **_: Any) -> Any:
        return ak.contents.NumpyArray(vectorized(layout.data)) if layout.is_numpy else None

    def of_array(array: Any) -> Any:
        with np.errstate(all="ignore"):
            return ak.transform(of_numbers, array) if isinstance(array, ak.Array) else vectorized(array)[()]

    return of_array


def _factorial(array: Any) -> Any:
    return np.rint(GAMMA(np.rint(array) + 1))


def _or_of_two(of_lists: Callable[[Any], Any], of_two: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """With one argument a reduction of lists; with two the function of each pair, as in ROOT."""

    def of_one_or_two(array: Any, other: Any = None) -> Any:
        return of_lists(array) if other is None else of_two(array, other)

    return of_one_or_two


def _over_lists(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """A reduction of the innermost lists: over the particles of each event, never over the entries."""

    def of_lists(array: Any) -> Any:
        if not isinstance(array, ak.Array) or array.ndim < 2:
            raise TypeError("there is one value per entry, and no list of them")
        return function(array, axis=-1)

    return of_lists


GAMMA = _of_each_number(math.gamma)

UFUNCS = """
    absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh cbrt ceil conjugate copysign cos cosh exp exp2 expm1
    fabs floor fmax fmin hypot isfinite isinf isnan log log10 log1p log2 logical_and logical_not logical_or maximum
    minimum nextafter rint signbit sin sinh sqrt tan tanh trunc
"""
# Other names for the same, as in C.
SYNONYMS = {
    "abs": "absolute",
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "conj": "conjugate",
    "neg": "negative",
}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in UFUNCS.split()},
    **{name: getattr(np, other) for name, other in SYNONYMS.items()},
    "erf": _of_each_number(math.erf),
    "erfc": _of_each_number(math.erfc),
    "factorial": _factorial,
    "gamma": GAMMA,
    "tgamma": GAMMA,
    "lgamma": _of_each_number(math.lgamma),
    "imag": np.imag,
    "real": np.real,
    "pow": np.float_power,
    "round": np.round,
    "where": ak.where,
    "all": _over_lists(ak.all),
    "any": _over_lists(ak.any),
    "max": _or_of_two(_over_lists(ak.max), np.maximum),
    "min": _or_of_two(_over_lists(ak.min), np.minimum),
    "num": _over_lists(ak.num),
    "sum": _over_lists(ak.sum),
}
