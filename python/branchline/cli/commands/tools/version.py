"""`branchline version`."""

from __future__ import annotations

from branchline._core import __version__
from branchline.cli.printing import print_out


def version() -> None:
    """Prints the version."""
    print_out(__version__)
