"""The console that tables are printed to."""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

from rich.console import Console
from rich.text import Text

from branchline.base.texts import escaped
from branchline.cli.printing import output_checked

#: Width of tables in files and pipes, which have no width of their own.
WIDTH_ELSEWHERE = 200


class OutputConsole(Console):
    """Raises what `print_out` raises where the standard output cannot be written."""

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich's."""
        with output_checked():
            super().print(*objects, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """As rich's, on one line; rich calls it for each text, also those in cells. A ``Text`` stays as it is."""
        return super().render_str(escaped(text), **options)

    def on_broken_pipe(self) -> NoReturn:
        """Leaves to the caller what happens: rich would end the process with an error."""
        raise BrokenPipeError


def console() -> Console:
    """The standard output, as wide as the terminal; wide if it is a file or a pipe."""
    is_elsewhere = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    # Names may look like markup.
    return OutputConsole(width=WIDTH_ELSEWHERE if is_elsewhere else None, markup=False, emoji=False)
