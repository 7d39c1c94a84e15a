"""The user's folder for persistent state."""

from __future__ import annotations

import os
from pathlib import Path

from branchline.errors import OptionError


def state_folder() -> Path:
    """Return the state folder according to the XDG Base Directory Specification. Raises OptionError without a home
    directory.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # The specification says that relative paths must be ignored.
        home = os.path.expanduser("~")
        if not os.path.isabs(home):
            raise OptionError("cannot store measurements without a home directory", hint="set XDG_STATE_HOME")
        state = f"{home}/.local/state"
    return Path(state) / "branchline"
