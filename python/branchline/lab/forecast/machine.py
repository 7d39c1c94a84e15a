"""By what a machine is known, and where what was measured on it is kept."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime


def machine_name() -> str:
    """By what a machine is known: its name and its processor's kind, and how many cores there are."""
    return f"{platform.node()}, {platform.machine()}, {os.cpu_count()} cores"


def now_text() -> str:
    """The present moment in UTC, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")
