"""Real servers for the tests: started on free ports of the loopback, in a folder of their own, ended by their pid."""

from __future__ import annotations

import contextlib
import grp
import itertools
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.patience import HANG_S
from tests.peers.peers import missing

from branchline._core import Store

START_TIMEOUT_S = HANG_S
START_TRIES = 3
# Below those that Linux, as it comes, gives to connections.
PORTS = range(10_000, 32_768)
# XRootD has no option for the address it listens on, and none of these servers is for the outside. This keeps each at
# an address of its own, because a cluster distinguishes its members by their addresses.
LOOPBACK_SHIM = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

typedef int (*on_address)(int, const struct sockaddr *, socklen_t);

static struct sockaddr_in own_address(int port) {
    struct sockaddr_in own;
    const char *host = getenv("LOOPBACK_ADDRESS");
    memset(&own, 0, sizeof own);
    own.sin_family = AF_INET;
    own.sin_port = port;
    inet_pton(AF_INET, host ? host : "127.0.0.1", &own.sin_addr);
    return own;
}

int bind(int descriptor, const struct sockaddr *address, socklen_t length) {
    on_address next = (on_address)dlsym(RTLD_NEXT, "bind");
    if (address && address->sa_family == AF_INET) {
        const struct sockaddr_in *asked = (const struct sockaddr_in *)address;
        struct sockaddr_in own = own_address(asked->sin_port);
        if (asked->sin_addr.s_addr == INADDR_ANY) return next(descriptor, (struct sockaddr *)&own, sizeof own);
    }
    return next(descriptor, address, length);
}

int connect(int descriptor, const struct sockaddr *address, socklen_t length) {
    on_address next = (on_address)dlsym(RTLD_NEXT, "connect");
    if (address && address->sa_family == AF_INET && getenv("LOOPBACK_ADDRESS")) {
        struct sockaddr_in own = own_address(0);
        ((on_address)dlsym(RTLD_NEXT, "bind"))(descriptor, (struct sockaddr *)&own, sizeof own);
    }
    return next(descriptor, address, length);
}
"""


def program(name: str) -> str:
    """The path of a program; a test that needs one that is not there is skipped, and fails in CI."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    return found or missing(name)


_firsts = itertools.cycle(random.SystemRandom().sample(PORTS, len(PORTS)))


def _reserved(port: int) -> socket.socket | None:
    """A socket that holds the port at every address of this machine; none where somebody has it."""
    one = socket.socket()
    try:
        one.bind(("", port))
    except OSError:
        one.close()
        return None
    # Servers ask for the same, and may then listen where this one is bound.
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return one


_reservations: list[socket.socket] = []


def free_port() -> int:
    """A port that no other process is given until this one ends, neither by this function nor by Linux for a
    connection: Linux may be set up to take those from everywhere, and then takes one before its server has started.
    """
    return free_ports(1).start


def free_ports(count: int) -> range:
    """As many such ports, one after the other."""
    for first in itertools.islice(_firsts, len(PORTS)):
        ports = range(first, first + count)
        held = [one for one in map(_reserved, ports) if one]
        if len(held) == count:
            _reservations.extend(held)
            return ports
        for one in held:
            one.close()
    raise AssertionError(f"no {count} ports in a row are free")


def answers(port: int, host: str = "127.0.0.1") -> bool:
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False


def wait_for(value: Callable[[], Sequence[Any]], wanted: int) -> None:
    """Servers write their logs a moment after they answered; what is too much comes then, too."""
    end_s = time.monotonic() + HANG_S
    while len(value()) < wanted and time.monotonic() < end_s:
        time.sleep(0.02)
    time.sleep(0.1)


