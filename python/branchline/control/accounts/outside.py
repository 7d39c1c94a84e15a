"""People whom a provider of OpenID Connect knows: which account is theirs."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

TABLE = """
CREATE TABLE IF NOT EXISTS outsiders (
    issuer TEXT NOT NULL, subject TEXT NOT NULL, person TEXT NOT NULL UNIQUE,
    PRIMARY KEY (issuer, subject)) WITHOUT ROWID;
"""


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
