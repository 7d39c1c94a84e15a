"""Accounts, sessions and tokens in the database of a control room. Secrets are stored as hashes.

Passwords are hashed with scrypt (RFC 7914), whose cost in time and memory slows down guessing. A user of an OpenID
Connect provider gets an account at the first login. The Unix user of an account, as whom its trains run on batch
systems, is never root and never the user of the control room.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import pwd
import re
import secrets
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from branchline.base.limits import (
    GROUPS_OF_PERSON_MAX,
    OUTSIDER_SESSION_HOURS,
    PASSWORD_CHARACTERS_MAX,
    PASSWORD_CHARACTERS_MIN,
    SESSION_DAYS,
    SESSIONS_OF_PERSON_MAX,
    TOKEN_DAYS_MAX,
    TOKENS_OF_PERSON_MAX,
    USED_NOTED_S,
)
from branchline.control.database import Database
from branchline.control.people import ADMINISTRATOR, PHYSICIST, ROLES, Person
from branchline.control.registry.entries import checked_name
from branchline.control.registry.revisions import CHANGED, CREATED
from branchline.control.room_errors import ConflictError, DatabaseError, NoSuchEntryError, RefusedError
from branchline.errors import OptionError

TABLES = """
CREATE TABLE IF NOT EXISTS outsiders (
    issuer TEXT NOT NULL, subject TEXT NOT NULL, person TEXT NOT NULL UNIQUE,
    PRIMARY KEY (issuer, subject)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS unix_users (person TEXT PRIMARY KEY, unix_user TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS people (
    name TEXT PRIMARY KEY, role TEXT NOT NULL, groups TEXT NOT NULL, password TEXT NOT NULL,
    is_disabled INTEGER NOT NULL DEFAULT 0, made TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (
    secret TEXT PRIMARY KEY, person TEXT NOT NULL, began TEXT NOT NULL, ends TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sessions_of ON sessions (person);
CREATE TABLE IF NOT EXISTS tokens (
    number INTEGER PRIMARY KEY, secret TEXT NOT NULL UNIQUE, person TEXT NOT NULL, name TEXT NOT NULL,
    scope TEXT NOT NULL, made TEXT NOT NULL, ends TEXT NOT NULL, used TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS tokens_of ON tokens (person);
"""
#: The subject of changes of accounts.
PERSON = "person"
# What a token opens: reports of jobs alone, all that can be read, or all that its person may do.
REPORT, READ, ALL = "report", "read", "all"
SCOPES = (REPORT, READ, ALL)
# The columns of a person, and the query for accounts with their provider and Unix user.
_PERSON = "people.name, people.role, people.groups, people.is_disabled, people.made"
_ACCOUNTS = (
    f"SELECT {_PERSON}, coalesce(issuer, ''), coalesce(unix_user, '') FROM people"  # noqa: S608 - ours
    " LEFT JOIN outsiders ON outsiders.person = people.name LEFT JOIN unix_users ON unix_users.person = people.name"
)
_UNIX_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
# The parameters of scrypt. 2**15 blocks of 8 * 128 bytes: 32 MB and a tenth of a second for each try.
_N, _R, _P = 2**15, 8, 1
_MEMORY_BYTES = 2 * 128 * _N * _R
_SALT_BYTES = 16


@dataclass(frozen=True)
class Account:
    """A person as they are known here. Times are ISO 8601, UTC. ``issuer`` is the provider of OpenID Connect that knows
    them, and says their role and groups; empty for somebody with a password. ``unix_user`` is the user of this machine
    as whom their trains go to batch systems; empty if they go to none.
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
        """Who it is for the rest."""
        return Person(self.name, self.role, self.groups)


@dataclass(frozen=True)
class Token:
    """A token of somebody, without its secret."""

    number: int
    name: str
    scope: str
    made: str
    ends: str
    used: str = ""


@dataclass(frozen=True)
class Login:
    """Somebody who is known, and what they may do by the way in which they came: one of SCOPES."""

    person: Person
    scope: str = ALL


@dataclass(frozen=True)
class Outsider:
    """Somebody as a provider knows them: ``subject`` is theirs for ever at ``issuer``. ``name`` is the one that they
    should have here; ``role`` and ``groups`` are those of now.
    """

    issuer: str
    subject: str
    name: str
    role: str
    groups: tuple[str, ...] = ()


class Accounts:
    """The accounts of a control room; its methods may be called by several threads at once, and raise DatabaseError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, account: Account, password: str, who: str) -> None:
        """Makes an account. Raises OptionError, ConflictError if there is one with this name."""
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
                raise ConflictError(f"there is an account {account.name} already") from None
            _keep_unix_user(connection, account)
            _note(connection, who, None, account)

    def change(self, account: Account, who: str) -> None:
        """Gives somebody another role or other groups, or disables them, which ends their sessions. The last
        administrator stays one. Raises OptionError, NoSuchEntryError, ConflictError, and RefusedError for a role that a
        provider says.
        """
        self._check(account)
        with self._database.writing() as connection:
            before = _found(connection, account.name)
            if before.issuer and (before.role, before.groups) != (account.role, account.groups):
                what = f"the role and the groups of {account.name} are those that {before.issuer} says"
                raise RefusedError(what, hint="change them there; they hold from the next login on")
            values = (account.role, json.dumps(account.groups), account.is_disabled, account.name)
            connection.execute("UPDATE people SET role = ?, groups = ?, is_disabled = ? WHERE name = ?", values)
            query = "SELECT count(*) FROM people WHERE role = 'administrator' AND NOT is_disabled"
            was_administrator = before.role == ADMINISTRATOR and not before.is_disabled
            if was_administrator and connection.execute(query).fetchone() == (0,):
                raise ConflictError(f"{account.name} is the last administrator", hint="make another one first")
            _keep_unix_user(connection, account)
            if account.is_disabled:
                connection.execute("DELETE FROM sessions WHERE person = ?", (account.name,))
            _note(connection, who, before, account)

    def set_password(self, name: str, password: str, who: str) -> None:
        """Changes a password, which ends all sessions of the person. Raises OptionError, NoSuchEntryError, and
        RefusedError for somebody who logs in by a provider.
        """
        check_password(password)
        kept = hashed(password)
        with self._database.writing() as connection:
            account = _found(connection, name)
            if account.issuer:
                raise RefusedError(f"{name} has no password here, and logs in by {account.issuer}")
            connection.execute("UPDATE people SET password = ? WHERE name = ?", (kept, name))
            connection.execute("DELETE FROM sessions WHERE person = ?", (name,))
            _note(connection, who, account, account)

    def accounts(self) -> list[Account]:
        """All of them, by name."""
        with self._database.reading() as connection:
            return [_account(row) for row in connection.execute(f"{_ACCOUNTS} ORDER BY name")]

    def account(self, name: str) -> Account:
        """The one of somebody. Raises NoSuchEntryError."""
        with self._database.reading() as connection:
            return _found(connection, name)

    def unix_user_of(self, name: str) -> str:
        """The user of this machine as whom trains of somebody go to batch systems; empty without one."""
        with self._database.reading() as connection:
            found = _find(connection, name)
        return "" if found is None or found.is_disabled else found.unix_user

    def _check(self, account: Account) -> None:
        _check_account(account)
        if account.unix_user:
            unix_user(account.unix_user, self._database.path.stat().st_uid)

    def has_password(self, name: str, password: str) -> bool:
        """Whether this is the password of an account that is not disabled; takes the same time for unknown names."""
        kept, is_disabled = self._password(name)
        return is_password(password, kept) and not is_disabled

    def _password(self, name: str) -> tuple[str, bool]:
        with self._database.reading() as connection:
            row = connection.execute("SELECT password, is_disabled FROM people WHERE name = ?", (name,)).fetchone()
        return ("", False) if row is None else (row[0], bool(row[1]))

    def log_in(self, name: str, password: str) -> str | None:
        """The secret of a new session; None for a wrong name or password, or a disabled account, in the same time."""
        kept, is_disabled = self._password(name)
        if not is_password(password, kept) or is_disabled:
            return None
        with self._database.writing() as connection:
            # It takes a while to check a password, and it may have been changed since.
            query = "SELECT 1 FROM people WHERE name = ? AND password = ? AND NOT is_disabled"
            if connection.execute(query, (name, kept)).fetchone() is None:
                return None
            return _new_session(connection, name, timedelta(days=SESSION_DAYS))

    def log_in_outsider(self, outsider: Outsider) -> str:
        """The secret of a new session of somebody whom a provider has let in. Their account is made at the first time;
        role and groups are those that the provider says now. Raises OptionError, and RefusedError for somebody who is
        disabled.
        """
        with self._database.writing() as connection:
            name = account_name(connection, outsider)
            account = Account(name, outsider.role, outsider.groups, issuer=outsider.issuer)
            _check_account(account)
            before = _find(connection, name)
            if before is not None:
                # That of the machine is no business of the provider.
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
        """Ends a session."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM sessions WHERE secret = ?", (_hash(secret),))

    def of_session(self, secret: str) -> Login | None:
        """Who has a session."""
        query = f"SELECT {_PERSON} FROM sessions JOIN people ON name = person WHERE secret = ? AND ends > ?"  # noqa: S608
        with self._database.reading() as connection:
            row = connection.execute(query, (_hash(secret), _now())).fetchone()
        return None if row is None or row[3] else Login(_account(row).person)

    def make_token(self, person: Person, name: str, scope: str, days: int) -> str:
        """The secret of a new token of somebody, which is shown only now. Raises OptionError."""
        if scope not in SCOPES:
            raise OptionError(f"a token opens {', '.join(SCOPES)}, and not {scope!r:.40}")
        if not 1 <= days <= TOKEN_DAYS_MAX:
            raise OptionError(f"a token is good for 1 to {TOKEN_DAYS_MAX} days, and not {days}")
        checked_name("the name of a token", name)
        secret = f"bl_{secrets.token_urlsafe(32)}"
        now = datetime.now(UTC)
        with self._database.writing() as connection:
            connection.execute("DELETE FROM tokens WHERE ends < ?", (_text(now),))
            [count] = connection.execute("SELECT count(*) FROM tokens WHERE person = ?", (person.name,)).fetchone()
            if count >= TOKENS_OF_PERSON_MAX:
                raise OptionError(f"{person.name} has {count} tokens", hint="revoke some")
            ends = _text(now + timedelta(days=days))
            connection.execute(
                "INSERT INTO tokens (secret, person, name, scope, made, ends) VALUES (?, ?, ?, ?, ?, ?)",
                (_hash(secret), person.name, name, scope, _text(now), ends),
            )
        return secret

    def revoke_token(self, person: Person, number: int) -> None:
        """Ends a token of somebody. Raises NoSuchEntryError."""
        with self._database.writing() as connection:
            done = connection.execute("DELETE FROM tokens WHERE number = ? AND person = ?", (number, person.name))
            if not done.rowcount:
                raise NoSuchEntryError(f"{person.name} has no token {number}")

    def tokens(self, person: Person) -> list[Token]:
        """The tokens of somebody, the newest first."""
        query = "SELECT number, name, scope, made, ends, used FROM tokens WHERE person = ? AND ends > ? ORDER BY 1 DESC"
        with self._database.reading() as connection:
            return [Token(*row) for row in connection.execute(query, (person.name, _now()))]

    def of_token(self, secret: str) -> Login | None:
        """Who has a token, and what it opens."""
        now = datetime.now(UTC)
        query = (
            f"SELECT {_PERSON}, scope, used FROM tokens JOIN people ON people.name = person"  # noqa: S608 - ours
            " WHERE secret = ? AND ends > ?"
        )
        with self._database.reading() as connection:
            row = connection.execute(query, (_hash(secret), _text(now))).fetchone()
        if row is None or row[3]:
            return None
        *account, scope, used = row
        # Each report would be a write otherwise.
        if not used or (now - datetime.fromisoformat(used)).total_seconds() > USED_NOTED_S:
            # It can be noted the next time: whoever looks what is wrong with the disk is let in.
            with suppress(DatabaseError), self._database.writing() as connection:
                connection.execute("UPDATE tokens SET used = ? WHERE secret = ?", (_text(now), _hash(secret)))
        return Login(_account(account).person, scope)


def _check_account(account: Account) -> None:
    checked_name("the name of an account", account.name)
    if account.role not in ROLES:
        raise OptionError(f"there is no role {account.role!r:.40}", hint=", ".join(ROLES))
    if len(account.groups) > GROUPS_OF_PERSON_MAX:
        raise OptionError(f"a person is in up to {GROUPS_OF_PERSON_MAX} groups")
    for one in account.groups:
        checked_name("the name of a group", one)


def account_name(connection: sqlite3.Connection, one: Outsider) -> str:
    """The name of their account, which stays the same; a free one if they come for the first time.

    A name is not free if an account has it or anything that was ever registered belongs to it: at many providers
    people choose their names, and a name must not bring what was another's.
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
    """Names that differ by case alone look the same to people."""
    has_account = connection.execute("SELECT 1 FROM people WHERE lower(name) = lower(?)", (name,)).fetchone()
    if has_account is not None:
        return True
    # Addresses begin with the owner; "0" follows "/" in ASCII. Changes keep what was removed.
    begin, end = f"{name}/", f"{name}0"
    query = "SELECT 1 FROM changes WHERE (address >= ? AND address < ?) OR who = ? LIMIT 1"
    return connection.execute(query, (begin, end, name)).fetchone() is not None


def _new_session(connection: sqlite3.Connection, name: str, span: timedelta) -> str:
    """The secret of a new session; of too many the oldest end."""
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
        raise NoSuchEntryError(f"there is no account {name!r:.80}")
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
    """Keeps who changed what; the password is no part of it, only that something was changed."""
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
    # Secrets are random and long: no slow hash is needed.
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def _now() -> str:
    return _text(datetime.now(UTC))


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def unix_user(name: str, *refused: int) -> pwd.struct_passwd:
    """A user of this machine. ``refused`` are numbers of users that nobody may be, as the one that the server runs as.
    Raises OptionError.
    """
    if not _UNIX_NAME.fullmatch(name):
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


def check_password(password: str) -> None:
    """Raises OptionError for one that is too short or too long."""
    if not PASSWORD_CHARACTERS_MIN <= len(password) <= PASSWORD_CHARACTERS_MAX:
        what = f"a password has {PASSWORD_CHARACTERS_MIN} to {PASSWORD_CHARACTERS_MAX} characters"
        raise OptionError(what, hint="take a few words")


def hashed(password: str) -> str:
    """The hash of a password with all that is needed to check it: ``scrypt$n$r$p$salt$hash``."""
    salt = secrets.token_bytes(_SALT_BYTES)
    return "$".join(["scrypt", str(_N), str(_R), str(_P), _base64(salt), _base64(_scrypt(password, salt, _N, _R, _P))])


def is_password(password: str, kept: str) -> bool:
    """Whether a password is the one of a hash; it takes as long where ``kept`` is empty, as for an unknown name."""
    if len(password) > PASSWORD_CHARACTERS_MAX:
        return False
    _, n, r, p, salt, expected = (kept or _NOBODY).split("$")
    found = _scrypt(password, base64.b64decode(salt), int(n), int(r), int(p))
    return hmac.compare_digest(found, base64.b64decode(expected)) and bool(kept)


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(
        password.encode(errors="surrogatepass"), salt=salt, n=n, r=r, p=p, maxmem=_MEMORY_BYTES, dklen=32
    )


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


_NOBODY = "$".join(["scrypt", str(_N), str(_R), str(_P), _base64(bytes(_SALT_BYTES)), _base64(bytes(32))])
