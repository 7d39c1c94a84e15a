"""Parses ROOT's formulas, such as the aliases in files, into syntax trees that are evaluated like expressions.

The grammar follows TTreeFormula: operators have the precedence of C, except that ``^`` and ``**`` are powers, which
bind tighter than unary minus, looser than ``!``, and associate to the left; ``%`` binds looser than ``*`` and ``/``.
Values never differ silently from those of ROOT: unsupported features raise an error, and so do expressions that ROOT
parses differently from C (chained comparisons, shifts next to other operators).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import NoReturn

from branchline.errors import ExpressionError
from branchline.reading.expressions.expressions import Language, short
from branchline.reading.expressions.functions import CONSTANTS, FORMULA_FUNCTIONS, OPERATORS

TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<name>@?[A-Za-z_]\w*\$?(?:(?:\.@?|::|->)[A-Za-z_]\w*\$?)*)
    |(?P<text>"[^"]*")
    |(?P<sign>\|\||&&|<<|>>|[<>=!]=|\*\*|[-+*/%^&|!<>()\[\],])
    |(?P<end>$)
    )""",
    re.VERBOSE,
)
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
SHIFTS = ("<<", ">>")
# Binary operators by precedence, lowest first.
LEVELS = (("||",), ("&&",), ("|",), ("&",), COMPARISONS, ("+", "-"), ("%",), ("*", "/"), SHIFTS)
# ROOT parses these as right-associative, which matters for values that overflow the conversion to 64 bits.
FROM_THE_RIGHT = ("|", "&")
POWERS = ("^", "**")
NOT_TRANSLATED = re.compile(r"[$@]|->|::")
HINT = "compute it from its branches, in NumPy or with a Python expression"


class _Parser:
    """A recursive descent parser of formulas. ``_bare`` contains the operator of each operation without parentheses, by
    the id of its node.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._kind, self._token = "", ""
        self._bare: dict[int, str] = {}
        self._kept: list[ast.expr] = []  # keeps nodes alive so that their ids in _bare stay valid
        self._advance()

    def parse(self) -> ast.expr:
        node = self._binary(0)
        if self._kind != "end":
            self._refuse(f"{self._token!r} here")
        return node

    def _refuse(self, what: str, hint: str = HINT) -> NoReturn:
        raise ExpressionError(f"the formula {short(self._text)!r}: {what} is not supported", hint=hint)

    def _advance(self) -> str:
        """Return the current token and advance to the next one."""
        before = self._token
        found = TOKEN.match(self._text, self._position)
        if found is None:
            rest = self._text[self._position :].strip()
            self._refuse(repr("?:" if rest[0] == "?" else rest[0]))
        assert found.lastgroup is not None
        self._kind, self._token, self._position = found.lastgroup, found[found.lastgroup], found.end()
        return before

    def _is(self, *tokens: str) -> bool:
        return self._kind == "sign" and self._token in tokens

    def _expect(self, token: str) -> None:
        if not self._is(token):
            self._refuse(f"{self._token or 'its end'!r} in place of {token!r}")
        self._advance()

    def _binary(self, level: int) -> ast.expr:
        if level == len(LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._is(*LEVELS[level]):
            sign = self._advance()
            right = self._binary(level if sign in FROM_THE_RIGHT else level + 1)
            for operand in (left, right):
                before = self._bare.get(id(operand))
                chained = sign in COMPARISONS and before in COMPARISONS
                if chained or before in SHIFTS or (sign in SHIFTS and before is not None):
                    self._refuse(f"{before!r} next to {sign!r} without parentheses")
            left = self._applied(sign, left, right)
        return left

    def _applied(self, sign: str, *operands: ast.expr) -> ast.expr:
        node = _call(sign, *operands)
        self._bare[id(node)] = sign
        self._kept.append(node)
        return node

    def _unary(self) -> ast.expr:
        if not self._is("-"):
            return self._power()
        self._advance()
        if self._is("-"):
            self._refuse("'--'")
        return self._applied("negative", self._power())

    def _power(self) -> ast.expr:
        node = self._negation()
        while self._is(*POWERS):
            self._advance()
            is_negative = self._is("-")
            if is_negative:
                self._advance()
            exponent = self._negation()
            if is_negative and self._is(*POWERS):
                self._refuse("'^-' before another '^' without parentheses")
            node = self._applied("^", node, self._applied("negative", exponent) if is_negative else exponent)
        return node

    def _negation(self) -> ast.expr:
        if not self._is("!"):
            return self._primary()
        self._advance()
        return self._applied("!", self._negation())

    def _primary(self) -> ast.expr:
        if self._kind == "number":
            token = self._advance()
            return ast.Constant(float(int(token, 16)) if token[:2] in ("0x", "0X") else float(token))
        if self._kind == "text":
            return ast.Constant(self._advance()[1:-1])
        if self._kind == "name":
            return self._named()
        if not self._is("("):
            self._refuse(f"{self._token or 'its end'!r} here")
        self._advance()
        node = self._binary(0)
        self._expect(")")
        self._bare.pop(id(node), None)
        return node

    def _named(self) -> ast.expr:
        name = self._advance()
        if self._is("("):
            return self._function(name)
        if NOT_TRANSLATED.search(name):
            self._refuse(repr(name))
        first, *others = name.split(".")
        node: ast.expr = ast.Name(first)
        for other in others:
            node = ast.Attribute(node, other)
        while self._is("["):
            self._advance()
            node = self._element(node)
        return node

    def _element(self, node: ast.expr) -> ast.expr:
        """Parse an index, which selects one element of each entry; ``[]`` selects all elements."""
        if self._kind == "number" and self._token.isdecimal():
            every: ast.expr = ast.Slice()
            node = ast.Subscript(node, ast.Tuple([every, ast.Constant(int(self._advance()))]))
        elif not self._is("]"):
            self._refuse(f"a computed index ([{self._token}...)")
        self._expect("]")
        return node

    def _function(self, name: str) -> ast.expr:
        function = FORMULA_FUNCTIONS.get(name)
        if function is None:
            self._refuse(f"{name}(...)")
        self._advance()
        arguments: list[ast.expr] = []
        while not self._is(")"):
            if arguments:
                self._expect(",")
            arguments.append(self._binary(0))
        self._advance()
        if len(arguments) != function.arguments_count:
            self._refuse(f"{name} with {len(arguments)} arguments")
        return _call(name, *arguments)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name), list(arguments), [])


def _parsed(text: str) -> ast.expr:
    return _Parser(text).parse()


_COMPUTED: dict[str, Callable[..., object]] = {
    **OPERATORS,
    **{name: function.compute for name, function in FORMULA_FUNCTIONS.items()},
}
FORMULA = Language(_parsed, _COMPUTED, CONSTANTS)
