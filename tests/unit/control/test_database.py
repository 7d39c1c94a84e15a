"""The database of a control room: what is not of this version is left alone, and each error says whose it is."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from branchline.control.database import APPLICATION_ID, DATABASE, Database, all_migrations
from branchline.control.room import ControlRoom
from branchline.control.room_errors import DatabaseError
from branchline.errors import InternalError

TABLE = "CREATE TABLE sums (size TEXT NOT NULL, files INTEGER NOT NULL);"
#: What another program made.
EARLIER = "CREATE TABLE sums (hour TEXT NOT NULL, files INTEGER NOT NULL)"
#: Sums of `migrations/0001.sql` and so on.
MIGRATIONS_SHA256 = ["2093afb27007fdba", "78c3ae3a9a5c13d2"]
#: Databases of each version as SQL, with a person, a job and its reads.
VERSIONS = Path(__file__).parent / "database_versions"


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
    ("version", "application", "said"),
    [
        (99, APPLICATION_ID, r"has schema version 99, but this Branchline knows only \d+ .*use a newer Branchline"),
        (1, 0, "no released Branchline created the tables"),
        (0, 0, "no released Branchline created the tables"),
        (1, 7, "no released Branchline created the tables"),
    ],
)
def test_a_database_of_a_later_version_or_of_others_is_refused_and_left_as_it_is(
    tmp_path: Path, version: int, application: int, said: str
) -> None:
    other(tmp_path, version, EARLIER, f"PRAGMA application_id = {application}")
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
    assert standing(tmp_path)[0] == len(all_migrations())


def test_migrations_are_final() -> None:
    """A migration that was released is never edited: databases have its tables. Add the sum of a new one here."""
    assert [hashlib.sha256(one.encode()).hexdigest()[:16] for one in all_migrations()] == MIGRATIONS_SHA256


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS_SHA256) + 1))
def test_a_database_of_each_version_is_brought_to_this_one_with_its_rows(tmp_path: Path, version: int) -> None:
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        connection.executescript((VERSIONS / f"{version:04}.sql").read_text())
    room = ControlRoom(tmp_path)
    try:
        [person] = room.accounts.accounts()
        assert (person.name, person.role, person.groups) == ("lise", "operator", ("alice",))
        assert room.accounts.has_password("lise", "correct horse battery")
        with room.reading() as connection:
            jobs = connection.execute("SELECT job, name, status, has_ended, events FROM jobs").fetchall()
            cells = connection.execute("SELECT site, element, files, bytes_read FROM cells").fetchall()
        assert jobs == [("5f0a1b2c3d4e5f60718293a4b5c6d7e8", "muons", "finished", 1, 400)]
        assert cells == [("example", "dcache.example", 2, 3_000_000)]
    finally:
        room.close()
    ControlRoom(tmp_path / "fresh").close()
    assert standing(tmp_path) == standing(tmp_path / "fresh")


STEPS = ("CREATE TABLE notes (text TEXT);", "ALTER TABLE notes ADD COLUMN at TEXT DEFAULT ''; -- when; or never\n")


def test_only_the_migrations_that_are_missing_are_applied(tmp_path: Path) -> None:
    with closing(Database(tmp_path, STEPS[:1])) as first, first.writing() as connection:
        connection.execute("INSERT INTO notes VALUES ('one')")
    for _ in range(2):
        with closing(Database(tmp_path, STEPS)) as second, second.reading() as connection:
            assert connection.execute("SELECT * FROM notes").fetchall() == [("one", "")]
    with pytest.raises(DatabaseError, match="has schema version 2, but this Branchline knows only 1"):
        Database(tmp_path, STEPS[:1])


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    Database(tmp_path, STEPS[:1]).close()
    before = standing(tmp_path)
    with pytest.raises(InternalError, match="no such table"):
        Database(tmp_path, (*STEPS, "DELETE FROM notes;", "DELETE FROM nowhere;"))
    assert standing(tmp_path) == before
    Database(tmp_path, STEPS).close()


@pytest.mark.parametrize("statement", ["SELECT nothing FROM sums", "SELECT files FROM nowhere", "SELEC 1"])
def test_a_statement_that_we_wrote_wrongly_is_a_fault_of_ours(database: Database, statement: str) -> None:
    with pytest.raises(InternalError, match="internal error in Branchline") as caught, database.reading() as connection:
        connection.execute(statement)
    assert "disk" not in str(caught.value)
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM sums").fetchone() == (0,)


def test_a_database_that_another_process_holds_may_be_tried_again(database: Database) -> None:
    with closing(sqlite3.connect(database.path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseError, match="another process has locked it") as caught, database.writing():
            pass
        assert caught.value.retry
        holder.execute("ROLLBACK")
    with database.writing() as connection:
        connection.execute("INSERT INTO sums VALUES ('hour', 1)")


def test_a_damaged_database_is_to_be_brought_back(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"no database at all" * 1000)
    with pytest.raises(DatabaseError, match="restore it from a backup") as caught:
        Database(tmp_path, (TABLE,))
    assert not caught.value.retry


def test_errors_of_the_block_itself_stay_as_they_are(database: Database) -> None:
    with pytest.raises(sqlite3.IntegrityError), database.writing() as connection:
        connection.execute("INSERT INTO sums VALUES (NULL, 1)")
