"""`branchline people`: the accounts of a shared control room, also while it serves."""

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
Name = Annotated[str, Argument(metavar="NAME", help="Name that the person logs in with.")]
Role = Annotated[str, Option("--role", metavar="ROLE", help="physicist, operator or administrator.")]
Groups = Annotated[list[str], Option("--group", metavar="GROUP", help="Group of the person; may be repeated.")]
UnixUser = Annotated[
    str | None,
    Option("--unix-user", metavar="USER", help="User of this machine as whom their batch jobs run; '' for none."),
]
Stdin = Annotated[
    bool, Option("--password-stdin", help="Read the password from the standard input, and not from a terminal.")
]


def add(
    name: Name,
    folder: Folder = Path("control-room"),
    role: Role = "physicist",
    group: Groups = [],  # noqa: B006 - never changed
    unix_user: UnixUser = None,
    password_stdin: Stdin = False,
) -> None:
    """Makes an account for a shared control room, and asks for its password.

    Examples:
        Make the first administrator, who can let others in:
            branchline people add ada control-room --role administrator

    """
    from branchline.control.accounts import Account

    with _accounts(folder) as accounts:
        account = Account(name, role, tuple(group), unix_user=unix_user or "")
        accounts.add(account, _password(is_stdin=password_stdin), _who())
    print_out(f"{name} may log in")


def change(
    name: Name,
    folder: Folder = Path("control-room"),
    role: Annotated[str, Option("--role", metavar="ROLE", help="Another role.")] = "",
    group: Annotated[list[str], Option("--group", metavar="GROUP", help="Other groups; may be repeated.")] = [],  # noqa: B006
    unix_user: UnixUser = None,
    password: Annotated[bool, Option("--password", help="Ask for another password.")] = False,
    password_stdin: Stdin = False,
    disable: Annotated[bool, Option("--disable", help="Let them in no more, and end their sessions.")] = False,
    enable: Annotated[bool, Option("--enable", help="Let them in again.")] = False,
) -> None:
    """Changes the role, the groups, the Unix user or the password of somebody, or disables them.

    Examples:
        Make somebody an operator:
            branchline people change emmy control-room --role operator
        Have somebody's trains on batch systems run as a user of this machine:
            branchline people change ada control-room --unix-user ada

    """
    if disable and enable:
        raise OptionError("somebody is either enabled or disabled")
    with _accounts(folder) as accounts:
        found = accounts.account(name)
        groups = tuple(group) or found.groups
        is_disabled = (found.is_disabled or disable) and not enable
        changed = replace(found, role=role or found.role, groups=groups, is_disabled=is_disabled)
        accounts.change(changed if unix_user is None else replace(changed, unix_user=unix_user), _who())
        if password or password_stdin:
            accounts.set_password(name, _password(is_stdin=password_stdin), _who())
    print_out(f"{name} was changed")


def list_all(folder: Folder = Path("control-room")) -> None:
    """Lists the accounts of a control room.

    Examples:
        Who may log in:
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
    from branchline.control.accounts import TABLES, Accounts
    from branchline.control.database import Database
    from branchline.control.registry.registry import TABLES as REGISTRY_TABLES

    with closing(Database(folder, (REGISTRY_TABLES, TABLES), is_beside=True)) as database:
        yield Accounts(database)


def _password(*, is_stdin: bool) -> str:
    """Never a part of a command: others on the machine see these."""
    if is_stdin:
        return sys.stdin.readline().rstrip("\n")
    first = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != first:
        raise OptionError("the two passwords differ")
    return first


def _who() -> str:
    return f"{getpass.getuser()} on this machine"
