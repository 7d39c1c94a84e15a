"""How Branchline starts Python for its own modules."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def own_python(python: str | None = None) -> tuple[str, ...]:
    """The first words of a command that runs a module of this package, by this interpreter or another one.

    ``-P``: Python does not import a file of the folder where it starts, such as ``queue.py``, instead of the library of
    that name.
    """
    return (python or sys.executable, "-P")


def package_folder() -> Path:
    """The folder of this package, which need not be among the installed ones."""
    return Path(__file__).resolve().parents[1]


def process_lives(process: int) -> bool:
    """True if there is a process with this number on this machine."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # it lives, and belongs to another user
    return True
