"""Accounts, sessions and tokens in a control room's database. Secrets are stored as hashes.

A user of an OpenID Connect provider gets an account at the first login. Trains that an account submits to a batch
system run as the account's Unix user.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from branchline.base.limits import (
    GROUPS_OF_PERSON_MAX,
    OUTSIDER_SESSION_HOURS,
    SESSION_DAYS,
    SESSIONS_OF_PERSON_MAX,
    TOKEN_DAYS_MAX,
    TOKENS_OF_PERSON_MAX,
    USED_NOTED_S,
)
from branchline.control.database import Database
from branchline.control.passwords import check_password, hashed, is_password
from branchline.control.people import ADMINISTRATOR, PHYSICIST, ROLES, Person
from branchline.control.registry.entries import checked_name
from branchline.control.registry.revisions import CHANGED, CREATED
from branchline.control.room_errors import ConflictError, DatabaseError, NoSuchEntryError, RefusedError
from branchline.control.unix_users import unix_user
from branchline.errors import OptionError

#: Kind of entry under which the change log lists changes of accounts.
PERSON = "person"
# Scopes of tokens: send job reports, read everything, or act as the person.
REPORT, READ, ALL = "report", "read", "all"
SCOPES = (REPORT, READ, ALL)
# _PERSON: the columns of a person. _ACCOUNTS: the query for all accounts with their providers and Unix users.
_PERSON = "people.name, people.role, people.groups, people.is_disabled, people.made"
_ACCOUNTS = (
    f"SELECT {_PERSON}, coalesce(issuer, ''), coalesce(unix_user, '') FROM people"  # noqa: S608 - constant
    " LEFT JOIN outsiders ON outsiders.person = people.name LEFT JOIN unix_users ON unix_users.person = people.name"
)


@dataclass(frozen=True)
class Account:
    """A person's account. ``made`` is the creation time (ISO 8601, UTC).

    ``issuer`` is the OpenID Connect provider that sets the role and groups; it is empty for an account with a password.
    ``unix_user`` is the local user under which the person's trains are submitted to batch systems; it is empty if the
    person may not submit trains to batch systems.
    """

    name: str
    role: str = PHYSICIST
    groups: tuple[str, ...] = ()
    is_disabled: bool = False
    made: str = ""
    issuer: str = ""
    unix_user: str = ""

    @property
    def person(self) -> Person:
        """The name, role and groups of this account, for permission checks."""
        return Person(self.name, self.role, self.groups)


@dataclass(frozen=True)
class Token:
    """A person's API token, without the secret."""

    number: int
    name: str
    scope: str
    made: str
    ends: str
    used: str = ""


@dataclass(frozen=True)
class Login:
    """An authenticated person, and the scope of the person's session or token (one of SCOPES)."""

    person: Person
    scope: str = ALL


@dataclass(frozen=True)
class Outsider:
    """A user of an OpenID Connect provider. ``issuer`` and ``subject`` identify the user permanently.

    ``name`` is the account name that the user prefers. ``role`` and ``groups`` are the values at the current login.
    """

    issuer: str
    subject: str
    name: str
    role: str
    groups: tuple[str, ...] = ()


