"""The server: uvicorn over the application, from the printed address to a graceful shutdown.

Slow connections are closed and the log is rate-limited, since anybody who reaches the port could exhaust connections or
fill a disk.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from branchline.base.limits import LIVE_VIEWERS_MAX, LOG_LINES_MAX, LOG_SPAN_S, REQUEST_HEAD_S, SERVER_END_S
from branchline.base.whole_files import write_whole
from branchline.control.people import ADMINISTRATOR, Person
from branchline.control.registry.git_sources import GitSources
from branchline.control.room import ControlRoom
from branchline.control.sandbox.code_rules import CodeRunning
from branchline.control.sandbox.owner_call import SubmitAs
from branchline.control.sandbox.sandbox import TrainLimits
from branchline.control.trains.runner import ReportTo
from branchline.control.upkeep import Retention
from branchline.control.web.app import create_app
from branchline.control.web.openid_settings import OpenIdSettings
from branchline.control.web.server_settings import LOOPBACK_HOSTS, TOKEN_FILE, AccountKeys, OwnToken, ServerSettings
from branchline.errors import OptionError

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - it is asked whether somebody listens there


@dataclass(frozen=True)
class Address:
    """Where the server listens: to be opened in a browser (with the token of who is alone), and for jobs (without).
    ``token_file`` is None where everybody has tokens of their own. ``remarks`` say what it does not do.
    """

    for_browser: str
    for_jobs: str
    token_file: Path | None
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Sharing:
    """How others reach a shared control room: by a ``certificate`` with its ``key`` (PEM), or through a proxy that does
    TLS and is reached at ``public_url``. On the loopback neither is needed, to try it. Wagons are tried on files below
    ``data``. People whom the provider ``openid`` knows need no account that was made for them.
    Sources of wagons are fetched from the hosts ``git``. Trains here are within ``train_limits``, and others run as the
    users that ``submit_as`` becomes.
    """

    certificate: Path | None = None
    key: Path | None = None
    public_url: str = ""
    data: tuple[Path, ...] = ()
    openid: OpenIdSettings | None = None
    git: tuple[str, ...] = ()
    train_limits: TrainLimits = field(default_factory=TrainLimits)
    submit_as: SubmitAs | None = None

    def check(self, host: str) -> None:
        """Raises OptionError where passwords would go over a network as they are."""
        if (self.certificate is None) != (self.key is None):
            raise OptionError("a certificate and its key are needed together")
        url = urlsplit(self.public_url)
        if self.public_url and (url.scheme != "https" or not url.hostname or url.path not in ("", "/")):
            what = f"{self.public_url!r:.200} is not how browsers reach a shared control room"
            raise OptionError(what, hint="write it like https://control.example.org")
        if not self.is_secure and host not in _LOOPBACK:
            what = f"{host} can be reached by others, and passwords would not be encrypted"
            raise OptionError(what, hint="give --certificate and --key, or --behind-proxy URL of a proxy that has them")

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach it by https."""
        return self.certificate is not None or bool(self.public_url)

    def hosts(self, host: str) -> tuple[str, ...]:
        """The names by which browsers may call it."""
        own = (urlsplit(self.public_url).hostname or "",) if self.public_url else (host, socket.getfqdn().lower())
        return tuple(dict.fromkeys([*LOOPBACK_HOSTS, *(one for one in own if one)]))


def serve(
    folder: Path,
    *,
    host: str,
    port: int,
    ready: Callable[[Address], None],
    sharing: Sharing | None = None,
    retention: Retention | None = None,
) -> None:
    """Serves a control room until SIGTERM or Ctrl-C: for oneself, or with ``sharing`` for all who have an account.
    ``ready`` is called once it listens; port 0 is any free one.

    Raises OptionError for an address or a retention that cannot be used, or for data that are not apart from the
    directory, DatabaseError for a directory that cannot be used.
    """
    if sharing is not None:
        sharing.check(host)
    elif host not in _LOOPBACK:
        what = f"{host} can be reached by others, and without accounts they cannot be told apart"
        raise OptionError(what, hint="serve it with --shared, or on 127.0.0.1, and forward the port by ssh")
    running = CodeRunning() if sharing is None else _code_running(folder, sharing)
    git = GitSources(None if sharing is None else sharing.git)
    with closing(_listening(host, port)) as listener, closing(ControlRoom(folder, running, retention, git)) as room:
        base = _base(host, listener.getsockname()[1], sharing)
        settings, address = _alone(folder, base) if sharing is None else _shared(room, base, host, sharing, running)
        ending = asyncio.Event()
        app = create_app(room, settings, ending)
        room.trials.start()
        room.findings.start()
        room.trains.start(None if address.token_file is None else ReportTo(base, address.token_file.absolute()))
        room.plans.start()
        config = _config(app, sharing)
        # Configuring sets the handlers of this log anew, and keeps its filters.
        logging.getLogger("uvicorn.error").addFilter(BoundedLines())
        asyncio.run(_Server(config, lambda: ready(address), ending).serve([listener]))


