"""Users of the system as whom code of people runs: names that are one, and none with more rights than a person has."""

from __future__ import annotations

import os
import pwd
import re

from branchline.errors import OptionError

_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")

TABLE = """
CREATE TABLE IF NOT EXISTS unix_users (person TEXT PRIMARY KEY, unix_user TEXT NOT NULL) WITHOUT ROWID;
"""


def unix_user(name: str, *refused: int) -> pwd.struct_passwd:
    """A user of this machine. ``refused`` are numbers of users that nobody may be, as the one that the server runs as.
    Raises OptionError.
    """
    if not _NAME.fullmatch(name):
        what = f"{name!r:.80} is no name of a Unix user"
        raise OptionError(what, hint="small letters, digits, - and _, beginning with a letter or _")
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise OptionError(f"this machine has no user {name}", hint="make it first, as on the nodes") from None
    if found.pw_uid == 0:
        raise OptionError(f"{name} is root, and code of people never runs as root")
    if found.pw_uid in (os.geteuid(), *refused):
        raise OptionError(f"{name} is the user of the control room itself, and code of people never runs as that")
    return found