class Accounts:
    """The accounts of a control room. Thread-safe. All methods may raise DatabaseError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, account: Account, password: str, who: str) -> None:
        """Create an account. Raises OptionError, and ConflictError if the name is taken."""
        self._check(account)
        check_password(password)
        kept = hashed(password)
        with self._database.writing() as connection:
            values = (account.name, account.role, json.dumps(account.groups), kept, _now())
            try:
                connection.execute(
                    "INSERT INTO people (name, role, groups, password, made) VALUES (?, ?, ?, ?, ?)", values
                )
            except sqlite3.IntegrityError:
                raise ConflictError(f"account {account.name} already exists") from None
            _keep_unix_user(connection, account)
            _note(connection, who, None, account)

    def change(self, account: Account, who: str) -> None:
        """Change an account's role, groups or Unix user, or disable the account, which ends its sessions.

        Raises OptionError for invalid values, NoSuchEntryError for an unknown account, ConflictError if no
        administrator would remain, and RefusedError if an OpenID Connect provider sets the role and groups.
        """
        self._check(account)
        with self._database.writing() as connection:
            before = _found(connection, account.name)
            if before.issuer and (before.role, before.groups) != (account.role, account.groups):
                what = f"{before.issuer} sets the role and the groups of {account.name}"
                raise RefusedError(what, hint="change them there; the change takes effect at the next login")
            values = (account.role, json.dumps(account.groups), account.is_disabled, account.name)
            connection.execute("UPDATE people SET role = ?, groups = ?, is_disabled = ? WHERE name = ?", values)
            query = "SELECT count(*) FROM people WHERE role = 'administrator' AND NOT is_disabled"
            was_administrator = before.role == ADMINISTRATOR and not before.is_disabled
            if was_administrator and connection.execute(query).fetchone() == (0,):
                hint = "make another account an administrator first"
                raise ConflictError(f"{account.name} is the last administrator", hint=hint)
            _keep_unix_user(connection, account)
            if account.is_disabled:
                connection.execute("DELETE FROM sessions WHERE person = ?", (account.name,))
            _note(connection, who, before, account)

    def set_password(self, name: str, password: str, who: str) -> None:
        """Change a person's password, which ends all sessions of the person.

        Raises OptionError for an invalid password, NoSuchEntryError for an unknown account, and RefusedError for an
        account that logs in through an OpenID Connect provider.
        """
        check_password(password)
        kept = hashed(password)
        with self._database.writing() as connection:
            account = _found(connection, name)
            if account.issuer:
                raise RefusedError(f"{name} logs in through {account.issuer} and has no password here")
            connection.execute("UPDATE people SET password = ? WHERE name = ?", (kept, name))
            connection.execute("DELETE FROM sessions WHERE person = ?", (name,))
            _note(connection, who, account, account)

    def accounts(self) -> list[Account]:
        """Return all accounts, sorted by name."""
        with self._database.reading() as connection:
            return [_account(row) for row in connection.execute(f"{_ACCOUNTS} ORDER BY name")]

    def account(self, name: str) -> Account:
        """Return a person's account. Raises NoSuchEntryError for an unknown name."""
        with self._database.reading() as connection:
            return _found(connection, name)

    def unix_user_of(self, name: str) -> str:
        """Return the local user under which a person's trains are submitted to batch systems.

        Returns an empty string if the account has no such user or is disabled.
        """
        with self._database.reading() as connection:
            found = _find(connection, name)
        return "" if found is None or found.is_disabled else found.unix_user

    def has_password(self, name: str, password: str) -> bool:
        """Whether the password is correct and the account is enabled. Takes equally long for unknown names."""
        kept, is_disabled = self._password(name)
        return is_password(password, kept) and not is_disabled

    def log_in(self, name: str, password: str) -> str | None:
        """Start a session and return its secret. Returns None for a wrong name or password, or a disabled account.

        Success and failure take equally long.
        """
        kept, is_disabled = self._password(name)
        if not is_password(password, kept) or is_disabled:
            return None
        with self._database.writing() as connection:
            # The password may have changed while the slow check ran.
            query = "SELECT 1 FROM people WHERE name = ? AND password = ? AND NOT is_disabled"
            if connection.execute(query, (name, kept)).fetchone() is None:
                return None
            return _new_session(connection, name, timedelta(days=SESSION_DAYS))

    def log_in_outsider(self, outsider: Outsider) -> str:
        """Start a session for a user whom an OpenID Connect provider has authenticated. Return the session's secret.

        The first login creates the account; each login updates the account's role and groups. Raises OptionError for an
        invalid account, and RefusedError for a disabled account.
        """
        with self._database.writing() as connection:
            name = account_name(connection, outsider)
            account = Account(name, outsider.role, outsider.groups, issuer=outsider.issuer)
            _check_account(account)
            before = _find(connection, name)
            if before is not None:
                # Keep the Unix user: the OpenID Connect provider does not know the users of this machine.
                account = replace(account, unix_user=before.unix_user)
            if before is None:
                query = "INSERT INTO people (name, role, groups, password, made) VALUES (?, ?, ?, '', ?)"
                connection.execute(query, (name, account.role, json.dumps(account.groups), _now()))
            elif before.is_disabled:
                raise RefusedError(f"the account {name} is disabled", hint="ask an administrator")
            elif (before.role, before.groups) != (account.role, account.groups):
                query = "UPDATE people SET role = ?, groups = ? WHERE name = ?"
                connection.execute(query, (account.role, json.dumps(account.groups), name))
            if before is None or _plain(before) != _plain(account):
                _note(connection, outsider.issuer, before, account)
            return _new_session(connection, name, timedelta(hours=OUTSIDER_SESSION_HOURS))

    def log_out(self, secret: str) -> None:
        """End a session."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM sessions WHERE secret = ?", (_hash(secret),))

    def of_session(self, secret: str) -> Login | None:
        """Return a session's login; None if the session is unknown or expired, or the account is disabled."""
        query = f"SELECT {_PERSON} FROM sessions JOIN people ON name = person WHERE secret = ? AND ends > ?"  # noqa: S608
        with self._database.reading() as connection:
            row = connection.execute(query, (_hash(secret), _now())).fetchone()
        return None if row is None or row[3] else Login(_account(row).person)

    def make_token(self, person: Person, name: str, scope: str, days: int) -> str:
        """Create a token and return its secret, which cannot be retrieved later.

        Raises OptionError for invalid values.
        """
        if scope not in SCOPES:
            raise OptionError(f"unknown token scope {scope!r:.40}", hint=f"choose one of {', '.join(SCOPES)}")
        if not 1 <= days <= TOKEN_DAYS_MAX:
            raise OptionError(f"a token must be valid for 1 to {TOKEN_DAYS_MAX} days, got {days}")
        checked_name("the name of a token", name)
        secret = f"bl_{secrets.token_urlsafe(32)}"
        now = datetime.now(UTC)
        with self._database.writing() as connection:
            connection.execute("DELETE FROM tokens WHERE ends < ?", (_text(now),))
            [count] = connection.execute("SELECT count(*) FROM tokens WHERE person = ?", (person.name,)).fetchone()
            if count >= TOKENS_OF_PERSON_MAX:
                raise OptionError(f"{person.name} already has {count} tokens, the maximum", hint="revoke some")
            ends = _text(now + timedelta(days=days))
            connection.execute(
                "INSERT INTO tokens (secret, person, name, scope, made, ends) VALUES (?, ?, ?, ?, ?, ?)",
                (_hash(secret), person.name, name, scope, _text(now), ends),
            )
        return secret

    def revoke_token(self, person: Person, number: int) -> None:
        """Revoke a person's token. Raises NoSuchEntryError if the person has no token ``number``."""
        with self._database.writing() as connection:
            done = connection.execute("DELETE FROM tokens WHERE number = ? AND person = ?", (number, person.name))
            if not done.rowcount:
                raise NoSuchEntryError(f"{person.name} has no token {number}")

    def tokens(self, person: Person) -> list[Token]:
        """Return a person's valid tokens, newest first."""
        query = "SELECT number, name, scope, made, ends, used FROM tokens WHERE person = ? AND ends > ? ORDER BY 1 DESC"
        with self._database.reading() as connection:
            return [Token(*row) for row in connection.execute(query, (person.name, _now()))]

    def of_token(self, secret: str) -> Login | None:
        """Return a token's login; None if the token is unknown or expired, or the account is disabled."""
        now = datetime.now(UTC)
        query = (
            f"SELECT {_PERSON}, scope, used FROM tokens JOIN people ON people.name = person"  # noqa: S608 - constant
            " WHERE secret = ? AND ends > ?"
        )
        with self._database.reading() as connection:
            row = connection.execute(query, (_hash(secret), _text(now))).fetchone()
        if row is None or row[3]:
            return None
        *account, scope, used = row
        # Update the time of last use rarely, since otherwise each report would cause a write.
        if not used or (now - datetime.fromisoformat(used)).total_seconds() > USED_NOTED_S:
            # A full disk must not lock out the people who investigate the full disk.
            with suppress(DatabaseError), self._database.writing() as connection:
                connection.execute("UPDATE tokens SET used = ? WHERE secret = ?", (_text(now), _hash(secret)))
        return Login(_account(account).person, scope)

    def _check(self, account: Account) -> None:
        _check_account(account)
        if account.unix_user:
            unix_user(account.unix_user, self._database.path.stat().st_uid)

    def _password(self, name: str) -> tuple[str, bool]:
        with self._database.reading() as connection:
            row = connection.execute("SELECT password, is_disabled FROM people WHERE name = ?", (name,)).fetchone()
        return ("", False) if row is None else (row[0], bool(row[1]))


