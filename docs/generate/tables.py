"""Renders tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def code(text: str) -> str:
    """Return the text as inline code, with vertical bars escaped."""
    return f"`{text}`".replace("|", "\\|") if text else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(one.replace(chr(10), ' ') for one in row)} |" for row in rows]
    return "\n".join(lines) + "\n"
