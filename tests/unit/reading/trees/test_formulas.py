"""Formulas of ROOT: how their operators bind, in which numbers they are computed, and what is refused."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np
import pytest

import branchline
from branchline.reading.expressions.expressions import Expression
from branchline.reading.expressions.formulas import FORMULA

COLUMNS = {
    "e": np.arange(-3, 3, dtype="i4"),
    "x": np.array([-1.5, -0.5, 0, 0.5, 1.5, 2.5]),
    "u": np.array([0, 50, 100, 150, 200, 250], dtype="u1"),
    "label": ["a", "b", "a", "", "a", "ab"],
    "v": [[1.0], [], [1, 2], [3], [], [4]],
    "m": np.arange(12.0).reshape(6, 2),
    "one": np.arange(6.0).reshape(6, 1),
}
VALUES: dict[str, Any] = {
    "!e>1": [0] * 6,
    "2^3^2": [64] * 6,
    "-x**2": [-2.25, -0.25, 0, -0.25, -2.25, -6.25],
    "(e>0)+(x>0)": [0, 0, 0, 1, 2, 2],
    "e&2==2": [1, 0, 1, 0, 1, 0],
    "e%3": [0, -2, -1, 0, 1, 2],
    "e%0": [np.nan] * 6,
    "5%3*2": [5] * 6,
    "u-100": [-100, -50, 0, 50, 100, 150],
    "u*u": [0, 2500, 10000, 22500, 40000, 62500],
    "7/2": [3.5] * 6,
    "1/e": [-1 / 3, -0.5, -1, 0, 1, 0.5],
    "sqrt(x*e)": np.sqrt([4.5, 1, 0, 0, 1.5, 5]),
    "log(x)": [0, 0, 0, np.log(0.5), np.log(1.5), np.log(2.5)],
    "min(e, x)": [-3, -2, -1, 0, 1, 2],
    "pi": [np.pi] * 6,
    'label == "a"': [1, 0, 1, 0, 1, 0],
    "v * 2": [[2], [], [2, 4], [6], [], [8]],
    "v[] + e": [[-2], [], [0, 1], [3], [], [6]],
    "m[1] * 2": [2, 6, 10, 14, 18, 22],
    "(e & 4) >> 2": [1, 1, 1, 0, 0, 0],
}
REFUSED = {
    "e > 0 ? 1 : 2": r"'\?:'",
    "Sum$(v)": r"Sum\$",
    "Entry$ + 1": r"Entry\$",
    "@v.size()": r"@v\.size",
    "v[e]": "computed",
    "1 < 2 < 3": "without parentheses",
    "min(v)": "min with 1 arguments",
    "p->Pt()": "p->Pt",
    "get(e)": "get",
    "e;x": "';'",
    "(" * 5000: "too deep",
    "": "its end",
}


def value_of(formula: str) -> ak.Array:
    expression = Expression(formula, COLUMNS.__contains__, lambda: list(COLUMNS), "f.root", FORMULA)
    return expression.value(lambda name: ak.Array(COLUMNS[name]), 6)


@pytest.mark.parametrize("formula", VALUES)
def test_a_formula_has_the_value_that_root_gives(formula: str) -> None:
    got, wanted = value_of(formula), ak.Array(VALUES[formula])
    assert ak.num(got, axis=0) == len(wanted)
    assert np.array_equal(*[np.asarray(ak.flatten(one, axis=None), "f8") for one in (got, wanted)], equal_nan=True)


def test_a_comparison_alone_gives_truth() -> None:
    assert str(value_of("!(e > 1) && x < 1").type) == "6 * bool"


@pytest.mark.parametrize("formula", REFUSED)
def test_what_is_not_translated_is_named(formula: str) -> None:
    with pytest.raises(branchline.ExpressionError, match=REFUSED[formula]):
        value_of(formula)


@pytest.mark.parametrize("formula", ["label + 1", "label > 1", "v * one", "v * m"])
def test_what_would_have_other_values_than_in_root_is_an_error(formula: str) -> None:
    with pytest.raises(branchline.ExpressionError, match="cannot be computed"):
        value_of(formula)


def test_a_name_that_is_not_there_is_told() -> None:
    with pytest.raises(branchline.NoSuchKeyError, match="'y'"):
        value_of("x + y")