def _check_account(account: Account) -> None:
    checked_name("the name of an account", account.name)
    if account.role not in ROLES:
        raise OptionError(f"unknown role {account.role!r:.40}", hint=f"choose one of {', '.join(ROLES)}")
    if len(account.groups) > GROUPS_OF_PERSON_MAX:
        raise OptionError(f"a person can be in at most {GROUPS_OF_PERSON_MAX} groups, got {len(account.groups)}")
    for one in account.groups:
        checked_name("the name of a group", one)


def account_name(connection: sqlite3.Connection, one: Outsider) -> str:
    """Return the permanent account name of an OpenID Connect user. The first login chooses and stores a free name.

    A name is taken if an account has the name, or if any entry was ever registered under the name. Many providers let
    users choose their names, and a chosen name must not give access to another person's entries.
    """
    query = "SELECT person FROM outsiders WHERE issuer = ? AND subject = ?"
    row = connection.execute(query, (one.issuer, one.subject)).fetchone()
    if row is not None:
        return str(row[0])
    name, number = one.name, 2
    while _is_taken(connection, name):
        name, number = f"{one.name}-{number}", number + 1
    connection.execute("INSERT INTO outsiders VALUES (?, ?, ?)", (one.issuer, one.subject, name))
    return name


def _is_taken(connection: sqlite3.Connection, name: str) -> bool:
    """Whether an account name is taken. Ignores case, since names that differ only by case look alike."""
    has_account = connection.execute("SELECT 1 FROM people WHERE lower(name) = lower(?)", (name,)).fetchone()
    if has_account is not None:
        return True
    # Entry names begin with the owner and "/"; "0" follows "/" in ASCII. The change log also lists removed entries.
    begin, end = f"{name}/", f"{name}0"
    query = "SELECT 1 FROM changes WHERE (address >= ? AND address < ?) OR who = ? LIMIT 1"
    return connection.execute(query, (begin, end, name)).fetchone() is not None


