"""The console that tables are printed to, as wide as what it leads to allows."""

from __future__ import annotations

import os
import sys

from rich.console import Console

#: Files and pipes have no edge at which tables would have to be broken, but people look at them in windows.
WIDTH_ELSEWHERE = 200


def output() -> Console:
    """The standard output: as wide as the terminal, or as tables are liked in files and pipes."""
    is_elsewhere = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=WIDTH_ELSEWHERE if is_elsewhere else None)
