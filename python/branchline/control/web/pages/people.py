"""Pages for the user's own account and for all accounts."""

from __future__ import annotations

from dataclasses import dataclass, field

from branchline.control.accounts import REPORT, SCOPES, Account, Token
from branchline.control.people import ADMINISTRATOR, ROLES, Person
from branchline.control.room_errors import RefusedError
from branchline.control.web.pages.page import Ask, Page


@dataclass(frozen=True)
class MeShown:
    """The user, with account and tokens if the control room is shared (``is_shared``)."""

    person: Person
    is_shared: bool = False
    account: Account | None = None
    tokens: list[Token] = field(default_factory=list)


@dataclass(frozen=True)
class PeopleShown:
    """All accounts."""

    accounts: list[Account] = field(default_factory=list)


def me(ask: Ask) -> Page:
    """The user's own account and tokens."""
    is_shared: bool = ask.request.app.state.is_shared
    accounts = ask.room.accounts
    shown = MeShown(ask.person)
    if is_shared:
        shown = MeShown(ask.person, is_shared, accounts.account(ask.person.name), accounts.tokens(ask.person))
    return Page("me.html", ask.person.name, shown, {"scopes": SCOPES, "usual": REPORT})


def people(ask: Ask) -> Page:
    """All accounts, for administrators."""
    check_administrator(ask.person)
    return Page("people.html", "People", PeopleShown(ask.room.accounts.accounts()), {"roles": ROLES})


def check_administrator(person: Person) -> None:
    """Raise RefusedError if the person is not an administrator."""
    if person.role != ADMINISTRATOR:
        raise RefusedError(f"{person.name} may not manage people", hint="ask an administrator")
