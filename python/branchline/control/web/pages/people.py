"""Who one is, and who else may use the control room."""

from __future__ import annotations

from dataclasses import dataclass, field

from branchline.control.accounts import REPORT, SCOPES, Account, Token
from branchline.control.people import ADMINISTRATOR, ROLES, Person
from branchline.control.room_errors import RefusedError
from branchline.control.web.pages.page import Ask, Page


@dataclass(frozen=True)
class MeShown:
    """Somebody, and their tokens. ``is_shared`` says whether there are accounts, and ``account`` is theirs."""

    person: Person
    is_shared: bool = False
    account: Account | None = None
    tokens: list[Token] = field(default_factory=list)


@dataclass(frozen=True)
class PeopleShown:
    """All accounts."""

    accounts: list[Account] = field(default_factory=list)


def me(ask: Ask) -> Page:
    """Oneself."""
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
    """Raises RefusedError for anybody else."""
    if person.role != ADMINISTRATOR:
        raise RefusedError(f"{person.name} may not manage people", hint="ask an administrator")
