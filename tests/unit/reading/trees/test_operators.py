"""Operators that Python reads differently from ROOT are refused, with the expression that is meant."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from tests.branchline_command import run_branchline
from tests.unit.reading.trees.conftest import Sample

import branchline
from branchline.reading.expressions.expressions import Expression
from branchline.reading.expressions.formulas import FORMULA
from branchline.reading.expressions.operators import misread_operators

CORRECTED = {
    "pt > 20 & n > 3": "(pt > 20) & (n > 3)",
    "n > 3 | process == 111": "(n > 3) | (process == 111)",
    "pt>20&n>3": "(pt>20)&(n>3)",
    "flags & 4 != 0": "(flags & 4) != 0",
    "flags & 0x4 == 0x4 | pt > 3": "((flags & 0x4) == 0x4) | (pt > 3)",
    "good & n == m": "good & (n == m)",
    "not a > 3 & b": "not (a > 3) & b",
    "hits[hits > 0 & good]": "hits[(hits > 0) & good]",
    "sum(hits > 1) >= 2 & n == 1": "(sum(hits > 1) >= 2) & (n == 1)",
    "pt > 20 & abs(eta) < 2.4 & (flags & 4) != 0": "(pt > 20) & (abs(eta) < 2.4) & ((flags & 4) != 0)",
    "pt > 20 && eta < 2": "pt > 20 and eta < 2",
    "good || pt > 20": "good or pt > 20",
    "!good": "not good",
    "!good && pt > 20": "(not good) and pt > 20",
    "!(a > 1 || b)": "not (a > 1 or b)",
    "!jet.pt[0] || b": "(not jet.pt[0]) or b",
    "pt > 20 & b && c": "(pt > 20) & b and c",
}
VALID = [
    "(flags & 4) != 0",
    "10 < pt < 20",
    "(pt > 20) & (n > 3) | ~(b > 1)",
    "pt > 20 and n > 3 or not b",
    "a & b | c ^ 1",
    "abs(x & 3) > 2",
    "hits[(n > 3) & good] > 4",
    "matrix[:, a & 1] != 0",
    "label == 'a & b > c && !d'",
    "get('a|b') > 3",
    "a != b",
    "a << 2 > b",
    "where(a > 1, b & 1, c) == 0",
]


@pytest.mark.parametrize("text", CORRECTED)
def test_the_corrected_expression_is_told(text: str) -> None:
    misread = misread_operators(text, is_python=_is_python(text))
    assert misread is not None
    assert misread.corrected == CORRECTED[text]
    ast.parse(misread.corrected, mode="eval")
    assert misread_operators(misread.corrected, is_python=True) is None


@pytest.mark.parametrize("text", VALID)
def test_what_python_reads_as_it_is_meant_is_valid(text: str) -> None:
    assert misread_operators(text, is_python=True) is None


def _is_python(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


def _drawn(random_: random.Random, depth: int) -> str:
    """An expression over truth values and whole numbers, with few parentheses."""
    if depth == 0:
        return random_.choice(["a", "b", "c", "3", "(a)", "abs(b)"])
    sign = random_.choice(["&", "|", "<", ">", "==", "!=", "<=", "+", "*"])
    text = f"{_drawn(random_, depth - 1)} {sign} {_drawn(random_, random_.randrange(depth))}"
    return f"({text})" if random_.random() < 0.4 else text


def _has_bare_operand(text: str) -> bool:
    """Whether a comparison has ``&`` or ``|`` without parentheses as an operand, by Python's syntax tree."""
    for node in ast.walk(ast.parse(text, mode="eval")):
        if isinstance(node, ast.Compare):
            for operand in (node.left, *node.comparators):
                if isinstance(operand, ast.BinOp) and isinstance(operand.op, ast.BitAnd | ast.BitOr):
                    before, stop = text[: operand.col_offset].rstrip(), operand.end_col_offset or 0
                    following = len(text) - len(text[stop:].lstrip())
                    if not (before.endswith("(") and _closes(text, len(before) - 1) == following):
                        return True
    return False