def _code_running(folder: Path, sharing: Sharing) -> CodeRunning:
    """For code of others. Raises OptionError if it could read the directory, or a key of the server."""
    secret = [folder, *([sharing.key] if sharing.key else [])]
    secret += list(sharing.openid.secret_files) if sharing.openid else []
    return CodeRunning.of_shared_server(sharing.data, secret, sharing.train_limits, sharing.submit_as)


def _base(host: str, port: int, sharing: Sharing | None) -> str:
    if sharing is not None and sharing.public_url:
        return sharing.public_url.rstrip("/")
    scheme = "https" if sharing is not None and sharing.is_secure else "http"
    if host in _EVERYWHERE:
        # Every address of the machine, of which none is a name for browsers.
        host = socket.getfqdn().lower()
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _alone(folder: Path, base: str) -> tuple[ServerSettings, Address]:
    token = _token(folder / TOKEN_FILE)
    keys = OwnToken(token, Person(_own_name(), ADMINISTRATOR))
    return ServerSettings(keys), Address(f"{base}/?token={token}", base, folder / TOKEN_FILE)


def _shared(
    room: ControlRoom, base: str, host: str, sharing: Sharing, running: CodeRunning
) -> tuple[ServerSettings, Address]:
    is_by_groups = sharing.openid is not None and sharing.openid.makes_administrators
    if not is_by_groups and not any(
        one.role == ADMINISTRATOR and not one.is_disabled for one in room.accounts.accounts()
    ):
        hint = f"branchline people add NAME --role administrator {room.folder}"
        raise OptionError("nobody has an account here who could let others in", hint=hint)
    settings = ServerSettings(
        AccountKeys(room.accounts), sharing.hosts(host), sharing.is_secure, base=base, openid=sharing.openid
    )
    return settings, Address(base, base, None, [one for one in (running.no_trials, running.no_trains) if one])


def _config(app: ASGIApp, sharing: Sharing | None) -> uvicorn.Config:
    is_behind_proxy = sharing is not None and bool(sharing.public_url)
    return uvicorn.Config(
        app,
        http=TimedConnection,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        # The address of a browser comes from the proxy, which is on this machine.
        proxy_headers=is_behind_proxy,
        forwarded_allow_ips="127.0.0.1,::1" if is_behind_proxy else "",
        ssl_certfile=sharing.certificate if sharing else None,
        ssl_keyfile=sharing.key if sharing else None,
        timeout_graceful_shutdown=int(SERVER_END_S),
        limit_concurrency=LIVE_VIEWERS_MAX + 1000,
        h11_max_incomplete_event_size=65_536,
    )


class TimedConnection(H11Protocol):
    """A connection that is closed if the head of a request takes too long: uvicorn would wait for it for ever."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()

    def _watch(self) -> None:
        # There is none before the first request, whatever uvicorn declares.
        if self.cycle is not None and not self.cycle.response_complete:  # type: ignore[redundant-expr]
            self._forget()
        elif self._late is None and not self.transport.is_closing():
            self._late = self.loop.call_later(REQUEST_HEAD_S, self.transport.close)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


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


class BoundedLines(logging.Filter):
    """Lets through LOG_LINES_MAX messages in LOG_SPAN_S, and says of those before it how many it has left out."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._began_s = now_s()
        self._count = 0
        self._left_out = 0
        self._turn = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a message is written."""
        with self._turn:
            if self._now_s() - self._began_s > LOG_SPAN_S:
                self._began_s, self._count = self._now_s(), 0
            self._count += 1
            if self._count > LOG_LINES_MAX:
                self._left_out += 1
                return False
            left_out, self._left_out = self._left_out, 0
        if left_out:
            record.msg, record.args = f"{record.getMessage()} ({left_out} messages before it were left out)", ()
        return True


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
