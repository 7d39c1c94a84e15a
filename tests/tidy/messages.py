"""Collect the error messages in the sources as templates, with a placeholder for each embedded value."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Names of exception parameters with further texts for the user.
HINTS = ("hint",)
EXCEPTION = re.compile(r"(?:Error|Exception|Warning)$")
RUST_ATTRIBUTE = re.compile(r'#\[error\(\s*"((?:[^"\\]|\\.)*)"')
#: Functions of the crates that create an error: `FormatError::damaged(offset, "...")`, `refuse(format!("..."))`.
RUST_CONSTRUCTOR = re.compile(
    r"\b(?:damaged|unsupported|truncated|corrupt|not_root|refused?|invalid|fault|failed|taken|missing)\("
    r'(?:[\w.&*() +-]+,\s*)?(?:format!\(\s*)?"((?:[^"\\]|\\.)*)"'
)


@dataclass(frozen=True)
class Value:
    """A value in a message. ``quoted`` is true if the value is embedded as `{name!r}`, with a number format, or as a
    call.
    """

    expression: str
    quoted: bool


@dataclass(frozen=True)
class Message:
    """An error message. ``text`` contains `{}` in place of each value."""

    path: Path
    line: int
    text: str
    values: tuple[Value, ...] = ()
    is_hint: bool = False

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text!r}"


def messages_of_python(path: Path) -> Iterator[Message]:
    """Yield the messages and hints of all exceptions that a module creates. A text may be a literal or a local
    variable.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: dict[tuple[int, int], Message] = {}
    for scope in ast.walk(tree):
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            texts = _assigned(scope)
            for call in ast.walk(scope):
                if isinstance(call, ast.Call) and EXCEPTION.search(_name(call.func)):
                    for argument, is_hint in _arguments(call):
                        for node in _strings(argument, texts):
                            text, values = _template(node)
                            place = (node.lineno, node.col_offset)
                            found[place] = Message(path, node.lineno, text, values, is_hint)
    yield from (found[place] for place in sorted(found))


def messages_of_rust(path: Path) -> Iterator[Message]:
    """Yield the messages in `#[error("...")]` attributes, and the literals passed to functions that create an error."""
    source = path.read_text(encoding="utf-8").partition("#[cfg(test)]")[0]
    for pattern in (RUST_ATTRIBUTE, RUST_CONSTRUCTOR):
        for match in pattern.finditer(source):
            literal = re.sub(r"\\\n\s*", "", match[1]).replace('\\"', '"')
            text = re.sub(r"\{[^{}]*\}", "{}", literal)
            yield Message(path, source.count("\n", 0, match.start(1)) + 1, text)


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _arguments(call: ast.Call) -> Iterator[tuple[ast.expr, bool]]:
    # The first argument of an HTTPException is the status, and the second is the text.
    yield from ((one, False) for one in call.args[:2] if isinstance(one, ast.Constant | ast.JoinedStr | ast.Name))
    yield from ((one.value, True) for one in call.keywords if one.arg in HINTS)


def _assigned(scope: ast.FunctionDef | ast.AsyncFunctionDef | ast.Module) -> dict[str, list[ast.expr]]:
    """Return all expressions that a function or module assigns to each of its variables."""
    found: dict[str, list[ast.expr]] = {}
    if not isinstance(scope, ast.Module):
        for node in ast.walk(scope):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found.setdefault(node.targets[0].id, []).append(node.value)
    return found


def _strings(node: ast.expr, texts: dict[str, list[ast.expr]]) -> Iterator[ast.Constant | ast.JoinedStr]:
    """Yield the string literals that an argument may evaluate to."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        yield node
    elif isinstance(node, ast.IfExp):
        yield from _strings(node.body, texts)
        yield from _strings(node.orelse, texts)
    elif isinstance(node, ast.Name) and node.id in texts:
        for value in texts[node.id]:
            if not isinstance(value, ast.Name):
                yield from _strings(value, texts)


def _template(node: ast.Constant | ast.JoinedStr) -> tuple[str, tuple[Value, ...]]:
    if isinstance(node, ast.Constant):
        return str(node.value), ()
    text, values = "", []
    for part in node.values:
        if isinstance(part, ast.Constant):
            text += str(part.value)
        elif isinstance(part, ast.FormattedValue):
            text += "{}"
            is_quoted = part.conversion == ord("r") or isinstance(part.value, ast.Call) or part.format_spec is not None
            values.append(Value(ast.unparse(part.value), is_quoted))
    return text, tuple(values)
