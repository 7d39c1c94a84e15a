"""A real control room, served by its command on a free port of the loopback."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlencode, urlsplit

from branchline.records.sending.message import ReportBatch

WAIT_S = 240


@dataclass(frozen=True)
class Answer:
    """What the server answered."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


class Server:
    """The process of the command; it ends with the block. ``wrapped`` makes the command that runs it elsewhere."""

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        options: Sequence[str] = (),
        wrapped: Callable[[list[str]], list[str]] = lambda words: words,
    ) -> None:
        self.folder = folder
        command = wrapped([sys.executable, "-m", "branchline", "serve", str(folder), "--port", str(port), *options])
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            self.address = self._begun()
        except BaseException as error:  # also the end of the test's time
            error.add_note(self.end()[1])
            raise
        parts = urlsplit(self.address)
        self.base = f"{parts.scheme}://{parts.netloc}"
        self.port = int(parts.port or 0)
        self.token = parts.query.removeprefix("token=")

    def _begun(self) -> str:
        """Its address with the token, which it prints when it serves."""
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        if not first.startswith("open "):
            raise AssertionError(first)
        self.process.stdout.readline()
        return first.split()[1]

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self.end()

    def end(self, sent: int = signal.SIGTERM) -> tuple[int, str]:
        """Ends it; its code and what it wrote to its standard error."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, sent)
        _, said = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, said

    def ask(
        self, path: str, method: str = "GET", body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """A request with just these headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return Answer(answer.status, {key.lower(): one for key, one in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        """A request of a script with the token."""
        return self.ask(path, headers={"Authorization": f"Bearer {self.token}", **headers})

    def do(self, action: str, **fields: str) -> Answer:
        """What a form does, by a script."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/x-www-form-urlencoded"}
        return self.ask(f"/do/{action}", "POST", urlencode(fields).encode(), {**headers, "Accept": "application/json"})

    def report(self, batch: ReportBatch, token: str = "") -> Answer:
        """A batch, as a job sends it."""
        body = gzip.compress(json.dumps(batch.as_dict()).encode())
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Encoding": "gzip"}
        return self.ask("/api/v1/reports", "POST", body, {**headers, "Content-Type": "application/json"})