def _closes(text: str, start: int) -> int:
    """Where the parenthesis at a place is closed."""
    depth = 0
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise AssertionError(text)


def _value(text: str, **options: Any) -> list[Any]:
    values = {name: np.random.default_rng(ord(name)).integers(0, 8, 200) for name in "abc"}
    expression = Expression(text, values.__contains__, lambda: [*values], "file", **options)
    return [int(one) for one in expression.value(lambda name: ak.Array(values[name]), 200)]


def test_random_expressions_are_refused_where_the_syntax_tree_has_a_bare_operand() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    random_ = random.Random(seed)
    refused = 0
    for _ in range(3000):
        text = _drawn(random_, random_.randrange(1, 5))
        misread = misread_operators(text, is_python=True)
        assert (misread is not None) == _has_bare_operand(text), text
        if misread is not None:
            refused += 1
            assert misread_operators(misread.corrected, is_python=True) is None, text
    assert refused > 300


def test_the_corrected_expression_has_the_value_that_root_gives() -> None:
    """The reader of ROOT formulas is compared with ROOT in tests/peers. Masks (``a & 3 == 3``) are left out."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    random_ = random.Random(seed)
    compared = 0
    while compared < 200:
        text = " ".join(
            part
            for _ in range(random_.randrange(2, 4))
            for part in (random_.choice("abc"), random_.choice(["<", ">", "==", "!="]), "3", random_.choice("&|"))
        )[:-2]
        misread = misread_operators(text, is_python=True)
        assert misread is not None
        assert _value(misread.corrected) == _value(text, language=FORMULA), (text, misread.corrected)
        compared += 1


CALLS: dict[str, Callable[[Any, str], object]] = {
    "arrays": lambda tree, cut: tree.arrays(["number"], cut=cut),
    "expression": lambda tree, cut: tree.arrays([cut]),
    "iterate": lambda tree, cut: next(tree.iterate(["number"], cut=cut)),
    "alias": lambda tree, cut: tree.arrays(["one"], aliases={"one": cut}),
    "alias in a cut": lambda tree, cut: tree.arrays(["number"], cut="one", aliases={"one": cut}),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", ["ttree", "rntuple", "parquet"])
def test_every_call_refuses_it_on_every_format(sample: Sample, tmp_path: Path, call: str, kind: str) -> None:
    path = str(sample.location)
    if kind != "ttree":
        made = tmp_path / ("made.parquet" if kind == "parquet" else "made.root")
        branchline.convert(path, made, to=kind, branches=["number", "energy"])
        path = str(made)
    tree = branchline.open(path)
    tree = tree if hasattr(tree, "arrays") else tree[tree.keys()[0]]
    with pytest.raises(branchline.ExpressionError, match=r"write \(energy > 0\) & \(number > 3\)"):
        CALLS[call](tree, "energy > 0 & number > 3")
    with pytest.raises(branchline.ExpressionError, match=r"write energy > 0 and number > 3"):
        CALLS[call](tree, "energy > 0 && number > 3")


def test_other_calls_and_the_command_refuse_it(sample: Sample, tmp_path: Path) -> None:
    path, cut, written = str(sample.location), "energy > 0 & number > 3", tmp_path / "out.root"
    for call in (
        lambda: branchline.concatenate(path, ["number"], cut=cut),
        lambda: next(branchline.iterate(path, ["number"], cut=cut)),
        lambda: branchline.skim(path, written, where=cut),
    ):
        with pytest.raises(branchline.ExpressionError, match=r"write \(energy > 0\) & \(number > 3\)"):
            call()
    done = run_branchline(tmp_path, ["skim", path, "--where", cut, "-o", written])
    assert done.returncode != 0
    assert "write (energy > 0) & (number > 3)" in done.stderr
    assert not written.exists()


def test_bitwise_operators_say_which_operands_they_take(sample: Sample) -> None:
    tree: Any = branchline.open(sample.location)
    for sign in ("&", "|", "^", "<<", ">>"):
        with pytest.raises(branchline.ExpressionError, match="needs integers or booleans"):
            tree.arrays([f"energy {sign} number"])
