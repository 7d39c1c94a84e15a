"""HTML tables, progress bars and names of cells for notebooks."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from importlib import import_module

# Maximum number of rows of a table in a notebook; `show` and `keys` give all rows.
HTML_ROWS = 60
#: A line of a traceback that names a file, and the source line that follows it, if there is one.
_FRAME = re.compile(r'^  File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?P<rest>.*)\n(?P<source>    .*\n)?', re.MULTILINE)


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


@contextmanager
def notebook_area() -> Iterator[Callable[[str], None]]:
    """Show HTML below the running cell, and yield the function that replaces it. Remove the HTML at the end."""
    display = import_module("IPython.display")
    handle = display.display(display.HTML(""), display_id=True)

    def show(html: str) -> None:
        handle.update(display.HTML(html))

    try:
        yield show
    finally:
        show("")


def html_bar(part: float | None, text: str) -> str:
    """Return a progress bar with a label. ``part`` is the completed fraction from 0 to 1, or None if it is unknown."""
    value = "" if part is None else f' value="{min(max(part, 0.0), 1.0):.3f}"'
    return f"<progress{value}></progress> {escape(text)}"


def cell_of(file: str) -> str | None:
    """Return the name of the cell whose code was compiled with this file name, such as "cell 6"; None for a file."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    named_by = getattr(getattr(shell, "compile", None), "format_code_name", None)
    named = None if named_by is None else named_by(file)
    number = None if named is None else re.search(r"\d+", named[1])
    return None if number is None else f"cell {number[0]}"


def with_cells(traceback: str) -> str:
    """Return a traceback, perhaps of another process, with the cells of this notebook in place of their file names, and
    with the lines of the cells.
    """

    def named(found: re.Match[str]) -> str:
        cell = cell_of(found["file"])
        if cell is None:
            return found[0]
        source = found["source"] or f"    {linecache.getline(found['file'], int(found['line'])).strip()}\n"
        return f"  {cell.capitalize()}, line {found['line']}{found['rest']}\n{source}"

    return _FRAME.sub(named, traceback)
