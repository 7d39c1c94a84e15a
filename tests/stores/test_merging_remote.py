"""Inputs of merges at servers: with a token in their URL, which no message shows, and with replicas."""

from __future__ import annotations

import http.server
import re
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import uproot

from branchline.writing.merging.merge import MergeResult, merge
from branchline.writing.merging.skim import skim, slim

SECRET = "Zx81Secret"
FILES = {"a.root": np.arange(10), "b.root": np.arange(10, 20)}


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Serves ranges of files to those who have the token."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{name}?authz={SECRET}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: object) -> None:
        """Keeps quiet."""

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        file = self.server.folder / asked.path.lstrip("/")
        if SECRET not in asked.query or not file.exists():
            self._answer(404 if SECRET in asked.query else 401, b"")
            return
        content = file.read_bytes()
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if found is None:
            self._answer(200, content)
            return
        first, last = found.groups()
        start = int(first) if first else max(len(content) - int(last), 0)
        stop = min(int(last) + 1, len(content)) if first and last else len(content)
        self._answer(206, content[start:stop], f"bytes {start}-{stop - 1}/{len(content)}")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self, status: int, body: bytes, content_range: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"1"')
        self.send_header("Accept-Ranges", "bytes")
        if content_range:
            self.send_header("Content-Range", content_range)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    folder = tmp_path / "served"
    folder.mkdir()
    for name, numbers in FILES.items():
        with uproot.recreate(folder / name) as file:
            file.mktree("events", {"x": numbers.dtype, "y": numbers.dtype})
            file["events"].extend({"x": numbers, "y": numbers})
    server = Server(folder)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def values(made: MergeResult) -> list[int]:
    assert SECRET not in repr(made)
    return uproot.open(made.path)["events/x"].array().tolist()


def test_what_has_a_token_in_its_url_is_merged(server: Server, tmp_path: Path) -> None:
    inputs = [server.url(name) for name in FILES]
    assert values(merge(inputs, tmp_path / "merged.root")) == list(range(20))
    assert values(slim(inputs, tmp_path / "slim.root", branches=["x"])) == list(range(20))
    assert values(skim(inputs, tmp_path / "skimmed.root", where="x % 2 == 0")) == list(range(0, 20, 2))


def test_what_cannot_be_read_is_listed_without_its_token(server: Server, tmp_path: Path) -> None:
    inputs = [server.url("nothing.root"), server.url("b.root")]
    made = merge(inputs, tmp_path / "merged.root", skip_bad_files=True)
    assert values(made) == list(range(10, 20))
    assert "nothing.root?authz=***" in made.skipped[0].path


def test_another_replica_of_an_input_is_merged(server: Server, tmp_path: Path) -> None:
    inputs = [f"{server.url('nothing.root')} | {server.url('a.root')}", server.url("b.root")]
    assert values(merge(inputs, tmp_path / "merged.root")) == list(range(20))
    assert values(skim(inputs, tmp_path / "skimmed.root", where="x % 2 == 0")) == list(range(0, 20, 2))
