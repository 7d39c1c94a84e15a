"""The database of a control room: what is not of this version is left alone, and each error says whose it is."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from branchline.control.database import DATABASE, DATABASE_VERSION, Database
from branchline.control.room import ControlRoom
from branchline.control.room_errors import DatabaseError
from branchline.errors import InternalError

TABLE = "CREATE TABLE IF NOT EXISTS sums (size TEXT NOT NULL, files INTEGER NOT NULL)"
#: Of version 1: the same table had another key.
EARLIER = "CREATE TABLE sums (hour TEXT NOT NULL, files INTEGER NOT NULL)"
#: The tables and keys of each version, as SQLite keeps them.
TABLES_SHA256 = {2: "c917f69091808a03"}


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    monkeypatch.setattr("branchline.control.database.DATABASE_WAIT_S", 0.05)
    with closing(Database(tmp_path, (TABLE,))) as found:
        yield found


def other(folder: Path, version: int, *statements: str) -> None:
    """A database as something else has made it."""
    folder.mkdir(exist_ok=True)
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        for one in (*statements, f"PRAGMA user_version = {version}"):
            connection.execute(one)


def standing(folder: Path) -> tuple[int, list[str]]:
    """Its version and its tables."""
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        [version] = connection.execute("PRAGMA user_version").fetchone()
        return version, [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master ORDER BY name")]


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (
            1,
            r"an earlier Branchline made .*version 1.*move .* away and begin a new one, or serve it with",
        ),
        (99, r"a later Branchline made .*version 99.*use that one"),
        (0, "tables that no Branchline made"),
    ],
)
def test_a_database_of_another_version_is_refused_and_left_as_it_is(tmp_path: Path, version: int, said: str) -> None:
    other(tmp_path, version, EARLIER)
    before = standing(tmp_path)
    with pytest.raises(DatabaseError, match=said) as caught:
        ControlRoom(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert standing(tmp_path) == before
    # It is let go of: whoever moves it may serve the directory.
    (tmp_path / DATABASE).unlink()
    ControlRoom(tmp_path).close()


def test_an_empty_database_becomes_one_of_this_version(tmp_path: Path) -> None:
    other(tmp_path, 0)
    ControlRoom(tmp_path).close()
    ControlRoom(tmp_path).close()
    assert standing(tmp_path)[0] == DATABASE_VERSION


def test_tables_change_with_the_version_alone(tmp_path: Path) -> None:
    """Where this fails for a table or a key that changed, raise DATABASE_VERSION: those that are there stay as they
    are. For one that is new the value here is enough.
    """
    ControlRoom(tmp_path).close()
    _, tables = standing(tmp_path)
    text = "\n".join(" ".join(one.split()) for one in tables if one and "sqlite_sequence" not in one)
    assert {DATABASE_VERSION: hashlib.sha256(text.encode()).hexdigest()[:16]} == TABLES_SHA256


@pytest.mark.parametrize("statement", ["SELECT nothing FROM sums", "SELECT files FROM nowhere", "SELEC 1"])
def test_a_statement_that_we_wrote_wrongly_is_a_fault_of_ours(database: Database, statement: str) -> None:
    with pytest.raises(InternalError, match="fault of Branchline") as caught, database.reading() as connection:
        connection.execute(statement)
    assert "disk" not in str(caught.value)
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM sums").fetchone() == (0,)


def test_a_database_that_another_process_holds_may_be_tried_again(database: Database) -> None:
    with closing(sqlite3.connect(database.path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseError, match="another process holds it") as caught, database.writing():
            pass
        assert caught.value.retry
        holder.execute("ROLLBACK")
    with database.writing() as connection:
        connection.execute("INSERT INTO sums VALUES ('hour', 1)")


def test_a_damaged_database_is_to_be_brought_back(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"no database at all" * 1000)
    with pytest.raises(DatabaseError, match="bring it back from a copy") as caught:
        Database(tmp_path, (TABLE,))
    assert not caught.value.retry


def test_errors_of_the_block_itself_stay_as_they_are(database: Database) -> None:
    with pytest.raises(sqlite3.IntegrityError), database.writing() as connection:
        connection.execute("INSERT INTO sums VALUES (NULL, 1)")
