"""The only module that unpickles. Unpickling runs code, so files are checked first: who owns them, who can write them.

A file is trusted if it belongs to this user, to root or to a user in ``BRANCHLINE_TRUSTED_USERS``, and nobody else can
write to it. As a symbolic link counts by the file that it leads to, and the file that was opened is checked and not its
name, nobody can exchange the file between the check and the reading.
"""

from __future__ import annotations

import grp
import os
import pickle
import pwd
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NewType

from branchline.errors import OptionError, UntrustedFileError

#: The environment variable that lists further trusted users, by name or number, separated by commas.
VARIABLE = "BRANCHLINE_TRUSTED_USERS"
_ROOT = 0

#: Bytes that this user wrote, or somebody whom this user trusts to run code.
TrustedBytes = NewType("TrustedBytes", bytes)


def unpickle(content: TrustedBytes) -> Any:
    """Return the pickled value. Raises whatever its classes raise."""
    return pickle.loads(content)  # noqa: S301 - the type says that somebody checked where the bytes come from


def from_own_process(content: bytes) -> TrustedBytes:
    """Mark bytes that this process made, or that came from a process which it started or which started it."""
    return TrustedBytes(content)


def read_trusted(path: Path) -> TrustedBytes:
    """Return the content of a trusted file. Raises UntrustedFileError for another file, and OSError."""
    # A pipe would block until somebody writes to it.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        check_trusted(os.fstat(file.fileno()), path)
        return TrustedBytes(file.read())


def check_trusted(status: os.stat_result, path: Path) -> None:
    """Raise UntrustedFileError, which names owner and mode, unless a file or directory is trusted."""
    mode = stat.S_IMODE(status.st_mode)
    what = f"{path} belongs to {user_text(status.st_uid)} and has mode {mode:04o}"
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise UntrustedFileError(f"{what}; it is neither a file nor a directory", path=str(path))
    if status.st_uid not in trusted_numbers():
        raise UntrustedFileError(
            f"{what}; its content would run as code of yours, so it is not loaded",
            path=str(path),
            hint=f"if you trust this user: --trust-user {_name_of(status.st_uid)}, or {VARIABLE}",
        )
    if mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _is_private_group(status)):
        raise UntrustedFileError(
            f"{what}, so that other users can write to it; its content would run as code of yours, so it is not loaded",
            path=str(path),
            hint=f"check what is in it, then: chmod go-w {path}",
        )


def trusted_numbers() -> frozenset[int]:
    """Return the numbers of the trusted users. Raises OptionError for a user who does not exist."""
    named = (one.strip() for one in os.environ.get(VARIABLE, "").split(","))
    return frozenset({_ROOT, os.geteuid(), *(_number_of(one) for one in named if one)})


def trusts_others() -> bool:
    """Return whether users other than this one and root are trusted."""
    return bool(trusted_numbers() - {_ROOT, os.geteuid()})


def trust_users(names: Iterable[str]) -> None:
    """Trust further users in this process and those that it starts. Raises OptionError for an unknown user."""
    numbers = trusted_numbers().union(map(_number_of, names)) - {_ROOT, os.geteuid()}
    if numbers:
        os.environ[VARIABLE] = _listed(numbers)


def numbers_to_trust(names: Iterable[str]) -> str:
    """Return the value of the variable for processes of other users who are to trust the same users as this one, and
    further ones. Raises OptionError for an unknown user.
    """
    return _listed(trusted_numbers().union(map(_number_of, names)))


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


def user_text(number: int) -> str:
    """Return the name and the number of a user, for messages."""
    name = _name_of(number)
    return f"user {number}" if name == str(number) else f"{name} (user {number})"


def _name_of(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _number_of(name: str) -> int:
    if name.isascii() and name.isdigit():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        hint = f"name users of this machine, or their numbers, in --trust-user and {VARIABLE}"
        raise OptionError(f"unknown user {name!r}", hint=hint) from None


def _is_private_group(status: os.stat_result) -> bool:
    """Whether the group of a file is the one that many systems make for each user, with no other member."""
    try:
        group, owner = grp.getgrgid(status.st_gid), pwd.getpwuid(status.st_uid)
    except KeyError:
        return False
    return group.gr_name == owner.pw_name and owner.pw_gid == group.gr_gid and set(group.gr_mem) <= {owner.pw_name}
