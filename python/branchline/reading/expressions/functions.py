"""Functions and operators of Python expressions and of ROOT's formulas.

Expressions may call ``FUNCTIONS``: NumPy's ufuncs, the mathematical functions that uproot offers, and reductions of
lists. Formulas use ``OPERATORS`` and ``FORMULA_FUNCTIONS``, which return the values that TTree::Draw computes, all in
double precision. Deviations from mathematics are those of ROOT's TFormula: division by zero returns 0, a square root
uses the absolute value, and logarithms and inverse functions return 0 outside of their domains.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import awkward as ak
import numpy as np

#: An awkward array or a number. Awkward is untyped.
Operand: TypeAlias = ak.Array

# NumPy functions that expressions may call by name.
UFUNCS = """
    absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh cbrt ceil conjugate copysign cos cosh exp exp2 expm1
    fabs floor fmax fmin hypot isfinite isinf isnan log log10 log1p log2 logical_and logical_not logical_or maximum
    minimum nextafter rint signbit sin sinh sqrt tan tanh trunc
"""
# Alternative names, as in C.
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
CONSTANTS: Mapping[str, float] = {"pi": math.pi}

# ROOT clamps the argument of exp in formulas to this value.
EXPONENT_MAX = 700.0
# The smallest positive number that does not fit into an int64.
TWO_63 = 2.0**63
# Functions that behave the same in formulas and in expressions.
_AS_IN_EXPRESSIONS = """
    abs asinh atan cbrt ceil cos cosh erf erfc exp2 expm1 fabs floor log1p log2 rint sin sinh tan tanh trunc
