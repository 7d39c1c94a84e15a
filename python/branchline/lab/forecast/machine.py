"""By what a machine is known, and where what was measured on it is kept."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from branchline.errors import OptionError


def machine_name() -> str:
    """By what a machine is known: its name and its processor's kind, and how many cores there are."""
    return f"{platform.node()}, {platform.machine()}, {os.cpu_count()} cores"


def now_text() -> str:
    """The present moment in UTC, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def state_folder() -> Path:
    """The folder of the user for what programs remember, by the XDG base directory specification. Raises OptionError
    where there is no home directory.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # As the specification says, such a path is ignored.
        home = os.path.expanduser("~")
        if not os.path.isabs(home):
            raise OptionError("there is no home directory for what is measured", hint="set XDG_STATE_HOME")
        state = f"{home}/.local/state"
    return Path(state) / "branchline"