class Process:
    """A server process that can be stopped, killed and started again. It is ready when it answers on its port, or when
    what else is given says so.
    """

    def __init__(
        self,
        arguments: list[str],
        ready: int | Callable[[], bool],
        log: Path,
        environment: Mapping[str, str] | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self.port = ready if isinstance(ready, int) else 0
        self._ready = (lambda: answers(self.port)) if isinstance(ready, int) else ready
        self._start_timeout_s = start_timeout_s
        self._arguments = arguments
        self._log = log
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, waits: bool = True) -> None:
        """Starts it, and again if it ended by itself, as servers do that find something of theirs taken."""
        for tries_left in reversed(range(START_TRIES)):
            self._spawn()
            why_not = self._wait_until_ready() if waits else ""
            if not why_not:
                return
            self.kill()
            if not tries_left or "ended" not in why_not:
                raise AssertionError(f"{self._arguments[0]} {why_not}: {self._log.read_text()[-3000:]}")

    def _spawn(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    def _wait_until_ready(self) -> str:
        """Nothing, or why it is not."""
        assert self._process is not None
        end_s = time.monotonic() + self._start_timeout_s
        while not self._ready():
            if self._process.poll() is not None:
                return f"ended with {self._process.returncode} at its start"
            if time.monotonic() > end_s:
                return f"was not ready after {self._start_timeout_s} s"
            time.sleep(0.01)
        return ""

    def kill(self) -> None:
        """Ends it at once, with its children: they are in a session of its own."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """It keeps its connections and does not answer."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)
        # Its threads may run on for a moment on another core.
        while not all(_is_stopped(thread) for thread in Path(f"/proc/{self._process.pid}/task").iterdir()):
            time.sleep(0.01)

    def go_on(self) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGCONT)


def _is_stopped(thread: Path) -> bool:
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return True  # it has ended


@contextlib.contextmanager
def back_soon(server: Process) -> Iterator[None]:
    """Starts a server that was killed a moment later, and waits until it has started: who ends it while it is still
    being started leaves the thread that does so without its process.
    """
    start = threading.Timer(0.3, server.start)
    start.start()
    try:
        yield
    finally:
        start.join()


