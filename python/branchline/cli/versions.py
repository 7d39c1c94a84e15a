"""`branchline version`."""

from __future__ import annotations

import branchline
from branchline.cli.failure import tell


def version() -> None:
    """Prints the version."""
    tell(branchline.__version__)