"""
_FORMULA_OF_TWO: Mapping[str, Callable[[Operand, Operand], Operand]] = {
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "max": np.maximum,
    "min": np.minimum,
    "pow": np.power,
}
# TMath functions that return the same values as NumPy, even outside of their domains.
_TMATH_OF_ONE: Mapping[str, Callable[[Operand], Operand]] = {
    "Abs": np.abs,
    "ACos": np.arccos,
    "ASin": np.arcsin,
    "ATan": np.arctan,
    "ASinH": np.arcsinh,
    "Ceil": np.ceil,
    "Cos": np.cos,
    "CosH": np.cosh,
    "Exp": np.exp,
    "Floor": np.floor,
    "Log": np.log,
    "Log10": np.log10,
    "Log2": np.log2,
    "Nint": np.rint,
    "Sin": np.sin,
    "SinH": np.sinh,
    "Sq": np.square,
    "Sqrt": np.sqrt,
    "Tan": np.tan,
    "TanH": np.tanh,
}
_TMATH_OF_TWO: Mapping[str, Callable[[Operand, Operand], Operand]] = {
    "ATan2": np.arctan2,
    "Hypot": np.hypot,
    "Max": np.maximum,
    "Min": np.minimum,
    "Power": np.power,
}
_TMATH_CONSTANTS = {
    "Pi": math.pi,
    "TwoPi": 2 * math.pi,
    "PiOver2": math.pi / 2,
    "PiOver4": math.pi / 4,
    "E": math.e,
    "DegToRad": math.pi / 180,
    "RadToDeg": 180 / math.pi,
}


def _of_each_number(function: Callable[[float], float]) -> Callable[[Operand], Operand]:
    """Return a function that applies a scalar function to every number of an array of any shape."""

    def of_number(number: float) -> float:
        try:
            return function(number)
        except OverflowError:
            return math.inf
        except ValueError:  # a pole
            return math.nan

    vectorized = np.vectorize(of_number, otypes=["f8"])

    def of_numbers(layout: Operand, **_: Operand) -> Operand:
        return ak.contents.NumpyArray(vectorized(layout.data)) if layout.is_numpy else None

    def of_array(array: Operand) -> Operand:
        with np.errstate(all="ignore"):
            return ak.transform(of_numbers, array) if isinstance(array, ak.Array) else vectorized(array)[()]

    return of_array


GAMMA = _of_each_number(math.gamma)


def _factorial(array: Operand) -> Operand:
    return np.rint(GAMMA(np.rint(array) + 1))


def _or_of_two(
    of_lists: Callable[[Operand], Operand], of_two: Callable[[Operand, Operand], Operand]
) -> Callable[..., Operand]:
    """Return a function that, as in ROOT, reduces lists if it gets one argument, and is elementwise if it gets two."""

    def of_one_or_two(array: Operand, other: Operand = None) -> Operand:
        return of_lists(array) if other is None else of_two(array, other)

    return of_one_or_two


def _over_lists(function: Callable[..., Operand]) -> Callable[[Operand], Operand]:
    """Return a reduction of the innermost lists, for example over the particles of an event, but never over entries."""

    def of_lists(array: Operand) -> Operand:
        if not isinstance(array, ak.Array) or array.ndim < 2:
            raise TypeError("the argument has one value per entry; a list per entry is needed")
        return function(array, axis=-1)

    return of_lists


#: The functions of expressions.
FUNCTIONS: dict[str, Callable[..., Operand]] = {
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


class Function(NamedTuple):
    """A function and its number of arguments."""

    compute: Callable[..., Operand]
    arguments_count: int


def _double(value: Operand) -> Operand:
    if isinstance(value, str):
        raise TypeError("arithmetic is not defined for strings")
    if not isinstance(value, ak.Array):
        return np.float64(value)
    if value.fields or value.layout.purelist_parameter("__array__") is not None:
        raise TypeError("arithmetic is not defined for strings or records")
    return ak.values_astype(value, "f8")


def _doubles(values: tuple[Operand, ...]) -> list[Operand]:
    """Broadcast operands as ROOT does: a list of numbers with a list of the same length, or with a single number."""
    made = [_double(value) for value in values]
    lists = [value for value in made if isinstance(value, ak.Array) and value.ndim > 1]
    if len(lists) < 2:
        return made
    if len({value.ndim for value in lists}) > 1:
        raise ValueError("lists have different nesting depths")
    # Awkward broadcasts a fixed length of 1, ROOT does not.
    return [ak.from_regular(one, axis=None) if isinstance(one, ak.Array) and one.ndim > 1 else one for one in made]


def _of_doubles(function: Callable[..., Operand]) -> Callable[..., Operand]:
    @functools.wraps(function)
    def compute(*values: Operand) -> Operand:
        with np.errstate(all="ignore"):
            return function(*_doubles(values))

    return compute


def _cast(value: Operand, kind: str) -> Operand:
    return ak.values_astype(value, kind) if isinstance(value, ak.Array) else np.asarray(value).astype(kind)[()]


def _unsigned(value: Operand) -> Operand:
    """Convert to ULong64_t, as ROOT does for bitwise operations. Negative values wrap; 2**64 and larger become 0."""
    small = _cast(_cast(_where(value >= TWO_63, 0.0, value), "i8"), "u8")
    large = _cast(_where((value >= TWO_63) & (value < 2 * TWO_63), value, 0.0), "u8")
    return np.bitwise_or(small, large)


def _remainder(left: Operand, right: Operand) -> Operand:
    """The remainder of the integer parts, with the sign of the dividend; NaN for a divisor of 0, where ROOT crashes."""
    divisor = _cast(right, "i8")
    remainder = np.fmod(_cast(left, "i8"), _where(divisor == 0, np.int64(1), divisor))
    return _cast(remainder, "f8") + _where(divisor == 0, math.nan, 0.0)


def _of_bits(function: Callable[..., Operand]) -> Callable[..., Operand]:
    return _of_doubles(lambda left, right: function(_unsigned(left), _unsigned(right)))


def _where(test: Operand, value: Operand, other: Operand) -> Operand:
    if isinstance(test, ak.Array):
        return ak.where(test, value, other)
    return value if test else other


def _equal(left: Operand, right: Operand) -> Operand:
    """Compare numbers or strings."""
    if isinstance(left, str) or isinstance(right, str):
        return left == right
    return _of_doubles(np.equal)(left, right)


def _divided(left: Operand, right: Operand) -> Operand:
    return _where(right == 0, 0.0 * (left == 0), np.divide(left, _where(right == 0, 1.0, right)))


def _within(function: Callable[[Operand], Operand], low: float, high: float = math.inf) -> Callable[[Operand], Operand]:
    """Return a version of the function that returns 0 outside of its domain, from ``low`` to ``high``."""
    return lambda value: _where((value < low) | (value > high), 0.0, function(value))


def _logarithm(function: Callable[[Operand], Operand]) -> Callable[[Operand], Operand]:
    return lambda value: _where(value <= 0, 0.0, function(value))


def _rounded(value: Operand) -> Operand:
    """Round to the nearest integer, halves away from zero."""
    return np.copysign(np.trunc(np.abs(value) + 0.5), value)


#: The operators of formulas.
OPERATORS: Mapping[str, Callable[..., Operand]] = {
    "||": _of_doubles(np.logical_or),
    "&&": _of_doubles(np.logical_and),
    "!": _of_doubles(np.logical_not),
    "|": _of_bits(np.bitwise_or),
    "&": _of_bits(np.bitwise_and),
    "<<": _of_bits(np.left_shift),
    ">>": _of_bits(np.right_shift),
    "<": _of_doubles(np.less),
    "<=": _of_doubles(np.less_equal),
    ">": _of_doubles(np.greater),
    ">=": _of_doubles(np.greater_equal),
    "==": _equal,
    "!=": lambda left, right: np.logical_not(_equal(left, right)),
    "+": _of_doubles(np.add),
    "-": _of_doubles(np.subtract),
    "*": _of_doubles(np.multiply),
    "/": _of_doubles(_divided),
    "%": _of_doubles(_remainder),
    "^": _of_doubles(np.power),
    "negative": _of_doubles(np.negative),
}

_FORMULA_OF_ONE: Mapping[str, Callable[[Operand], Operand]] = {
    **{name: FUNCTIONS[name] for name in _AS_IN_EXPRESSIONS.split()},
    "acos": _within(np.arccos, -1, 1),
    "acosh": _within(np.arccosh, 1),
    "asin": _within(np.arcsin, -1, 1),
    "atanh": _within(np.arctanh, -1, 1),
    "exp": lambda value: np.exp(np.minimum(value, EXPONENT_MAX)),
    "int": np.trunc,
    "log": _logarithm(np.log),
    "log10": _logarithm(np.log10),
    "round": _rounded,
    "sign": lambda value: _where(value < 0, -1.0, 1.0),
    "sq": np.square,
    "sqrt": lambda value: np.sqrt(np.abs(value)),
}

#: The functions of formulas.
FORMULA_FUNCTIONS: Mapping[str, Function] = {
    **{name: Function(_of_doubles(one), 1) for name, one in _FORMULA_OF_ONE.items()},
    **{name: Function(_of_doubles(one), 2) for name, one in _FORMULA_OF_TWO.items()},
    **{f"TMath::{name}": Function(_of_doubles(one), 1) for name, one in _TMATH_OF_ONE.items()},
    **{f"TMath::{name}": Function(_of_doubles(one), 2) for name, one in _TMATH_OF_TWO.items()},
    **{f"TMath::{name}": Function(functools.partial(float, one), 0) for name, one in _TMATH_CONSTANTS.items()},
}
