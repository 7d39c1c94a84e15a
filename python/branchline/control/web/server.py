"""Run the application in uvicorn until a graceful shutdown.

Slow connections are closed and the log is rate-limited. Otherwise, anyone who can reach the port could use up all
connections or fill the disk.
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
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - only compared with the given host


@dataclass(frozen=True)
class Address:
    """The URLs of a server.

    - ``for_browser``: URL for browsers; contains the token in a single-user control room.
    - ``for_jobs``: URL for job reports, without a token.
    - ``token_file``: file with the token; None in a shared control room, where users have tokens of their own.
    - ``remarks``: sentences about disabled features, and about the address for caches.
    """

    for_browser: str
    for_jobs: str
    token_file: Path | None
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Sharing:
    """Settings of a shared control room.

    - ``certificate``, ``key``: PEM files for TLS. Not needed with a proxy or on the loopback interface.
    - ``public_url``: URL of the TLS proxy through which browsers connect; empty without a proxy.
    - ``data``: folders whose files user code can read.
    - ``openid``: OpenID Connect provider, whose users get accounts automatically.
    - ``git``: hosts from which wagon sources can be fetched.
    - ``train_limits``: limits of trains on this machine.
    - ``submit_as``: how trains are submitted to batch systems as the Unix user of the train's owner.
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
        """Raise OptionError for incomplete settings, or if passwords would be sent unencrypted over a network."""
        if (self.certificate is None) != (self.key is None):
            raise OptionError("--certificate and --key must be given together")
        url = urlsplit(self.public_url)
        if self.public_url and (url.scheme != "https" or not url.hostname or url.path not in ("", "/")):
            what = f"{self.public_url!r:.200} is not the public URL of a shared control room"
            raise OptionError(what, hint="write it like https://control.example.org")
        if not self.is_secure and host not in _LOOPBACK:
            what = f"{host} can be reached by others, and passwords would not be encrypted"
            raise OptionError(what, hint="give --certificate and --key, or --behind-proxy with the URL of a TLS proxy")

    @property
    def is_secure(self) -> bool:
        """Whether browsers connect over https."""
        return self.certificate is not None or bool(self.public_url)

    def hosts(self, host: str) -> tuple[str, ...]:
        """Return the host names that are accepted in the Host header of requests."""
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
    caches: str = "",
) -> None:
    """Serve a control room until SIGTERM or Ctrl-C.

    Without ``sharing``, the control room has a single user; with ``sharing``, users have accounts. ``caches`` is the
    address that receives the monitoring streams of caches, or empty. ``ready`` is called when the server listens. Port
    0 selects any free port. Raises OptionError for an invalid address or retention, or if data folders overlap with the
    control room's directory. Raises DatabaseError if the directory cannot be used.
    """
    if sharing is not None:
        sharing.check(host)
    elif host not in _LOOPBACK:
        what = f"{host} can be reached by others, and this control room has no accounts"
        raise OptionError(what, hint="add --shared, or listen on 127.0.0.1 and forward the port with ssh")
    running = CodeRunning() if sharing is None else _code_running(folder, sharing)
    git = GitSources(None if sharing is None else sharing.git)
    with closing(_listening(host, port)) as listener, closing(ControlRoom(folder, running, retention, git)) as room:
        base = _base(host, listener.getsockname()[1], sharing)
        if sharing is None:
            token = _token(folder / TOKEN_FILE)
            settings = ServerSettings(OwnToken(token, Person(_own_name(), ADMINISTRATOR)))
            address = Address(f"{base}/?token={token}", base, folder / TOKEN_FILE)
        else:
            settings, address = _shared(room, base, host, sharing, running)
        if caches:
            address.remarks.append(f"caches report to {room.watch_caches(caches)} (UDP)")
        ending = asyncio.Event()
        app = create_app(room, settings, ending)
        room.trials.start()
        room.findings.start()
        room.trains.start(None if address.token_file is None else ReportTo(base, address.token_file.absolute()))
        room.plans.start()
        config = _config(app, sharing)
        # Use a filter, because uvicorn's configuration replaces the logger's handlers but keeps its filters.
        logging.getLogger("uvicorn.error").addFilter(BoundedLines())
        asyncio.run(_Server(config, lambda: ready(address), ending).serve([listener]))


