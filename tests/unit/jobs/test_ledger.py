"""The ledger: what is put into it is there after a kill, and what cannot be read is not there."""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from branchline.base.limits import LEDGER_RUNS_KEPT
from branchline.jobs.ledger import LEDGER_NAME, Ledger, LedgerError, LedgerRow, counts_in, remove_ledger


def key_of(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()


def row(number: int, content: bytes = b"content", name: str = "wagon") -> LedgerRow:
    return LedgerRow(key_of(number), name, f"f{number}.root", content)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / LEDGER_NAME


def test_large_contents_are_compressed(path: Path) -> None:
    content = {number: bytes([number]) * 10_000_000 for number in range(4)}
    content[4] = os.urandom(100_000)
    ledger = Ledger(path)
    ledger.put(row(number, one) for number, one in content.items())
    ledger.close()
    assert path.stat().st_size < 300_000
    ledger = Ledger(path)
    assert ledger.contents([key_of(number) for number in content]) == {
        key_of(number): one for number, one in content.items()
    }
    ledger.close()
    # A row of another size is damaged, even if its checksum is right.
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE results SET size_bytes = 999 WHERE key IN (?, ?)", (key_of(0), key_of(4)))
    ledger = Ledger(path)
    assert set(ledger.contents([key_of(number) for number in content])) == {key_of(1), key_of(2), key_of(3)}
    ledger.close()


def test_contents_are_found_by_their_keys_in_a_later_run(path: Path) -> None:
    ledger = Ledger(path)
    ledger.put(row(number, bytes([number % 256]) * number) for number in range(1200))
    ledger.close()
    ledger = Ledger(path)
    found = ledger.contents([key_of(number) for number in range(0, 2400, 2)])
    assert found == {key_of(number): bytes([number % 256]) * number for number in range(0, 1200, 2)}
    ledger.put([row(4, b"other")])
    assert ledger.contents([key_of(4)]) == {key_of(4): b"other"}
    assert ledger.present([key_of(4), key_of(5000)]) == {key_of(4)}
    ledger.close()


def test_rows_are_there_after_the_process_was_killed(path: Path) -> None:
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom branchline.jobs.ledger import Ledger, LedgerRow\n"
        "ledger = Ledger(Path(sys.argv[1]))\n"
        "for number in range(300):\n"
        "    ledger.put([LedgerRow(number.to_bytes(32, 'big'), 'wagon', '', b'x' * 1000 * (number % 7))])\n"
        "ledger._connection.execute('BEGIN')\n"
        "ledger._connection.execute('DELETE FROM results')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    ledger = Ledger(path)
    keys = [number.to_bytes(32, "big") for number in range(300)]
    assert ledger.contents(keys) == {key: b"x" * 1000 * (number % 7) for number, key in enumerate(keys)}
    ledger.close()


def test_a_content_whose_bytes_changed_is_not_there(path: Path) -> None:
    ledger = Ledger(path)
    ledger.put([row(1, b"a" * 5000), row(2, b"b" * 5000)])
    ledger.close()
    content = path.read_bytes()
    path.write_bytes(content.replace(b"a" * 100, b"a" * 99 + b"z", 1))
    ledger = Ledger(path)
    assert ledger.contents([key_of(1), key_of(2)]) == {key_of(2): b"b" * 5000}
    assert ledger.present([key_of(1)]) == set()
    ledger.close()


@pytest.mark.parametrize(
    "content", [b"no database, but as long as a header of one" * 30, b"SQLite format 3\0" + b"x" * 9000]
)
def test_a_damaged_file_is_set_aside_and_that_is_said(path: Path, content: bytes) -> None:
    for number in ("", "-2"):
        path.write_bytes(content)
        path.chmod(0o600)
        ledger = Ledger(path)
        assert "it was damaged" in ledger.replaced
        assert ledger.replaced.endswith(f"and renamed to {path.name}.damaged{number}")
        assert path.with_name(f"{path.name}.damaged{number}").read_bytes() == content
        ledger.put([row(1)])
        assert ledger.contents([key_of(1)]) == {key_of(1): b"content"}
        ledger.close()


def with_version(path: Path, version: int) -> bytes:
    """Makes a ledger with a row, of another version, and gives its bytes."""
    ledger = Ledger(path)
    ledger.put([row(1)])
    ledger.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    return path.read_bytes()


def test_a_file_of_a_later_version_is_refused_and_stays(path: Path) -> None:
    content = with_version(path, 99)
    for reads_only in (False, True):
        with pytest.raises(
            LedgerError, match=r"has version 99; this Branchline supports version 5 .*use the Branchline version that"
        ):
            Ledger(path, reads_only=reads_only)
    assert {one.name: one.read_bytes() for one in path.parent.iterdir()} == {path.name: content}


@pytest.mark.parametrize("is_open", [False, True])
def test_a_file_of_a_later_version_is_not_removed(path: Path, *, is_open: bool) -> None:
    """Also while its version is only in the write-ahead log."""
    content = with_version(path, 99)
    connection = sqlite3.connect(path, isolation_level=None)
    if is_open:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("DELETE FROM results")
    with pytest.raises(
        LedgerError, match=r"has version 99 and is kept; .*use the Branchline version that wrote it, or move it away"
    ):
        remove_ledger(path.parent)
    assert path.exists()
    connection.close()
    assert is_open or path.read_bytes() == content


def test_what_a_later_version_left_when_it_was_killed_is_not_removed(path: Path) -> None:
    script = (
        "import os, signal, sqlite3, sys\n"
        "from pathlib import Path\n"
        "from branchline.jobs.ledger import Ledger\n"
        "ledger = Ledger(Path(sys.argv[1]))\n"
        "ledger._connection.execute('PRAGMA user_version = 99')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    with pytest.raises(LedgerError, match="has version 99"):
        remove_ledger(path.parent)
    with pytest.raises(LedgerError, match="has version 99"):
        counts_in(path)
    assert path.exists()


def test_a_file_of_an_earlier_version_is_set_aside(path: Path) -> None:
    content = with_version(path, -1)
    with pytest.raises(LedgerError, match="has version -1"):
        Ledger(path, reads_only=True)
    assert path.read_bytes() == content
    ledger = Ledger(path)
    assert ledger.replaced.endswith(f"it was renamed to {path.name}.version--1")
    assert path.with_name(f"{path.name}.version--1").read_bytes() == content
    assert not ledger.present([key_of(1)])
    ledger.close()


@pytest.mark.parametrize("content", [b"", b"no database" * 90])
def test_who_only_reads_changes_nothing(path: Path, content: bytes) -> None:
    if content:
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(LedgerError, match="not a database"):
            Ledger(path, reads_only=True)
    else:
        ledger = Ledger(path)
        ledger.put([row(1, b"a" * 5000), row(2)])
        ledger.close()
        content = path.read_bytes().replace(b"a" * 100, b"a" * 99 + b"z", 1)
        path.write_bytes(content)
        ledger = Ledger(path, reads_only=True)
        assert ledger.contents([key_of(1), key_of(2)]) == {key_of(2): b"content"}
        with pytest.raises(LedgerError, match="readonly"):
            ledger.put([row(3)])
        ledger.close()
    assert {one.name: one.read_bytes() for one in path.parent.iterdir()} == {path.name: content}


def test_what_a_killed_process_wrote_is_there_for_who_only_reads(path: Path) -> None:
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom branchline.jobs.ledger import Ledger, LedgerRow\n"
        "ledger = Ledger(Path(sys.argv[1]))\nledger.put([LedgerRow(b'k' * 32, 'wagon', '', b'x')])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(path)], check=False).returncode == -signal.SIGKILL
    ledger = Ledger(path, reads_only=True)
    assert ledger.contents([b"k" * 32]) == {b"k" * 32: b"x"}
    ledger.close()


def test_what_the_last_runs_did_not_use_is_removed(path: Path) -> None:
    ledger = Ledger(path)
    ledger.put([row(1), row(2)])
    ledger.close()
    for _ in range(LEDGER_RUNS_KEPT):
        ledger = Ledger(path)
        ledger.used([key_of(2)])
        ledger.remove_old()
        ledger.close()
    assert [(one.name, one.results_count) for one in counts_in(path)] == [("wagon", 1)]
    ledger = Ledger(path)
    assert ledger.present([key_of(1), key_of(2)]) == {key_of(2)}
    ledger.close()


def test_a_ledger_that_others_may_write_is_refused(path: Path) -> None:
    Ledger(path).close()
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o666)
    with pytest.raises(LedgerError, match="run as code"):
        Ledger(path)


def test_a_second_process_is_refused_and_not_kept_waiting(path: Path) -> None:
    ledger = Ledger(path)
    ledger.put([row(1)])
    script = (
        "import sys\nfrom pathlib import Path\nfrom branchline.jobs.ledger import Ledger\nLedger(Path(sys.argv[1]))"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
    assert "LedgerError" in ended.stderr
    assert "locked" in ended.stderr
    ledger.put([row(2)])
    ledger.close()


def test_counts_say_what_is_kept_by_name(path: Path) -> None:
    assert counts_in(path) == []
    ledger = Ledger(path)
    ledger.put([row(1, b"12345"), row(2, b"123"), row(3, b"1", "other")])
    ledger.close()
    ledger = Ledger(path)
    ledger.used([key_of(1)])
    ledger.close()
    found = [(one.name, one.results_count, one.size_bytes, one.used_count) for one in counts_in(path)]
    assert found == [("other", 1, 1, 0), ("wagon", 2, 8, 1)]
    remove_ledger(path.parent)
    assert os.listdir(path.parent) == []


def test_a_full_disk_is_an_error_of_the_ledger(path: Path) -> None:
    ledger = Ledger(path)
    ledger._connection.execute("PRAGMA max_page_count = 20")
    with pytest.raises(LedgerError, match="full"):
        ledger.put([row(1, os.urandom(10**6))])
    ledger.put([row(2, b"small")])
    assert ledger.present([key_of(1), key_of(2)]) == {key_of(2)}
    ledger.close()
