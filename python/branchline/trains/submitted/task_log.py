"""The log of a task: what it prints, which the batch system writes to a file."""

from __future__ import annotations

from branchline.base.printing import print_block, print_line


def log(text: object) -> None:
    """Prints a line at once, so that it is there when the process is killed."""
    print_line(text)


def log_traceback(text: str) -> None:
    """Prints the lines of a traceback."""
    print_block(text)
