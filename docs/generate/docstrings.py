"""Docstrings as Sphinx reads them: what is indented behind a paragraph is an example in Python."""

from __future__ import annotations


def with_examples(lines: list[str]) -> list[str]:
    """The lines of a docstring with the directive for code in front of each indented block."""
    found: list[str] = []
    last = ""
    for number, line in enumerate(lines):
        starts = line.startswith("    ") and number > 0 and not lines[number - 1].strip()
        if starts and last and not last.startswith((" ", "..", "*", "- ")) and not last.endswith("::"):
            found += [".. code-block:: python", ""]
        found.append(line)
        if line.strip():
            last = line
    return found
