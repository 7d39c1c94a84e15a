"""Secrets never appear in an error, a record or a report: those of URLs, tokens, keys in files and the environment."""

from __future__ import annotations

import socket
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.branchline_command import run_branchline
from tests.stores.conftest import Served
from tests.stores.scripted import http_request, scripted
from tests.stores.servers import free_port, program

import branchline
from branchline import Access, BranchlineError

SECRET = "Zx81Secret"
TOKEN = f"eyJhbGciOiJub25lIn0.{SECRET}.sig"
#: Every place of a URL where a secret may stand, behind the port of a server.
PATHS = [
    f"/f.root?authz=Bearer%20{SECRET}",
    f"/f.root?X-Amz-Signature={SECRET}&X-Amz-Credential={SECRET}&X-Amz-Security-Token={SECRET}",
    f"/f.root?access_token={SECRET}&xrd.ztn={SECRET}",
    f"/f.root?sig={SECRET}&key={SECRET}",
]
WAGON = "class Count:\n    branches = ['x']\n    def process(self, events):\n        return len(events)\n"


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch, surroundings: None) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "0.3")
    monkeypatch.setenv("BRANCHLINE_STORAGE_PAUSE", "0.01")
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "2")
    monkeypatch.setenv("BEARER_TOKEN", TOKEN)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", f"AKIA{SECRET}")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", SECRET)


def reported(location: str, access: Access | None = None) -> str:
    """All that an error says, with its traceback and what it was made of."""
    with pytest.raises(BranchlineError) as raised:
        branchline.open(location, access=access)
    error = raised.value
    return "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error)) + str(error)


def echo(_: int, connection: socket.socket) -> None:
    """A server that repeats its request in its errors, as some do."""
    request = http_request(connection) or {}
    words = " ".join(f"{name}: {value}" for name, value in request.items())
    body = f"not for Bearer {TOKEN} nor authz={SECRET}".encode()
    head = f"HTTP/1.1 403 {words[:200]}\r\nContent-Length: {len(body)}\r\nX-Said: {words[:200]}\r\n\r\n"
    connection.sendall(head.encode() + body)


def babble(_: int, connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(f"{TOKEN} authz={SECRET} ".encode() * 5)


def silence(_: int, connection: socket.socket) -> None:
    connection.recv(65536)
    connection.recv(65536)


@pytest.mark.parametrize("script", [echo, babble, silence], ids=lambda script: script.__name__)
@pytest.mark.parametrize("scheme", ["http", "root", "davs", "https", "roots"])
def test_no_error_of_a_server_tells_a_secret(scheme: str, script: Callable[[int, socket.socket], None]) -> None:
    with scripted(script) as server:
        for path in PATHS:
            assert SECRET not in reported(f"{scheme}://localhost:{server.port}{path}")


@pytest.mark.parametrize("scheme", ["http", "root", "s3", "gs", "nonsense"])
def test_no_error_about_a_place_that_is_not_there_tells_a_secret(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://localhost:{port}")
    for path in PATHS:
        both = f"{scheme}://localhost:{port}{path}"
        assert SECRET not in reported(both)
        assert SECRET not in reported(f"{both} | http://me:{SECRET}@localhost:{port}/f.root")
        for fault in ("reset", "missing", "stall,for=1ms"):
            assert SECRET not in reported(both, Access(fault=fault))


def test_no_login_tells_a_key_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "keys"
    make = [program("xrdsssadmin"), "-k", "test", "-u", "me", "-g", "us", "add", str(table)]
    subprocess.run(make, input=b"y\n", check=True, capture_output=True)
    key = next(part[2:] for part in table.read_text().split() if part.startswith("k:"))
    for content in (table.read_text(), f"0 u:me g:us n:test N:1 k:{key[:-3]}zz!", f"0 k:{key}"):
        own = tmp_path / "own"
        own.write_text(content)
        own.chmod(0o600)
        monkeypatch.setenv("XrdSecSSSKT", str(own))
        for script in (babble, silence):
            with scripted(script) as server:
                assert key[:20] not in reported(f"root://localhost:{server.port}//f.root")


def test_no_record_or_report_of_a_job_tells_a_secret(
    served: Served, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wagon = tmp_path / "wagon.py"
    wagon.write_text(WAGON.replace("'x'", "'px'"))
    good = f"root://localhost:{served.xrootd.port}//small.root?authz={SECRET}"
    bad = f"http://localhost:{free_port()}{PATHS[0]}"
    replicated = f"http://localhost:{free_port()}/small.root?sig={SECRET} | {served.data / 'events.root'}"
    out = tmp_path / "out"
    files = [good, bad, replicated]
    with pytest.warns(UserWarning, match="not complete") as warned:
        result = branchline.run(str(wagon), files, out, workers=2, tree="events", skip_bad_files=True)
    assert not any(SECRET in str(one.message) for one in warned)
    assert result.job["skipped"]
    assert result.job["troubles"]
    written = [path for path in out.rglob("*") if path.is_file()]
    assert len(written) > 2
    for path in written:
        assert SECRET.encode() not in path.read_bytes(), path.name
    assert SECRET not in "".join(capfd.readouterr())


def test_no_record_of_a_command_tells_a_secret(served: Served, tmp_path: Path) -> None:
    wagon, out = tmp_path / "wagon.py", tmp_path / "out"
    wagon.write_text(WAGON.replace("'x'", "'px'"))
    url = f"root://localhost:{served.xrootd.port}//small.root?authz={SECRET}&client_secret={SECRET}&code={SECRET}"
    closed = f"http://me:{SECRET}@localhost:{free_port()}/f.root"
    options = ["--tree", "events", "--trace", str(tmp_path / "trace"), "--skip-bad-files", "-o", str(out)]
    commands = [
        ["run", str(wagon), url, closed, *options],
        ["inspect", url, closed],
        ["trace", "show", str(tmp_path / "trace")],
        ["trace", "export", str(tmp_path / "trace"), str(tmp_path / "trace.json")],
    ]
    for words in commands:
        done = run_branchline(tmp_path, words)
        assert SECRET not in done.stdout + done.stderr, words[0]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"trace", "trace.json", "job.json", "report.html"} <= {path.name for path in written}
    for path in written:
        assert SECRET.encode() not in path.read_bytes(), path.name
