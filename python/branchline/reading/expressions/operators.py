"""Detects operators whose precedence in Python differs from what the user probably means.

In C++ and in ROOT's formulas comparisons bind tighter than ``&`` and ``|``, in Python looser: ``pt > 20 & n > 3`` is
the chain ``pt > (20 & n) > 3``, which selects other events. Such expressions are rejected, with a corrected version in
the hint. So are ``&&``, ``||`` and ``!``, which Python does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<text>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")
    |(?P<word>[^\W\d][\w.]*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\w*)
    |(?P<sign>&&|\|\||<<|>>|<=|>=|==|!=|\*\*|//|[^\w\s])""",
    re.VERBOSE | re.DOTALL,
)
_COMPARISONS = {"<", "<=", ">", ">=", "==", "!="}
_BITWISE = {"&", "|", "^"}
_OF_CPP = {"&&": "and", "||": "or", "!": "not"}
_OPENING, _CLOSING = {"(", "["}, {")", "]"}
#: Tokens that bind looser than comparisons, or separate expressions.
_SEPARATORS = {"and", "or", "not", ",", ":"}


class _Token(NamedTuple):
    """A token of an expression, with its position and its bracket depth."""

    text: str
    start: int
    stop: int
    depth: int


class Misread(NamedTuple):
    """The problem with the operators of an expression, and the corrected expression."""

    what: str
    corrected: str


def misread_operators(text: str, *, is_python: bool) -> Misread | None:
    """Find the first problematic operator; None if there is none. In valid Python, this is ``&``, ``|`` or ``^`` next
    to a comparison without parentheses; in other text, ``&&``, ``||`` or ``!``.
    """
    tokens = _tokens(text)
    foreign = next((token.text for token in tokens if token.text in _OF_CPP), None)
    if foreign is not None and not is_python:
        return Misread(f"{foreign} is an operator of C++", _with_parentheses(_without_cpp(text, tokens)))
    for run in _competing(tokens) if is_python else ():
        bitwise, comparison = _first(run, _BITWISE), _first(run, _COMPARISONS)
        what = f"{bitwise} binds more tightly than {comparison} in Python, so parentheses are needed"
        return Misread(what, _with_parentheses(text))
    return None


def _tokens(text: str) -> list[_Token]:
    tokens, depth = [], 0
    for match in _TOKEN.finditer(text):
        depth -= match[0] in _CLOSING
        tokens.append(_Token(match[0], match.start(), match.end(), depth))
        depth += match[0] in _OPENING
    return tokens


def _runs(tokens: Sequence[_Token]) -> Iterator[list[_Token]]:
    """Split tokens at brackets and separators into runs, in which operators may compete for the same operand. The
    content of brackets is a run of its own; the run around it contains only the brackets.
    """
    open_runs: dict[int, list[_Token]] = {}
    for token in tokens:
        if token.text in _CLOSING:
            yield open_runs.pop(token.depth + 1, [])
        if token.text in _SEPARATORS:
            yield open_runs.pop(token.depth, [])
        else:
            open_runs.setdefault(token.depth, []).append(token)
    yield from open_runs.values()


def _first(run: Sequence[_Token], wanted: set[str]) -> str | None:
    return next((token.text for token in run if token.text in wanted), None)


def _competing(tokens: Sequence[_Token]) -> Iterator[list[_Token]]:
    """The runs that contain both bitwise operators and comparisons."""
    return (run for run in _runs(tokens) if _first(run, _BITWISE) and _first(run, _COMPARISONS))


def _with_parentheses(text: str) -> str:
    """Add parentheses around masks such as ``flags & 4``, and around comparisons."""
    places: list[tuple[int, str]] = []
    for run in _competing(_tokens(text)):
        before: list[_Token] = []
        for operand in _split(run, _BITWISE):
            is_mask = len(operand) > 1 and operand[0].text[0].isdigit() and operand[1].text in _COMPARISONS
            if before and is_mask and not _first(before, _COMPARISONS):
                places += [(before[0].start, "("), (operand[0].stop, ")")]
                # The comparison starts with the mask.
                operand = [before[0], *operand]
            if operand and _first(operand, _COMPARISONS):
                places += [(operand[0].start, "("), (operand[-1].stop, ")")]
            before = operand
    for place, bracket in sorted(places, reverse=True):
        text = text[:place] + bracket + text[place:]
    # Remove redundant parentheses around the whole expression.
    whole = text.strip()
    tokens = _tokens(whole)
    is_whole = tokens and tokens[0].text == "(" and all(token.depth for token in tokens[1:-1])
    return whole[1:-1].strip() if is_whole and tokens[-1].text == ")" else whole


def _split(run: Sequence[_Token], signs: set[str]) -> list[list[_Token]]:
    operands: list[list[_Token]] = [[]]
    for token in run:
        if token.text in signs:
            operands.append([])
        else:
            operands[-1].append(token)
    return operands


def _without_cpp(text: str, tokens: Sequence[_Token]) -> str:
    """Replace the operators of C++ by ``and``, ``or`` and ``not``."""
    edits: list[tuple[int, int, str]] = []
    for index, token in enumerate(tokens):
        if token.text in ("&&", "||"):
            edits.append((token.start, token.stop, f" {_OF_CPP[token.text]} "))
        elif token.text == "!":
            stop = _operand_stop(tokens, index + 1)
            edits += [(token.start, token.stop, "(not "), (stop, stop, ")")]
    for start, stop, new in sorted(edits, key=lambda edit: edit[0], reverse=True):
        text = text[:start] + new + text[stop:]
    return " ".join(text.split())


def _operand_stop(tokens: Sequence[_Token], index: int) -> int:
    """The end of the operand of a ``!``: a name or a group, with the brackets and members that follow it."""
    while index < len(tokens) and tokens[index].text == "!":
        index += 1
    if index >= len(tokens):
        return tokens[-1].stop
    last = tokens[index]
    for token in tokens[index + 1 :]:
        is_inside = token.depth > last.depth or (last.text in _OPENING and token.text in _CLOSING)
        goes_on = token.text in _OPENING or token.text == "." or last.text == "."
        if token.depth > tokens[index].depth or is_inside or (token.depth == tokens[index].depth and goes_on):
            last = token if token.depth == tokens[index].depth else last
            continue
        break
    return last.stop