def _code_running(folder: Path, sharing: Sharing) -> CodeRunning:
    """Return the rules for user code. Raises OptionError if such code could read the server's directory or secrets."""
    secret = [folder, *([sharing.key] if sharing.key else [])]
    secret += list(sharing.openid.secret_files) if sharing.openid else []
    return CodeRunning.of_shared_server(sharing.data, secret, sharing.train_limits, sharing.submit_as)


def _base(host: str, port: int, sharing: Sharing | None) -> str:
    if sharing is not None and sharing.public_url:
        return sharing.public_url.rstrip("/")
    scheme = "https" if sharing is not None and sharing.is_secure else "http"
    if host in _EVERYWHERE:
        # Browsers cannot connect to the wildcard address, so use the host name.
        host = socket.getfqdn().lower()
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _shared(
    room: ControlRoom, base: str, host: str, sharing: Sharing, running: CodeRunning
) -> tuple[ServerSettings, Address]:
    is_by_groups = sharing.openid is not None and sharing.openid.makes_administrators
    if not is_by_groups and not any(
        one.role == ADMINISTRATOR and not one.is_disabled for one in room.accounts.accounts()
    ):
        hint = f"branchline people add NAME --role administrator {room.folder}"
        raise OptionError("this control room has no administrator", hint=hint)
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
        # A proxy on this machine sends the browser's IP address in a header.
        proxy_headers=is_behind_proxy,
        forwarded_allow_ips="127.0.0.1,::1" if is_behind_proxy else "",
        ssl_certfile=sharing.certificate if sharing else None,
        ssl_keyfile=sharing.key if sharing else None,
        timeout_graceful_shutdown=int(SERVER_END_S),
        limit_concurrency=LIVE_VIEWERS_MAX + 1000,
        h11_max_incomplete_event_size=65_536,
    )


class TimedConnection(H11Protocol):
    """A connection that is closed if request headers do not arrive in time. uvicorn has no such timeout."""

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
        # uvicorn's type annotation excludes None, but cycle is None before the first request.
        if self.cycle is not None and not self.cycle.response_complete:  # type: ignore[redundant-expr]
            self._forget()
        elif self._late is None and not self.transport.is_closing():
            self._late = self.loop.call_later(REQUEST_HEAD_S, self.transport.close)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class _Server(uvicorn.Server):
    """A uvicorn server that calls ``ready`` when it listens, and ends all event streams before the shutdown."""

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

    def handle_exit(self, sig: int, frame: object) -> None:  # noqa: ARG002 - signature from uvicorn
        # Do not record the signal, because uvicorn would raise a recorded signal again after the shutdown.
        self.should_exit = True


class BoundedLines(logging.Filter):
    """Limits the log to LOG_LINES_MAX messages per LOG_SPAN_S. The next message says how many messages were dropped."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._began_s = now_s()
        self._count = 0
        self._left_out = 0
        self._turn = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write a message."""
        with self._turn:
            if self._now_s() - self._began_s > LOG_SPAN_S:
                self._began_s, self._count = self._now_s(), 0
            self._count += 1
            if self._count > LOG_LINES_MAX:
                self._left_out += 1
                return False
            left_out, self._left_out = self._left_out, 0
        if left_out:
            record.msg, record.args = f"{record.getMessage()} ({left_out} earlier messages were dropped)", ()
        return True


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        what = f"cannot listen on {host} port {port}: {reason}"
        raise OptionError(what, hint="choose another port with --port; 0 is any free port") from error
    # Disable Nagle's algorithm: headers and body of a response are two packets, and the body would wait 40 ms for the
    # acknowledgement of the headers.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _token(path: Path) -> str:
    """Return the token from a file. Creates the file if missing. The token remains valid after a server restart."""
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
    """Return the user's name. Replaces characters that are not allowed in the names of owners."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = "me"
    name = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]
    return name if name[:1].isalpha() else f"u{name}"[:64]
