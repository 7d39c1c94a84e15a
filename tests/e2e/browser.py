"""A real browser without a window, controlled through the DevTools protocol over two pipes."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.peers.peers import missing

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# No sandbox: tests may run as a user or in a container for which it cannot be made; the pages are our own.
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
    "--remote-debugging-pipe", "--window-size=1200,1000", "about:blank",
)  # fmt: skip
WAIT_S = 240.0


class Browser:
    """One page of a browser. Messages end with a zero byte; it reads descriptor 3 and writes descriptor 4."""

    def __init__(self, profile: Path) -> None:
        program = next((found for name in NAMES if (found := shutil.which(name))), None)
        if program is None:
            missing("chromium")
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # Out of the way of 3 and 4, which they become.
        ends = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10) for one in (theirs_in, theirs_out)]
        nowhere = os.open(os.devnull, os.O_RDWR)
        places = [(nowhere, 1), (nowhere, 2), (ends[0], 3), (ends[1], 4)]
        self._process = os.posix_spawn(
            program,
            [program, f"--user-data-dir={profile}", *OPTIONS],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, ours, theirs) for ours, theirs in places],
        )
        for one in (theirs_in, theirs_out, nowhere, *ends):
            os.close(one)
        self._pending = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        (page, *_) = [one for one in self._ask("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        attached = self._ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        # It ends with its pipes; and if it does not, then with force.
        os.close(self._out)
        os.close(self._in)
        end = time.monotonic() + WAIT_S / 6
        while os.waitpid(self._process, os.WNOHANG) == (0, 0):
            if time.monotonic() > end:
                os.kill(self._process, signal.SIGKILL)
            time.sleep(0.02)

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + WAIT_S
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._in], [], [], max(end - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            got = os.read(self._in, 1 << 16)
            assert got, "the browser is gone"
            self._pending += got
        message, self._pending = self._pending.split(b"\0", 1)
        decoded: dict[str, Any] = json.loads(message)
        return decoded

    def open(self, path: Path) -> None:
        """Opens a file, and waits until it is drawn."""
        self._ask("Page.navigate", url=path.as_uri())
        end = time.monotonic() + WAIT_S
        while not self.value(f"document.readyState === 'complete' && location.href === {json.dumps(path.as_uri())}"):
            assert time.monotonic() < end, "the page does not load"
            time.sleep(0.02)
        self.value("typeof ready === 'undefined' ? null : ready.then(() => null)")

    def value(self, expression: str) -> Any:
        """What an expression of the page gives, as plain data."""
        found = self._ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def dark(self) -> None:
        """The reader's system is dark from now on."""
        features = [{"name": "prefers-color-scheme", "value": "dark"}]
        self._ask("Emulation.setEmulatedMedia", features=features)

    def move(self, x: float, y: float) -> None:
        """Moves the mouse, without a button."""
        self._ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def wheel(self, x: float, y: float, turn: float) -> None:
        """Turns the wheel at a place; upwards is negative."""
        self._ask("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=turn)

    def complaints(self) -> list[str]:
        """Errors of the page's scripts, what the browser refused, and requests to anywhere but files."""
        self.value("0")
        wrong = []
        for one in self.events:
            parameters = one.get("params", {})
            if one.get("method") == "Runtime.exceptionThrown":
                wrong.append(json.dumps(parameters["exceptionDetails"])[:500])
            if one.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
                wrong.append(parameters["entry"]["text"])
            if one.get("method") == "Network.requestWillBeSent":
                address = parameters["request"]["url"]
                wrong += [] if address.startswith("file://") else [address]
        return wrong