class Folder:
    """A folder that servers may enter, whoever they run as; pytest's own are closed to others."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="branchline-stores-"))
        self.path.chmod(0o755)

    def below(self, name: str) -> Path:
        folder = self.path / name
        folder.mkdir(exist_ok=True)
        return folder

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def certificates(folder: Path) -> None:
    """An authority `ca.pem` and a certificate `cert.pem` with its key `key.pem` for localhost, and `user.pem` with
    `user-key.pem` for a user; the authority also in the folder `authorities`, as grids have theirs.
    """
    openssl = program("openssl")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True)

    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n"
    (folder / "names.txt").write_text(names)
    run("req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=Test authority")
    run("req", *new_key, "-keyout", "key.pem", "-out", "cert.csr", "-subj", "/CN=localhost")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names.txt")
    run("x509", "-req", "-in", "cert.csr", *signed, "-out", "cert.pem")
    run("req", *new_key, "-keyout", "user-key.pem", "-out", "user.csr", "-subj", "/CN=A user")
    (folder / "user.txt").write_text("basicConstraints=CA:FALSE\n")
    run("x509", "-req", "-in", "user.csr", *signed[:-1], "user.txt", "-out", "user.pem")
    (folder / "authorities").mkdir()
    shutil.copy(folder / "ca.pem", folder / "authorities")
    run("rehash", "authorities")


def grid_proxy(folder: Path, certificates: Path) -> Path:
    """A proxy of the user (RFC 3820) with its key and the user's certificate, as grids' tools leave it."""

    def run(*arguments: object) -> None:
        subprocess.run([program("openssl"), *map(str, arguments)], cwd=folder, check=True, capture_output=True)

    (folder / "proxy.txt").write_text("proxyCertInfo=critical,language:id-ppl-inheritAll\n")
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    run("req", *new_key, "-keyout", "key.pem", "-out", "proxy.csr", "-subj", "/CN=A user/CN=1")
    signed = (
        "-CA",
        certificates / "user.pem",
        "-CAkey",
        certificates / "user-key.pem",
        "-CAcreateserial",
        "-days",
        "1",
    )
    run("x509", "-req", "-in", "proxy.csr", *signed, "-extfile", "proxy.txt", "-out", "proxy.pem")
    parts = (folder / "proxy.pem", folder / "key.pem", certificates / "user.pem")
    proxy = folder / "x509up"
    proxy.write_text("".join(part.read_text() for part in parts))
    return proxy


NGINX_TOKEN = "a.good-token"
NGINX = """
daemon off;
worker_processes 1;
{user}
error_log {folder}/error.log;
pid {folder}/nginx.pid;
events {{}}
http {{
    log_format ranges '$status $body_bytes_sent $http_range';
    access_log {folder}/access.log;
    access_log {folder}/ranges.log ranges;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        listen 127.0.0.1:{tls_port} ssl;
        ssl_certificate {certificates}/cert.pem;
        ssl_certificate_key {certificates}/key.pem;
        ssl_client_certificate {certificates}/ca.pem;
        ssl_verify_client optional;
        root {data};
        location /one-range/ {{ alias {data}/; max_ranges 1; }}
        location /no-ranges/ {{ alias {data}/; max_ranges 0; }}
        location /moved/ {{ rewrite ^/moved/(.*)$ http://localhost:{port}/$1 redirect; }}
        location /no-versions/ {{ alias {data}/; etag off; add_header Last-Modified ""; }}
        location /json/ {{ alias {data}/; autoindex on; autoindex_format json; }}
        location /page/ {{ alias {data}/; autoindex on; }}
        location /round/ {{ rewrite ^ /round/ redirect; }}
        location /guarded/ {{
            if ($http_authorization != "Bearer {token}") {{ return 403; }}
            alias {data}/;
        }}
        location /for-known-users/ {{
            if ($ssl_client_verify != SUCCESS) {{ return 403; }}
            alias {data}/;
        }}
        location /guarded-and-moved/ {{
            if ($http_authorization != "Bearer {token}") {{ return 403; }}
            rewrite ^/guarded-and-moved/(.*)$ http://localhost:{port}/only-without-token/$1 redirect;
        }}
        location /only-without-token/ {{
            if ($http_authorization) {{ return 403; }}
            alias {data}/;
        }}
    }}
}}
"""


class Nginx(Process):
    """nginx with ranges, one range only, none, redirects, a token, and TLS."""

    def __init__(self, folder: Path, data: Path, certificates: Path) -> None:
        port, self.tls_port = free_port(), free_port()
        self.folder = folder
        config = folder / "nginx.conf"
        places = {"folder": folder, "data": data, "certificates": certificates, "token": NGINX_TOKEN}
        user = f"user nobody {grp.getgrgid(pwd.getpwnam('nobody').pw_gid).gr_name};" if os.geteuid() == 0 else ""
        config.write_text(NGINX.format(port=port, tls_port=self.tls_port, user=user, **places))
        arguments = [program("nginx"), "-e", str(folder / "error.log"), "-c", str(config)]
        super().__init__(arguments, port, folder / "output.log")

    @property
    def requests(self) -> list[str]:
        """The lines of its access log."""
        return (self.folder / "access.log").read_text().splitlines()

    @property
    def ranges(self) -> list[str]:
        """Of each request the status, the bytes of the answer's body, and the ranges that were asked for."""
        return (self.folder / "ranges.log").read_text().splitlines()


XROOTD = """
all.export /
oss.localroot {data}
all.adminpath {folder}/admin
all.pidpath {folder}/run
xrd.network nodnr
xrd.port {port}
{more}
"""
HTTP = "xrd.protocol http:{port} libXrdHttp.so"
TLS = """
xrd.tls {certificates}/cert.pem {certificates}/xrootd-key.pem
xrd.tlsca certdir {certificates}/authorities
xrootd.tls {when} all
"""


