"""Python expressions over branches: parsed, checked against a list of what they may hold, and computed on arrays.

Nothing is ever given to Python to execute: an expression becomes a tree of the functions below, and a name in it is a
branch, an alias, or one of FUNCTIONS.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from unicodedata import normalize

import awkward as ak
import numpy as np

from branchline.errors import ExpressionError, NoSuchKeyError
from branchline.reading.expressions.functions import FUNCTIONS
from branchline.reading.expressions.name_filters import near_names_hint
from branchline.reading.expressions.operators import misread_operators

# The value of a part of an expression, given the values of the names in it.
Compute = Callable[[Callable[[str], Any]], Any]

# `get("name")` is a branch whose name is not one in Python's sense.
GETTER = "get"
NUMPY_NAMES = ("np", "numpy")
# Whole numbers that a constant may have: enough for any mask, too little to fill the memory.
CONSTANT_BITS_MAX = 4096
LONGEST_REASON = 300

BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
#: Operators that floating-point numbers do not have.
BITWISE = {operator.and_: "&", operator.or_: "|", operator.xor: "^", operator.lshift: "<<", operator.rshift: ">>"}
UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.Not: np.logical_not,
}
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
# What computing with arrays of any kind may raise.
FAILURES = (ArithmeticError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)


class Language(NamedTuple):
    """How a text becomes a syntax tree of Python, and the functions and constants that it may name."""

    parse: Callable[[str], ast.expr]
    functions: Mapping[str, Callable[..., Any]]
    constants: Mapping[str, float]


def _python(text: str) -> ast.expr:
    """Parses an expression of a user. Raises SyntaxError, and ExpressionError for operators that would be misread."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        _check_operators(text, is_python=False)
        raise
    _check_operators(text, is_python=True)
    return node


def _check_operators(text: str, *, is_python: bool) -> None:
    misread = misread_operators(text, is_python=is_python)
    if misread is not None:
        raise ExpressionError(f"{short(text)!r}: {misread.what}", hint=f"write {short(misread.corrected)}") from None


PYTHON = Language(_python, FUNCTIONS, {})


class Expression:
    """A parsed expression; ``names`` are the branches and aliases that it needs.

    ``is_name`` says whether a branch or alias has a name, ``known`` lists names for the hint of an error, ``path`` is
    the file to name in one. Raises ExpressionError if the text is no expression or holds what is not allowed,
    NoSuchKeyError if a name is not known.
    """

    def __init__(
        self,
        text: str,
        is_name: Callable[[str], bool],
        known: Callable[[], list[str]],
        path: str,
        language: Language = PYTHON,
    ) -> None:
        self.text = text
        self._path = path
        compiler = _Compiler(text, is_name, known, language)
        try:
            self._compute = compiler.compile(language.parse(text))
        except SyntaxError as error:
            what = f"{short(text)!r} cannot be parsed as an expression: {error.msg} {_place(text, error)}"
            raise ExpressionError(what, path=path) from None
        except (ExpressionError, NoSuchKeyError) as error:
            error.path = path
            raise
        except (RecursionError, MemoryError, ValueError):
            raise ExpressionError(f"{short(text)!r} is too deep, or no expression", path=path) from None
        self.names = compiler.names

    def value(self, value_of: Callable[[str], Any], entries_count: int) -> ak.Array:
        """One value for each entry, from those of its names. Raises ExpressionError."""
        try:
            value = self._compute(value_of)
        except ExpressionError:
            raise
        except FAILURES as error:
            reason = short(" ".join(str(error).split())) or type(error).__name__
            raise self._not_computed(reason) from error
        except RecursionError:
            raise self._not_computed("it is too deep") from None
        if not isinstance(value, ak.Array):
            if self.names:
                raise self._not_computed("it gives one value for all entries together")
            value = ak.Array(np.full(entries_count, value))
        if len(value) != entries_count:
            raise self._not_computed(f"it gives {len(value)} values for {entries_count} entries")
        return value

    def _not_computed(self, reason: str) -> ExpressionError:
        return ExpressionError(f"{short(self.text)!r} cannot be computed: {reason}", path=self._path)


