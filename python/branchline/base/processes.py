"""Start Python processes that run modules of Branchline, and check whether processes are alive."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def own_python(python: str | None = None) -> tuple[str, ...]:
    """Return the beginning of a command that runs a module of this package, with this interpreter or ``python``.

    The command contains ``-P``, so that a file in the current folder, such as ``queue.py``, does not shadow the library
    module of that name.
    """
    return (python or sys.executable, "-P")


def package_folder() -> Path:
    """Return the folder of this package, which need not be installed."""
    return Path(__file__).resolve().parents[1]


def process_lives(process: int) -> bool:
    """Return whether a process with this ID exists on this machine."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # The process exists and belongs to another user.
    return True
