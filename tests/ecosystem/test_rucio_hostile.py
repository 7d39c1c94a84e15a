"""What a Rucio server says is checked: a scripted server answers Rucio's client with anything."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.branchline_command import run_branchline
from tests.ecosystem.rucio_server import client_configuration
from tests.patience import HANG_S

FILE = {"scope": "s", "name": "f.root", "bytes": 10, "adler32": "0000abcd"}
URL = "root://a.org//f.root"
REPLICA = {URL: {"rse": "A", "type": "DISK", "domain": "wan", "priority": 1}}
LONG = "Invalid object.\nDetails: first\n" + "a line of a schema\n" * 200


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    files: bytes
    replicas: bytes
    status = 200
    #: Length of the answer that is promised for replicas; None for what is sent.
    promised: int | None = None
    silent_s = 0.0
    is_ended: threading.Event

    def log_message(self, *_: object) -> None: ...

    def _send(self, content: bytes, kind: str = "application/x-json-stream", status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("X-Rucio-Auth-Token", "token")
        length = self.promised if content is self.replicas and self.promised else len(content)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = True

    def do_GET(self) -> None:
        if self.path.endswith("/files"):
            self._send(self.files)
        elif "/attr" in self.path:
            self._send(b'{"site": "A\\u001b[31m"}', "application/json")
        else:
            self._send(b'{"scope": "s", "name": "d"}', "application/json")

    def do_POST(self) -> None:
        self.is_ended.wait(self.silent_s)
        self.rfile.read(int(self.headers["Content-Length"]))
        self._send(
            self.replicas, "application/json" if self.status != 200 else "application/x-json-stream", self.status
        )


@pytest.fixture
def handler() -> type[_Handler]:
    class Handler(_Handler):
        files = json.dumps(FILE).encode()
        is_ended = threading.Event()

    return Handler


@pytest.fixture
def environment(handler: type[_Handler], tmp_path: Path) -> Iterator[dict[str, str]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        path = client_configuration(tmp_path / "client", f"http://127.0.0.1:{server.server_port}")
        yield {"RUCIO_CONFIG": str(path)}
        handler.is_ended.set()
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"bytes": -1}, "a file's size is -1"),
        ({"bytes": "10"}, "a file's size is '10'"),
        ({"bytes": 2**70}, "a file's size is 11805916207174"),
        ({"adler32": "zzz"}, "'adler32:zzz' is not a checksum"),
        ({"name": "f\x1b[31m"}, r"the name of a file is 'f\x1b[31m'"),
        ({"name": "other"}, "rucio:s:other was not requested"),
        ({"scope": None}, "the scope of a file is None"),
        ({"pfns": ["root://a.org//f.root"]}, "is not an object"),
        ({"pfns": {URL: "A"}}, "'A' is not an object"),
        ({"pfns": {URL: {"rse": "A\u202eB"}}}, r"the RSE of s:f.root is 'A\u202eB'"),
        ({"pfns": {"root://a.org//f\n.root": REPLICA[URL]}}, r"the URL of a replica is 'root://a.org//f\n.root'"),
        ({"pfns": {"root://a.org//f | /etc/passwd": REPLICA[URL]}}, "the URL of a replica is"),
    ],
)
def test_an_invalid_response_is_an_error(
    handler: type[_Handler], environment: dict[str, str], tmp_path: Path, change: dict, problem: str
) -> None:
    handler.replicas = json.dumps({**FILE, "pfns": REPLICA, **change}).encode()
    ended = run_branchline(tmp_path, ["locate", "rucio:s:d"], environment)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "sent an invalid response: " in ended.stderr
    assert problem in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert len(ended.stderr) < 700


@pytest.mark.parametrize("content", [b"<html>Sign in</html>", b"[]", b"7", b'{"scope"', b"\xff\xfe"])
def test_a_response_of_another_form_is_an_error(
    handler: type[_Handler], environment: dict[str, str], tmp_path: Path, content: bytes
) -> None:
    handler.replicas = handler.files = content
    ended = run_branchline(tmp_path, ["locate", "rucio:s:d"], environment)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "sent an invalid response: " in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_odd_schemes_and_sites_are_left_out(
    handler: type[_Handler], environment: dict[str, str], tmp_path: Path
) -> None:
    odd = {"file:///etc/passwd": REPLICA[URL], "s3://b/f.root": REPLICA[URL], **REPLICA}
    handler.replicas = json.dumps({**FILE, "pfns": odd}).encode()
    ended = run_branchline(tmp_path, ["locate", "rucio:s:d"], environment)
    assert (ended.returncode, ended.stderr) == (0, "")
    (located,) = json.loads(ended.stdout).values()
    described = {"replicas": [], "version": "adler32:0000abcd", "size_bytes": 10}
    assert located == {"files": {URL: described}, "sites": {"root://a.org": "A"}}


def test_of_a_long_message_the_first_lines_are_shown(
    handler: type[_Handler], environment: dict[str, str], tmp_path: Path
) -> None:
    handler.status = 400
    handler.replicas = json.dumps({"ExceptionClass": "InvalidObject", "ExceptionMessage": LONG}).encode()
    ended = run_branchline(tmp_path, ["locate", "rucio:s:d"], environment)
    assert ended.returncode == 1
    assert "refused a request: " in ended.stderr
    assert "Invalid object." in ended.stderr
    assert "a line of" not in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_file_that_is_listed_again_and_again_ends_the_lookup(
    handler: type[_Handler], environment: dict[str, str], tmp_path: Path
) -> None:
    handler.replicas = b"".join(2 * [json.dumps({**FILE, "pfns": REPLICA}).encode() + b"\n"])
    ended = run_branchline(tmp_path, ["locate", "rucio:s:d"], environment)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "rucio:s:f.root was not requested, or is listed twice" in ended.stderr


@pytest.mark.parametrize("host", ["localhost", "ftp://localhost", ""])
def test_a_wrong_address_in_the_configuration_is_explained(tmp_path: Path, host: str) -> None:
    environment = {"RUCIO_CONFIG": str(client_configuration(tmp_path / "client", host))}
    ended = run_branchline(tmp_path, ["locate", "rucio:s:d"], environment)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "cannot be used: " in ended.stderr
    assert "rucio whoami" in ended.stderr


def test_a_silent_server_is_given_up(handler: type[_Handler], environment: dict[str, str], tmp_path: Path) -> None:
    handler.silent_s, handler.replicas = 2 * HANG_S, json.dumps({**FILE, "pfns": REPLICA}).encode()
    ended = run_branchline(tmp_path, ["locate", "rucio:s:d"], {**environment, "BRANCHLINE_STORAGE_TIMEOUT": "0.5"})
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "Read timed out" in ended.stderr
    assert "cannot be reached: " in ended.stderr


def test_a_response_that_ends_early_is_an_error(
    handler: type[_Handler], environment: dict[str, str], tmp_path: Path
) -> None:
    handler.replicas, handler.promised = json.dumps({**FILE, "pfns": REPLICA}).encode(), 10_000
    ended = run_branchline(tmp_path, ["locate", "rucio:s:d"], environment)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "cannot be reached: " in ended.stderr
    assert "after 0 of 1 files of s:d" in ended.stderr