class _Compiler:
    """Turns the nodes of a syntax tree into functions, and refuses those that are not listed here."""

    def __init__(
        self, text: str, is_name: Callable[[str], bool], known: Callable[[], list[str]], language: Language
    ) -> None:
        self.names: list[str] = []
        self._text = text
        self._language = language
        self._is_name = is_name
        self._known = known
        self._compilers: dict[type[ast.expr], Callable[[Any], Compute]] = {
            ast.Attribute: self._attribute,
            ast.BinOp: self._binary,
            ast.BoolOp: self._boolean,
            ast.Call: self._call,
            ast.Compare: self._comparison,
            ast.Constant: self._constant,
            ast.Name: self._attribute,
            ast.Subscript: self._subscript,
            ast.UnaryOp: self._unary,
        }

    def compile(self, node: ast.expr) -> Compute:
        compiler = self._compilers.get(type(node))
        if compiler is None:
            raise self._refused(node)
        return compiler(node)

    def _refused(self, node: ast.AST) -> ExpressionError:
        what = type(node).__name__
        return ExpressionError(
            f"{short(self._text)!r}: {what} is not allowed in an expression",
            hint="numbers, branches, operators, comparisons, [...] and mathematical functions are",
        )

    def _named(self, name: str) -> Compute:
        if name not in self.names:
            self.names.append(name)
        return lambda value_of: value_of(name)

    def _constant(self, node: ast.Constant) -> Compute:
        value = node.value
        if not isinstance(value, bool | int | float | complex | str):
            raise self._refused(node)
        return lambda _: value

    def _attribute(self, node: ast.Attribute | ast.Name) -> Compute:
        """A branch, whose name may have dots, or a member of what is before the last dots."""
        members: list[str] = []
        rest: ast.expr = node
        while (name := _dotted(rest)) is not None:
            branch = self._as_spelled(name)
            if self._is_name(branch):
                return _with_members(self._named(branch), members)
            if not isinstance(rest, ast.Attribute):
                if name in self._language.constants:
                    return _with_members(lambda _: self._language.constants[name], members)
                raise self._unknown(_dotted(node) or name)
            members.insert(0, rest.attr)
            rest = rest.value
        assert isinstance(node, ast.Attribute)
        return _with_members(self.compile(node.value), [node.attr])

    def _as_spelled(self, name: str) -> str:
        """The branch as it is named. Python's parser changes some letters, as the micro sign to the Greek letter mu."""
        if name.isascii() or self._is_name(name):
            return name
        return next((one for one in self._known() if normalize("NFKC", one) == name), name)

    def _unknown(self, name: str) -> NoSuchKeyError:
        where = "" if name == self._text.strip() else f" (in {short(self._text)!r})"
        what = f"there is no branch or alias {name!r}{where}"
        if name in self._language.functions:
            return NoSuchKeyError(what, hint=f"{name} is a function: {name}(...)")
        return NoSuchKeyError(what, hint=near_names_hint(name, self._known()))

    def _binary(self, node: ast.BinOp) -> Compute:
        apply = BINARY.get(type(node.op))
        if apply is None:
            raise self._refused(node.op)
        left, right = self.compile(node.left), self.compile(node.right)
        return lambda value_of: _applied(apply, left(value_of), right(value_of))

    def _unary(self, node: ast.UnaryOp) -> Compute:
        apply, operand = UNARY[type(node.op)], self.compile(node.operand)
        return lambda value_of: apply(operand(value_of))

    def _boolean(self, node: ast.BoolOp) -> Compute:
        apply = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
        operands = [self.compile(operand) for operand in node.values]
        return lambda value_of: _folded(apply, [operand(value_of) for operand in operands])

    def _comparison(self, node: ast.Compare) -> Compute:
        refused = next((one for one in node.ops if type(one) not in COMPARISONS), None)
        if refused is not None:
            raise self._refused(refused)
        operands = [self.compile(operand) for operand in (node.left, *node.comparators)]

        def compare(value_of: Callable[[str], Any]) -> Any:
            values = [operand(value_of) for operand in operands]
            pairs = zip(node.ops, values[:-1], values[1:], strict=True)
            return _folded(np.logical_and, [COMPARISONS[type(one)](left, right) for one, left, right in pairs])

        return compare

    def _call(self, node: ast.Call) -> Compute:
        name = _dotted(node.func)
        if name is not None and name.split(".")[0] in NUMPY_NAMES:
            name = name.partition(".")[2]
        if node.keywords:
            raise self._refused(node.keywords[0])
        if name == GETTER:
            return self._got(node)
        functions = self._language.functions
        if name is None or name not in functions:
            what = f"there is no function {name or ast.unparse(node.func)!r} (in {short(self._text)!r})"
            raise ExpressionError(what, hint=near_names_hint(name or "", list(functions)))
        function, arguments = functions[name], [self.compile(argument) for argument in node.args]
        return lambda value_of: function(*[argument(value_of) for argument in arguments])

    def _got(self, node: ast.Call) -> Compute:
        arguments = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
        if len(arguments) != 1 or len(node.args) != 1 or not isinstance(arguments[0], str):
            raise ExpressionError(f"{short(self._text)!r}: {GETTER} takes the name of one branch, in quotes")
        if not self._is_name(arguments[0]):
            raise self._unknown(arguments[0])
        return self._named(arguments[0])

    def _subscript(self, node: ast.Subscript) -> Compute:
        """A branch that is named with its dimensions, or some of the values."""
        name = _with_dimensions(node)
        if name is not None and self._is_name(name):
            return self._named(name)
        value, index = self.compile(node.value), self._index(node.slice)

        def item(value_of: Callable[[str], Any]) -> Any:
            array = value(value_of)
            if not isinstance(array, ak.Array | ak.Record):
                raise TypeError(f"{ast.unparse(node.value)} is one value and has none within it")
            return array[index(value_of)]

        return item

    def _index(self, node: ast.expr) -> Compute:
        if isinstance(node, ast.Tuple):
            parts = [self._index(part) for part in node.elts]
            return lambda value_of: tuple(part(value_of) for part in parts)
        if isinstance(node, ast.Slice):
            limits = [part and self.compile(part) for part in (node.lower, node.upper, node.step)]
            return lambda value_of: slice(*[limit and limit(value_of) for limit in limits])
        if isinstance(node, ast.Constant) and node.value is Ellipsis:
            return lambda _: Ellipsis
        return self.compile(node)


