"""`branchline people`: manage the accounts of a shared control room, even while the control room is running."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import print_out
from branchline.errors import OptionError

if TYPE_CHECKING:
    from branchline.control.accounts import Accounts

Folder = Annotated[Path, Argument(metavar="DIR", help="Directory of the control room.")]
Name = Annotated[str, Argument(metavar="NAME", help="Login name of the person.")]
Role = Annotated[str, Option("--role", metavar="ROLE", help="physicist, operator or administrator.")]
Groups = Annotated[list[str], Option("--group", metavar="GROUP", help="Group of the person; may be repeated.")]
UnixUser = Annotated[
    str | None,
    Option("--unix-user", metavar="USER", help="User of this machine who runs the person's batch jobs; '' for none."),
]
Stdin = Annotated[bool, Option("--password-stdin", help="Read the password from standard input instead of a terminal.")]


def add(
    name: Name,
    folder: Folder = Path("control-room"),
    role: Role = "physicist",
    group: Groups = [],  # noqa: B006 - never changed
    unix_user: UnixUser = None,
    password_stdin: Stdin = False,
) -> None:
    """Add an account to a shared control room; prompts for its password.

    Examples:
        Add the first administrator, who can add others:
            branchline people add ada control-room --role administrator

    """
    from branchline.control.accounts import Account

    with _accounts(folder) as accounts:
        account = Account(name, role, tuple(group), unix_user=unix_user or "")
        accounts.add(account, _password(is_stdin=password_stdin), _who())
    print_out(f"{name} can log in")


def change(
    name: Name,
    folder: Folder = Path("control-room"),
    role: Annotated[str, Option("--role", metavar="ROLE", help="New role.")] = "",
    group: Annotated[list[str], Option("--group", metavar="GROUP", help="New groups; may be repeated.")] = [],  # noqa: B006
    no_groups: Annotated[bool, Option("--no-groups", help="Remove the person from all groups.")] = False,
    unix_user: UnixUser = None,
    password: Annotated[bool, Option("--password", help="Prompt for a new password.")] = False,
    password_stdin: Stdin = False,
    disable: Annotated[bool, Option("--disable", help="Disable the account and end its sessions.")] = False,
    enable: Annotated[bool, Option("--enable", help="Enable the account again.")] = False,
) -> None:
    """Change the role, groups, Unix user or password of an account, or disable it.

    Examples:
        Make a person an operator:
            branchline people change emmy control-room --role operator
        Run a person's trains on batch systems as a user of this machine:
            branchline people change ada control-room --unix-user ada

    """
    if disable and enable:
        raise OptionError("--enable and --disable exclude each other")
    if group and no_groups:
        raise OptionError("--no-groups and --group exclude each other")
    with _accounts(folder) as accounts:
        found = accounts.account(name)
        groups = () if no_groups else tuple(group) or found.groups
        is_disabled = (found.is_disabled or disable) and not enable
        changed = replace(found, role=role or found.role, groups=groups, is_disabled=is_disabled)
        accounts.change(changed if unix_user is None else replace(changed, unix_user=unix_user), _who())
        if password or password_stdin:
            accounts.set_password(name, _password(is_stdin=password_stdin), _who())
    print_out(f"{name} was changed")


def list_all(folder: Folder = Path("control-room")) -> None:
    """List the accounts of a control room.

    Examples:
        List who can log in:
            branchline people list control-room

    """
    with _accounts(folder) as accounts:
        for one in accounts.accounts():
            groups = f", in {', '.join(one.groups)}" if one.groups else ""
            known = f", by {one.issuer}" if one.issuer else ""
            user = f", as Unix user {one.unix_user}" if one.unix_user else ""
            print_out(f"{one.name}: {one.role}{groups}{known}{user}{', disabled' if one.is_disabled else ''}")


@contextmanager
def _accounts(folder: Path) -> Iterator[Accounts]:
    # Imported here since few commands need SQLite.
    from branchline.control.accounts import Accounts
    from branchline.control.database import Database

    with closing(Database(folder, is_beside=True)) as database:
        yield Accounts(database)


def _password(*, is_stdin: bool) -> str:
    """Read a password from the terminal or standard input.

    A password is never a command-line argument, because other users of the machine can see the arguments.
    """
    if is_stdin:
        return sys.stdin.readline().rstrip("\n")
    first = getpass.getpass("Password: ")
    if getpass.getpass("Repeat password: ") != first:
        raise OptionError("the passwords do not match")
    return first


def _who() -> str:
    return f"{getpass.getuser()} on this machine"
