"""The console that tables are printed to."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn, TypedDict, Unpack

from rich.console import Console
from rich.text import Text

from branchline.base.texts import escaped
from branchline.cli.printing import output_checked

if TYPE_CHECKING:
    from rich.console import HighlighterType, JustifyMethod, OverflowMethod
    from rich.style import Style

#: Width of tables that are written to a file or a pipe.
WIDTH_ELSEWHERE = 200


class _TextOptions(TypedDict, total=False):
    style: str | Style
    justify: JustifyMethod | None
    overflow: OverflowMethod | None
    emoji: bool | None
    markup: bool | None
    highlight: bool | None
    highlighter: HighlighterType | None


class OutputConsole(Console):
    """A console that raises the same errors as `print_out` if standard output cannot be written."""

    print = output_checked()(Console.print)

    def render_str(self, text: str, **options: Unpack[_TextOptions]) -> Text:
        """Render a string on one line; rich calls this method for each string, including cells. A ``Text`` stays
        unchanged.
        """
        return super().render_str(escaped(text), **options)

    def on_broken_pipe(self) -> NoReturn:
        """Raise BrokenPipeError for the caller to handle; rich would exit with an error."""
        raise BrokenPipeError


def console() -> Console:
    """Return the console for standard output: as wide as the terminal, or of a fixed width for a file or a pipe."""
    is_elsewhere = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    # Markup is off, because names may look like markup.
    return OutputConsole(width=WIDTH_ELSEWHERE if is_elsewhere else None, markup=False, emoji=False)
