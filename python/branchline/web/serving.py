"""The server: uvicorn over the application, from the address that is printed to a clean end."""

from __future__ import annotations

import asyncio
import getpass
import re
import secrets
import socket
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from branchline.control.people import ADMINISTRATOR, Person
from branchline.control.room import ControlRoom
from branchline.control.trains.running import ReportTo
from branchline.errors import OptionError
from branchline.limits import LIVE_VIEWERS_MAX, SERVER_END_S
from branchline.report.whole_files import write_whole
from branchline.web.app import create_app
from branchline.web.connections import TimedConnection
from branchline.web.settings import ServerSettings

#: The file with the token, in the directory of the control room: jobs of the same user read it.
TOKEN_FILE = "token"  # noqa: S105 - a name of a file
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Address:
    """Where the server listens: to be opened in a browser (with the token), and for jobs (without)."""

    for_browser: str
    for_jobs: str
    token_file: Path


def serve(folder: Path, *, host: str, port: int, ready: Callable[[Address], None]) -> None:
    """Serves a control room until SIGTERM or Ctrl-C. ``ready`` is called once it listens; port 0 is any free one.

    Raises OptionError for an address that cannot be used, DatabaseError for a directory that cannot.
    """
    if host not in _LOOPBACK:
        what = f"{host} can be reached by others, and there are no accounts yet that would tell them apart"
        raise OptionError(what, hint="serve on 127.0.0.1, and forward the port by ssh: ssh -L 8765:127.0.0.1:8765 HOST")
    with closing(_listening(host, port)) as listener, closing(ControlRoom(folder)) as room:
        token = _token(folder / TOKEN_FILE)
        settings = ServerSettings(token, Person(_own_name(), ADMINISTRATOR))
        ending = asyncio.Event()
        app = create_app(room, settings, ending)
        base = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
        room.trials.start()
        room.findings.start()
        room.trains.start(ReportTo(base, (folder / TOKEN_FILE).absolute()))
        config = uvicorn.Config(
            app,
            http=TimedConnection,
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=int(SERVER_END_S),
            limit_concurrency=LIVE_VIEWERS_MAX + 1000,
            h11_max_incomplete_event_size=65_536,
        )
        address = Address(f"{base}/?token={token}", base, folder / TOKEN_FILE)
        asyncio.run(_Server(config, lambda: ready(address), ending).serve([listener]))


class _Server(uvicorn.Server):
    """A server that says when it listens, and to its streams when it ends."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], ending: asyncio.Event) -> None:
        super().__init__(config)
        self._ready = ready
        self._ending = ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending.set()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: object) -> None:  # noqa: ARG002 - as uvicorn calls it
        # The signal is how the server is ended, and no error of it: uvicorn would raise it again afterwards.
        self.should_exit = True


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        what = f"{host} port {port} cannot be listened on: {reason}"
        raise OptionError(what, hint="choose another port with --port; 0 is any free one") from error
    # Head and body of an answer are two packets: without this the second one waits 40 ms for the first to be confirmed.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _token(path: Path) -> str:
    """The token of the directory, which is made once: open pages and jobs know it after a new start, too."""
    try:
        token = path.read_text(encoding="ascii").strip()
        if len(token) >= 32:
            return token
    except (FileNotFoundError, UnicodeDecodeError):
        pass
    token = secrets.token_urlsafe(32)
    write_whole(path, f"{token}\n".encode())
    path.chmod(0o600)
    return token


def _own_name() -> str:
    """The name of the user, as owners of wagons may be named."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = "me"
    name = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]
    return name if name[:1].isalpha() else f"u{name}"[:64]
