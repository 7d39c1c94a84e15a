"""Extract the prose of sources and documents: comments, docstrings, texts for users, and Markdown without code."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: Minimum number of words of a literal that counts as prose. Shorter literals are names, formats or queries.
SENTENCE_WORDS_MIN = 4
RUST_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Prose:
    """A comment, a docstring, a text or a line of Markdown, with the number of its first line."""

    line: int
    text: str


@cache
def prose_of(path: Path) -> list[Prose]:
    """Return the prose of a file, whose language follows from its suffix: .py, .pyi, .rs or .md."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".py", ".pyi"):
        return list(prose_of_python(text))
    return list(prose_of_rust(text) if path.suffix == ".rs" else prose_of_markdown(text))


def prose_of_python(source: str) -> Iterator[Prose]:
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if text := ast.get_docstring(node, clean=False):
            docstrings.add(node.body[0].lineno)
            yield Prose(node.body[0].lineno, text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.lineno not in docstrings:
            yield from (Prose(node.lineno, one) for one in [node.value] if _is_sentence(one))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Prose(token.start[0], token.string.lstrip("#: "))


def prose_of_rust(source: str) -> Iterator[Prose]:
    for number, line in enumerate(source.splitlines(), start=1):
        code = line.strip()
        if code.startswith("//"):
            yield Prose(number, code.lstrip("/! "))
        else:
            yield from (Prose(number, text) for text in RUST_TEXT.findall(line) if _is_sentence(text))


def prose_of_markdown(source: str) -> Iterator[Prose]:
    is_code = False
    for number, line in enumerate(source.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield Prose(number, re.sub(r"`[^`]*`|\]\([^)]*\)", "x", line))


def _is_sentence(text: str) -> bool:
    return len(text.split()) >= SENTENCE_WORDS_MIN and "\n" not in text
