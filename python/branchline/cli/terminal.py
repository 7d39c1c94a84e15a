"""The console that tables are printed to."""

from __future__ import annotations

import os
import sys

from rich.console import Console

#: Width of tables in files and pipes, which have no width of their own.
WIDTH_ELSEWHERE = 200


def console() -> Console:
    """The standard output, as wide as the terminal; wide if it is a file or a pipe."""
    is_elsewhere = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=WIDTH_ELSEWHERE if is_elsewhere else None)