def _new_session(connection: sqlite3.Connection, name: str, span: timedelta) -> str:
    """Start a session and return its secret. Ends the person's oldest sessions above SESSIONS_OF_PERSON_MAX."""
    secret = secrets.token_urlsafe(32)
    now = datetime.now(UTC)
    connection.execute("DELETE FROM sessions WHERE ends < ?", (_text(now),))
    values = (_hash(secret), name, _text(now), _text(now + span))
    connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?)", values)
    connection.execute(
        "DELETE FROM sessions WHERE person = ? AND secret NOT IN"
        " (SELECT secret FROM sessions WHERE person = ? ORDER BY began DESC LIMIT ?)",
        (name, name, SESSIONS_OF_PERSON_MAX),
    )
    return secret


def _find(connection: sqlite3.Connection, name: str) -> Account | None:
    row = connection.execute(f"{_ACCOUNTS} WHERE people.name = ?", (name,)).fetchone()
    return None if row is None else _account(row)


def _found(connection: sqlite3.Connection, name: str) -> Account:
    account = _find(connection, name)
    if account is None:
        raise NoSuchEntryError(f"no account {name!r:.80}")
    return account


def _account(row: Sequence[object]) -> Account:
    name, role, groups, is_disabled, made, *further = row
    groups_named = tuple(json.loads(str(groups)))
    return Account(str(name), str(role), groups_named, bool(is_disabled), str(made), *map(str, further))


def _keep_unix_user(connection: sqlite3.Connection, account: Account) -> None:
    connection.execute("DELETE FROM unix_users WHERE person = ?", (account.name,))
    if account.unix_user:
        connection.execute("INSERT INTO unix_users VALUES (?, ?)", (account.name, account.unix_user))


def _note(connection: sqlite3.Connection, who: str, before: Account | None, after: Account) -> None:
    """Add an account change to the change log, without passwords and password hashes."""
    texts = [None if one is None else json.dumps(_plain(one)) for one in (before, after)]
    connection.execute(
        "INSERT INTO changes (at, who, subject, address, action, before, after) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (_now(), who, PERSON, after.name, CREATED if before is None else CHANGED, *texts),
    )


def _plain(account: Account) -> dict[str, object]:
    plain: dict[str, object] = {"role": account.role, "groups": list(account.groups)}
    plain["disabled"] = "yes" if account.is_disabled else ""
    return plain | ({"unix user": account.unix_user} if account.unix_user else {})


def _hash(secret: str) -> str:
    # A fast hash is enough, because secrets are long and random.
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def _now() -> str:
    return _text(datetime.now(UTC))


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
