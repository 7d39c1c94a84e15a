"""`branchline version`."""

from __future__ import annotations

import branchline
from branchline.cli.printing import print_out


def version() -> None:
    """Prints the version."""
    print_out(branchline.__version__)
