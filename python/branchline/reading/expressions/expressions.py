"""Python expressions over branches: parsed, checked against an allowlist, and evaluated on arrays.

Expressions are never executed by Python: they are compiled to calls of the functions below. A name in an expression is
a branch, an alias, or one of FUNCTIONS.
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
from branchline.reading.expressions.functions import FUNCTIONS, Operand
from branchline.reading.expressions.name_filters import near_names_hint
from branchline.reading.expressions.operators import misread_operators

# Evaluates a subexpression, given a function that returns the values of names.
Compute = Callable[[Callable[[str], Operand]], Operand]

# `get("name")` refers to a branch whose name is not a Python identifier.
GETTER = "get"
NUMPY_NAMES = ("np", "numpy")
# Maximum size of integer constants: enough for any mask, but too small to exhaust memory.
CONSTANT_BITS_MAX = 4096
LONGEST_REASON = 300

BINARY: dict[type[ast.operator], Callable[[Operand, Operand], Operand]] = {
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
#: Operators that are not defined for floating-point numbers.
BITWISE = {operator.and_: "&", operator.or_: "|", operator.xor: "^", operator.lshift: "<<", operator.rshift: ">>"}
UNARY: dict[type[ast.unaryop], Callable[[Operand], Operand]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.Not: np.logical_not,
}
COMPARISONS: dict[type[ast.cmpop], Callable[[Operand, Operand], Operand]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
# Exceptions that operations on arrays may raise.
FAILURES = (ArithmeticError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)


class Language(NamedTuple):
    """A parser from text to a Python syntax tree, and the functions and constants that expressions may use."""

    parse: Callable[[str], ast.expr]
    functions: Mapping[str, Callable[..., Operand]]
    constants: Mapping[str, float]


def _python(text: str) -> ast.expr:
    """Parse a Python expression. Raises SyntaxError, and ExpressionError for operators with a misleading precedence."""
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
    """A parsed expression; ``names`` are the branches and aliases that it uses.

    ``is_name`` tests whether a branch or alias exists, ``known`` returns all names for error hints, ``path`` is the
    file named in errors. Raises ExpressionError for invalid syntax or operations that are not allowed, NoSuchKeyError
    for an unknown name.
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
            raise ExpressionError(
                f"{short(text)!r} is nested too deeply, or not a valid expression", path=path
            ) from None
        self.names = compiler.names

    def value(self, value_of: Callable[[str], Operand], entries_count: int) -> ak.Array:
        """Evaluate the expression to one value per entry. Raises ExpressionError."""
        try:
            value = self._compute(value_of)
        except ExpressionError:
            raise
        except FAILURES as error:
            reason = short(" ".join(str(error).split())) or type(error).__name__
            raise self._not_computed(reason) from error
        except RecursionError:
            raise self._not_computed("it is nested too deeply") from None
        if not isinstance(value, ak.Array):
            if self.names:
                raise self._not_computed("it returns a single value for all entries")
            value = ak.Array(np.full(entries_count, value))
        if len(value) != entries_count:
            raise self._not_computed(f"it returns {len(value)} values for {entries_count} entries")
        return value

    def _not_computed(self, reason: str) -> ExpressionError:
        return ExpressionError(f"{short(self.text)!r} cannot be computed: {reason}", path=self._path)


class _Compiler:
    """Compiles the allowed nodes of a syntax tree to functions, and rejects all other nodes."""

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
            hint="use numbers, branches, operators, comparisons, [...] and mathematical functions",
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
        """Compile a dotted name: its longest prefix that is a branch or alias, followed by members of the value."""
        members: list[str] = []
        rest: ast.expr = node
        while (name := _dotted(rest)) is not None:
            # Python's parser normalizes some characters, for example the micro sign to the Greek letter mu.
            branch = (
                name
                if name.isascii() or self._is_name(name)
                else next((one for one in self._known() if normalize("NFKC", one) == name), name)
            )
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

    def _unknown(self, name: str) -> NoSuchKeyError:
        where = "" if name == self._text.strip() else f" (in {short(self._text)!r})"
        what = f"no branch or alias {name!r}{where}"
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

        def compare(value_of: Callable[[str], Operand]) -> Operand:
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
            what = f"unknown function {name or ast.unparse(node.func)!r} (in {short(self._text)!r})"
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
        """Compile a branch whose name includes its dimensions, such as ``a[2]``, or an indexing operation."""
        name = _with_dimensions(node)
        if name is not None and self._is_name(name):
            return self._named(name)
        value, index = self.compile(node.value), self._index(node.slice)

        def item(value_of: Callable[[str], Operand]) -> Operand:
            array = value(value_of)
            if not isinstance(array, ak.Array | ak.Record):
                raise TypeError(f"{ast.unparse(node.value)} is a single value and cannot be indexed")
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
    """Describe the position at which Python's parser stopped, counted in the expression before it was stripped."""
    line, offset = error.lineno or 1, error.offset or 0
    rest = [one[offset - 1 :] for one in text.strip().splitlines()[line - 1 : line] if offset]
    if not rest or not rest[0].strip():
        return "at its end"
    where = f"line {line}, character {offset}" if line > 1 else f"character {offset + text.find(text.strip())}"
    return f"at {short(rest[0])!r}, {where}"


def _dotted(node: ast.expr) -> str | None:
    """The dotted name ``a.b.c`` of a chain of attributes; None for other nodes."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return None


def _with_dimensions(node: ast.expr) -> str | None:
    """The name ``a.b[2][3]`` of a dotted name with constant subscripts; None for other nodes."""
    if not isinstance(node, ast.Subscript):
        return _dotted(node)
    before = _with_dimensions(node.value)
    size = node.slice.value if isinstance(node.slice, ast.Constant) else None
    return f"{before}[{size}]" if before is not None and isinstance(size, int) else None


def _with_members(value: Compute, members: list[str]) -> Compute:
    """Access nested members of the records in a value."""
    if not members:
        return value

    def member(value_of: Callable[[str], Operand]) -> Operand:
        array = value(value_of)
        for name in members:
            if not isinstance(array, ak.Array | ak.Record) or name not in array.fields:
                raise ValueError(f"no member {name!r}")
            array = array[name]
        return array

    return member


def _applied(apply: Callable[[Operand, Operand], Operand], left: Operand, right: Operand) -> Operand:
    """Apply an operator to arrays, or to constants if the result has a reasonable size."""
    if isinstance(left, str) or isinstance(right, str):
        raise TypeError("arithmetic is not defined for strings")
    if isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length() * abs(right) if apply is operator.pow else left.bit_length() + abs(right)
        if apply in (operator.pow, operator.lshift) and bits > CONSTANT_BITS_MAX:
            raise OverflowError("a constant is too large")
    try:
        return apply(left, right)
    except TypeError as error:
        if apply in BITWISE:
            raise TypeError(f"{BITWISE[apply]} needs integers or booleans") from error
        raise


def _folded(apply: Callable[[Operand, Operand], Operand], values: list[Operand]) -> Operand:
    result = values[0]
    for value in values[1:]:
        result = apply(result, value)
    return result


def short(text: str) -> str:
    """Truncate a text for error messages."""
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 3] + "..."
