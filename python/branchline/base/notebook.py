"""HTML tables and progress bars for notebooks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from importlib import import_module

# Maximum number of rows of a table in a notebook; `show` and `keys` give all rows.
HTML_ROWS = 60


def html_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], rest: str = "") -> str:
    """Return an HTML table. Text is escaped; leading spaces of a cell are kept."""
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
    """Return whether this process is the kernel of a notebook, which can display HTML."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


#: Updates a progress bar: called with the completed fraction from 0 to 1, or None if it is unknown, and a label.
Move = Callable[[float | None, str], None]


@contextmanager
def notebook_bar() -> Iterator[Move]:
    """Show a progress bar below the running cell and yield the function that updates it. Remove the bar at the end."""
    display = import_module("IPython.display")
    handle = display.display(display.HTML(""), display_id=True)

    def move(part: float | None, text: str) -> None:
        value = "" if part is None else f' value="{min(max(part, 0.0), 1.0):.3f}"'
        handle.update(display.HTML(f"<progress{value}></progress> {escape(text)}"))

    try:
        yield move
    finally:
        handle.update(display.HTML(""))
