"""What a notebook shows: tables in HTML, and a bar that moves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from importlib import import_module
from typing import Any

# Rows of a table in a notebook: as many as one looks through; `show` and `keys` have the rest.
HTML_ROWS = 60


def html_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], rest: str = "") -> str:
    """A table for a notebook. Texts of files are escaped; spaces at the beginning of a name stay."""
    cells = "".join(f"<th>{escape(text)}</th>" for text in head)
    lines = [f"<tr>{''.join(f'<td>{_cell(text)}</td>' for text in row)}</tr>" for row in rows]
    below = f"<div>{escape(rest)}</div>" if rest else ""
    return f"<div><b>{escape(title)}</b><table><thead><tr>{cells}</tr></thead>" + (
        f"<tbody>{''.join(lines)}</tbody></table>{below}</div>"
    )


def _cell(text: str) -> str:
    indent = len(text) - len(text.lstrip(" "))
    return "&nbsp;" * indent + escape(text[indent:])


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which shows HTML."""
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


#: Called with the part that is done, from 0 to 1, or None if nobody knows, and a text.
Move = Callable[[float | None, str], None]


@contextmanager
def notebook_bar() -> Iterator[Move]:
    """Shows a bar below the cell that runs, and gives the function that moves it; it goes away at the end."""
    display: Any = import_module("IPython.display")
    handle = display.display(display.HTML(""), display_id=True)

    def move(part: float | None, text: str) -> None:
        value = "" if part is None else f' value="{min(max(part, 0.0), 1.0):.3f}"'
        handle.update(display.HTML(f"<progress{value}></progress> {escape(text)}"))

    try:
        yield move
    finally:
        handle.update(display.HTML(""))