def loopback_shim(folder: Path) -> Path:
    """The library that keeps a server on the loopback."""
    library = folder / "loopback.so"
    if not library.exists():
        source = folder / "loopback.c"
        source.write_text(LOOPBACK_SHIM)
        arguments = ["-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
        subprocess.run([program("cc"), *arguments], check=True)
    return library


def hand_over(*paths: Path) -> list[str]:
    """XRootD refuses to run as root: gives it these files, and the arguments with which it changes its user."""
    if os.geteuid() != 0:
        return []
    for one in paths:
        shutil.chown(one, "nobody")
    return ["-R", "nobody"]


class Xrootd(Process):
    """An XRootD server, or another program of its family, with a configuration of its own."""

    def __init__(
        self,
        folder: Path,
        data: Path,
        shim: Path,
        more: str = "",
        port: int | None = None,
        kind: str = "xrootd",
        name: str = "test",
        host: str = "127.0.0.1",
    ) -> None:
        self.host = host
        port = port or free_port()
        config = folder / f"{kind}.cfg"
        config.write_text(XROOTD.format(data=data, folder=folder, port=port, more=more))
        arguments = [program(kind), "-c", str(config), "-l", str(folder / f"{kind}.log"), "-n", name, "-I", "v4"]
        arguments[1:1] = hand_over(folder, *folder.iterdir())
        environment = {"LD_PRELOAD": str(shim), "LOOPBACK_ADDRESS": host}
        super().__init__(arguments, lambda: answers(port, host), folder / f"{kind}-output.log", environment)
        self.port = port


def xrootd_with_http(folder: Path, data: Path, shim: Path) -> tuple[Xrootd, int]:
    """A lone server, and its HTTP port."""
    port = free_port()
    return Xrootd(folder, data, shim, HTTP.format(port=port)), port


def xrootd_with_tls(
    folder: Path, data: Path, shim: Path, certificates: Path, when: str = "capable", more: str = ""
) -> Xrootd:
    """A lone server that can do TLS, or must for what `when` says."""
    own_key = certificates / "xrootd-key.pem"
    shutil.copy(certificates / "key.pem", own_key)
    own_key.chmod(0o600)
    hand_over(own_key)
    return Xrootd(folder, data, shim, TLS.format(certificates=certificates, when=when) + more)


CLUSTER = """
all.role {role}
all.manager localhost:{manager_port}
cms.delay startup 1 lookup 1 full 1 suspend 1 servers 1
cms.allow host *
cms.space 100m 50m
"""


def opens(url: str) -> bool:
    try:
        return Store(url).size_bytes > 0
    except OSError:
        return False


class XrootdCluster:
    """A redirector and two data servers with the same files: six processes, ready after about two seconds."""

    def __init__(self, folder: Folder, data: Path, shim: Path) -> None:
        manager_port = free_port()
        self.processes: list[Xrootd] = []
        self.servers: list[Xrootd] = []
        for number, name in enumerate(("redirector", "one", "two"), start=1):
            own = folder.below(name)
            role = "manager" if name == "redirector" else "server"
            more = CLUSTER.format(role=role, manager_port=manager_port)
            cmsd_port = manager_port if role == "manager" else None
            host = f"127.0.0.{number}"
            cmsd = Xrootd(own, data, shim, more, port=cmsd_port, kind="cmsd", name=name, host=host)
            xrootd = Xrootd(own, data, shim, more, name=name, host=host)
            self.processes += [cmsd, xrootd]
            self.servers.append(xrootd)
        self.redirector, *self.servers = self.servers

    def start(self) -> None:
        """Starts all, and waits until a file is found, which at first is answered with a wait."""
        # The cmsd of a data server listens to nobody.
        for one in self.processes:
            one.start(waits=False)
        end_s = time.monotonic() + START_TIMEOUT_S
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("BRANCHLINE_STORAGE_WAIT", "0")
            patch.setenv("BRANCHLINE_STORAGE_TRIES", "1")
            for server in (self.redirector, *self.servers):
                while not opens(f"root://{server.host}:{server.port}//random.bin"):
                    assert time.monotonic() < end_s, "the cluster did not start"
                    time.sleep(0.1)

    def kill(self) -> None:
        for one in reversed(self.processes):
            one.kill()
