"""The only module that unpickles. Unpickling runs code, so the owner and the permissions of a file are checked first.

A file is trusted if it belongs to this user, to root or to a user in ``BRANCHLINE_TRUSTED_USERS``, and no other user
can write to it. The check uses the open file after following symbolic links, not its name, so that the file cannot be
replaced between the check and the read.
"""

from __future__ import annotations

import grp
import os
import pickle
import pwd
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import NewType, TypeVar

from branchline.base.checks import instance_of
from branchline.base.environment import TRUSTED_USERS
from branchline.errors import OptionError, UntrustedFileError

#: The environment variable that lists additional trusted users: names or user IDs, separated by commas.
VARIABLE = TRUSTED_USERS
_ROOT = 0

Value = TypeVar("Value")

#: Bytes written by this user or by a user who is trusted to run code as this user.
TrustedBytes = NewType("TrustedBytes", bytes)


def unpickle(content: TrustedBytes, kind: type[Value]) -> Value:
    """Unpickle a value. Raises TypeError if it has another type; its classes may raise any exception."""
    # The type TrustedBytes guarantees that the origin of the content was checked.
    return instance_of(pickle.loads(content), kind)  # noqa: S301


def from_own_process(content: bytes) -> TrustedBytes:
    """Mark bytes as trusted that this process created or received from its parent process or a child process."""
    return TrustedBytes(content)


def read_trusted(path: Path) -> TrustedBytes:
    """Return the content of a trusted file. Raises UntrustedFileError and OSError."""
    # Without O_NONBLOCK, opening a pipe would block until another process writes to it.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        check_trusted(os.fstat(file.fileno()), path)
        return TrustedBytes(file.read())


def check_trusted(status: os.stat_result, path: Path) -> None:
    """Raise UntrustedFileError, which states the owner and mode, unless a file or directory is trusted."""
    mode = stat.S_IMODE(status.st_mode)
    has_content = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    is_owner_trusted = status.st_uid in trusted_numbers()
    others_write = mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _is_private_group(status))
    if has_content and is_owner_trusted and not others_write:
        return
    what = f"{path} belongs to {user_text(status.st_uid)} and has mode {mode:04o}"
    if not has_content:
        raise UntrustedFileError(f"{what}; it is neither a file nor a directory", path=str(path))
    if not is_owner_trusted:
        raise UntrustedFileError(
            f"{what}; it is not loaded, since its content would run as code with your permissions",
            path=str(path),
            hint=f"if you trust this user: --trust-user {_name_of(status.st_uid)}, or {VARIABLE}",
        )
    raise UntrustedFileError(
        f"{what}, so other users can write to it; it is not loaded, since its content would run as code with your "
        "permissions",
        path=str(path),
        hint=f"check what is in it, then: chmod go-w {path}",
    )


def trusted_numbers() -> frozenset[int]:
    """Return the user IDs of the trusted users. Raises OptionError for an unknown user."""
    named = (one.strip() for one in os.environ.get(VARIABLE, "").split(","))
    return frozenset({_ROOT, os.geteuid(), *(_number_of(one) for one in named if one)})


def trusts_others() -> bool:
    """Return whether users other than this user and root are trusted."""
    return bool(trusted_numbers() - {_ROOT, os.geteuid()})


def trust_users(names: Iterable[str]) -> None:
    """Trust additional users in this process and its child processes. Raises OptionError for an unknown user."""
    numbers = trusted_numbers().union(map(_number_of, names)) - {_ROOT, os.geteuid()}
    if numbers:
        os.environ[VARIABLE] = _listed(numbers)


def numbers_to_trust(names: Iterable[str]) -> str:
    """Return the value of ``VARIABLE`` for processes of other users: these processes will trust this user, the users
    that this user trusts, and ``names``. Raises OptionError for an unknown user.
    """
    return _listed(trusted_numbers().union(map(_number_of, names)))


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


def user_text(number: int) -> str:
    """Return a user's name and ID, for messages."""
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
        hint = f"give names or IDs of users of this machine in --trust-user and {VARIABLE}"
        raise OptionError(f"unknown user {name!r}", hint=hint) from None


def _is_private_group(status: os.stat_result) -> bool:
    """Return whether the group of a file is the owner's private group: many systems create one per user, without other
    members.
    """
    try:
        group, owner = grp.getgrgid(status.st_gid), pwd.getpwuid(status.st_uid)
    except KeyError:
        return False
    return group.gr_name == owner.pw_name and owner.pw_gid == group.gr_gid and set(group.gr_mem) <= {owner.pw_name}