def _place(text: str, error: SyntaxError) -> str:
    """Where in an expression, which was stripped for it, Python's parser stopped."""
    line, offset = error.lineno or 1, error.offset or 0
    rest = [one[offset - 1 :] for one in text.strip().splitlines()[line - 1 : line] if offset]
    if not rest or not rest[0].strip():
        return "at its end"
    where = f"line {line}, character {offset}" if line > 1 else f"character {offset + text.find(text.strip())}"
    return f"at {short(rest[0])!r}, {where}"


def _dotted(node: ast.expr) -> str | None:
    """``a.b.c`` of attributes of a name; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return None


def _with_dimensions(node: ast.expr) -> str | None:
    """``a.b[2][3]`` of a name with numbers in brackets; None for anything else."""
    if not isinstance(node, ast.Subscript):
        return _dotted(node)
    before = _with_dimensions(node.value)
    size = node.slice.value if isinstance(node.slice, ast.Constant) else None
    return f"{before}[{size}]" if before is not None and isinstance(size, int) else None


def _with_members(value: Compute, members: list[str]) -> Compute:
    """The member of a member of the records that a value holds."""
    if not members:
        return value

    def member(value_of: Callable[[str], Any]) -> Any:
        array = value(value_of)
        for name in members:
            if not isinstance(array, ak.Array | ak.Record) or name not in array.fields:
                raise ValueError(f"there is no member {name!r}")
            array = array[name]
        return array

    return member


def _applied(apply: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """An operator on arrays, or on constants that stay constants of a sensible size."""
    if isinstance(left, str) or isinstance(right, str):
        raise TypeError("there is no arithmetic with text")
    if isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length() * abs(right) if apply is operator.pow else left.bit_length() + abs(right)
        if apply in (operator.pow, operator.lshift) and bits > CONSTANT_BITS_MAX:
            raise OverflowError("a constant is too large")
    try:
        return apply(left, right)
    except TypeError as error:
        if apply in BITWISE:
            raise TypeError(f"{BITWISE[apply]} takes integers and truth values") from error
        raise


def _folded(apply: Callable[[Any, Any], Any], values: list[Any]) -> Any:
    result = values[0]
    for value in values[1:]:
        result = apply(result, value)
    return result


def short(text: str) -> str:
    """A text cut to the length that a message has room for."""
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 3] + "..."
