"""Unix users of this machine under which trains of accounts run on batch systems.

Trains never run as root or as the Unix user of the control room.
"""

from __future__ import annotations

import os
import pwd
import re

from branchline.errors import OptionError

_UNIX_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


def unix_user(name: str, *refused: int) -> pwd.struct_passwd:
    """Look up a local user.

    Raises OptionError for an unknown user, root, the server's own user, and users whose IDs are in ``refused``.
    """
    if not _UNIX_NAME.fullmatch(name):
        what = f"invalid name of a Unix user {name!r:.80}"
        raise OptionError(what, hint="use lowercase letters, digits, - and _, starting with a letter or _")
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        hint = "create it first, with the same name as on the nodes"
        raise OptionError(f"this machine has no user {name}", hint=hint) from None
    if found.pw_uid == 0:
        raise OptionError(f"{name} is root, and user code never runs as root")
    if found.pw_uid in (os.geteuid(), *refused):
        raise OptionError(f"{name} is the user of the control room, and user code never runs as that user")
    return found
