"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def code(text: str) -> str:
    """Text in the type of code, also where it has a vertical bar in it."""
    return f"`{text}`".replace("|", "\\|") if text else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(one.replace(chr(10), ' ') for one in row)} |" for row in rows]
    return "\n".join(lines) + "\n"
