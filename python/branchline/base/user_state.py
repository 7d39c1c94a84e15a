"""The folder of the user for what programs remember."""

from __future__ import annotations

import os
from pathlib import Path

from branchline.errors import OptionError


def state_folder() -> Path:
    """Return the folder by the XDG base directory specification. Raises OptionError without a home directory."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # As the specification says, such a path is ignored.
        home = os.path.expanduser("~")
        if not os.path.isabs(home):
            raise OptionError("there is no home directory for what is measured", hint="set XDG_STATE_HOME")
        state = f"{home}/.local/state"
    return Path(state) / "branchline"
