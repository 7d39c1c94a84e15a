"""What people do with accounts and tokens, by forms."""

from __future__ import annotations

from dataclasses import replace

from branchline.control.accounts.accounts import Account
from branchline.control.people import Person
from branchline.control.room import ControlRoom
from branchline.control.web.actions.actions import Form
from branchline.control.web.pages.people import check_administrator


def add_person(room: ControlRoom, person: Person, form: Form) -> str:
    """Makes an account."""
    check_administrator(person)
    room.accounts.add(_account(form), form.whole("password"), person.name)
    return "/people"


def change_person(room: ControlRoom, person: Person, form: Form) -> str:
    """Gives somebody another role or other groups, or disables them; a password, if one is given, is theirs then."""
    check_administrator(person)
    account = _account(form)
    if "unix_user" not in form.names():
        account = replace(account, unix_user=room.accounts.account(account.name).unix_user)
    room.accounts.change(account, person.name)
    if form.whole("password"):
        room.accounts.set_password(account.name, form.whole("password"), person.name)
    return "/people"


def _account(form: Form) -> Account:
    groups = tuple(form.text("groups").replace(",", " ").split())
    return Account(
        form.text("name"), form.text("role"), groups, form.text("disabled") == "yes", unix_user=form.text("unix_user")
    )


def revoke_token(room: ControlRoom, person: Person, form: Form) -> str:
    """Ends one of one's own tokens."""
    room.accounts.revoke_token(person, form.number("number"))
    return "/me"
