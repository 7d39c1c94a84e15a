"""The log of a task: what it prints, which the batch system writes to a file."""

from __future__ import annotations

import sys


def log(text: object) -> None:
    """Prints a line at once, so that it is there when the process is killed."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
