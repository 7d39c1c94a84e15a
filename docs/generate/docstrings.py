"""Adds reStructuredText markup to docstrings, for indented Python examples and for lists of `name: text`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

INDENT = "    "
PARAMETER = re.compile(r"^(\w+): (?=\S)")


def with_markup(lines: list[str]) -> list[str]:
    """Return the lines of a docstring with markup for its examples and parameter lists."""
    found: list[str] = []
    last, is_in_example = "", False
    for paragraph in _paragraphs(lines):
        if _is_example(paragraph, last):
            # Blank lines do not end an example.
            found += paragraph if is_in_example else [".. code-block:: python", "", *paragraph]
            is_in_example = True
            found.append("")
            continue
        is_in_example = False
        if _is_list_of_parameters(paragraph):
            found += _listed(paragraph)
        else:
            found += paragraph
        found.append("")
        last = paragraph[-1] if not paragraph[0].startswith(INDENT) else last
    return found


def _paragraphs(lines: list[str]) -> Iterator[list[str]]:
    """Yield blocks of lines separated by blank lines."""
    for is_text, group in groupby(lines, key=lambda line: bool(line.strip())):
        if is_text:
            yield list(group)


def _is_example(paragraph: list[str], last: str) -> bool:
    is_markup = last.endswith("::") or last.startswith((" ", "..", "*", "- ", ":"))
    return bool(last) and not is_markup and all(line.startswith(INDENT) for line in paragraph)


def _is_list_of_parameters(paragraph: list[str]) -> bool:
    return bool(PARAMETER.match(paragraph[0])) and all(
        PARAMETER.match(line) or line.startswith(INDENT) for line in paragraph
    )


def _listed(paragraph: list[str]) -> list[str]:
    lines = []
    for line in paragraph:
        if PARAMETER.match(line):
            lines.append(PARAMETER.sub(r"* ``\1``: ", line))
        else:
            lines.append(f"  {line.strip()}")
    return lines
