"""On the way to a server: names with several addresses of which some are dead, IPv6, and proxies of the environment."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from tests.stores.conftest import Served
from tests.stores.scripted import scripted

from branchline._core import Store

# The system's own way to look up names knows one more: `several.test`, whose addresses the environment has. A dot is
# added to the file COUNTS for each connection that is tried to the address COUNTED.
NAMES = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int (*connecting)(int, const struct sockaddr *, socklen_t);
typedef int (*lookup)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result) {
    lookup next = (lookup)dlsym(RTLD_NEXT, "getaddrinfo");
    struct addrinfo *first = NULL, **end = &first;
    char addresses[256] = "";
    if (!node || strcmp(node, "several.test")) return next(node, service, hints, result);
    strncpy(addresses, getenv("ADDRESSES"), sizeof addresses - 1);
    for (char *one = strtok(addresses, ","); one; one = strtok(NULL, ",")) {
        int failed = next(one, service, hints, end);
        if (failed) return failed;
        while (*end) end = &(*end)->ai_next;
    }
    *result = first;
    return 0;
}

int connect(int socket, const struct sockaddr *address, socklen_t length) {
    const char *counted = getenv("COUNTED"), *counts = getenv("COUNTS");
    struct in_addr wanted;
    if (counted && counts && address->sa_family == AF_INET && inet_pton(AF_INET, counted, &wanted) == 1 &&
        ((const struct sockaddr_in *)address)->sin_addr.s_addr == wanted.s_addr) {
        int file = open(counts, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (file < 0 || write(file, ".", 1) != 1) abort();
        close(file);
    }
    return ((connecting)dlsym(RTLD_NEXT, "connect"))(socket, address, length);
}
"""
READ = """
import sys, threading
from branchline._core import Store

def read(number):
    store = Store(sys.argv[1])
    assert len(b"".join(store.read([(at, 1000) for at in range(0, 4_000_000, 100_000)]).contents)) == 40_000

read(0)
threads = [threading.Thread(target=read, args=(number,)) for number in range(3)]
for one in threads:
    one.start()
for one in threads:
    one.join()
"""


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    (folder / "names.c").write_text(NAMES)
    library = folder / "names.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, folder / "names.c", "-ldl"], check=True)
    return library


@contextmanager
def silent(address: str, port: int) -> Iterator[None]:
    """An address where connections are neither made nor refused, as that of a machine which is off."""
    with ExitStack() as stack:
        # It allows another socket at its port: those that the servers of these tests listen on are reserved.
        stack.enter_context(socket.create_server((address, port), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect((address, port))
        yield


def read_by_name(url: str, addresses: str, names: Path, **variables: str) -> None:
    environment = {**os.environ, "LD_PRELOAD": str(names), "ADDRESSES": addresses, **variables}
    environment["BRANCHLINE_STORAGE_TIMEOUT"] = "3"
    done = subprocess.run(
        [sys.executable, "-c", READ, url], env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(params=["http", "root"])
def at(request: pytest.FixtureRequest, served: Served) -> tuple[str, int]:
    port = {"http": served.nginx.port, "root": served.xrootd.port}[request.param]
    return {"http": "http://{}:{}/random.bin", "root": "root://{}:{}//random.bin"}[request.param], port


def test_an_address_that_refuses_is_left_for_the_next(at: tuple[str, int], names: Path) -> None:
    url, port = at
    read_by_name(url.format("several.test", port), "127.0.0.77,127.0.0.1", names)


def test_an_address_that_is_silent_costs_one_wait_and_not_one_for_each_connection(
    at: tuple[str, int], names: Path, tmp_path: Path
) -> None:
    url, port = at
    counts = tmp_path / "counts"
    with silent("127.0.0.78", port):
        read_by_name(
            url.format("several.test", port),
            "127.0.0.78,127.0.0.1",
            names,
            COUNTED="127.0.0.78",
            COUNTS=str(counts),
        )
    assert counts.read_text() == "."


def pump(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while received := one.recv(65536):
            other.sendall(received)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)


def pass_on(inner: socket.socket, outer: socket.socket) -> None:
    with inner, outer:
        back = threading.Thread(target=pump, args=(outer, inner), daemon=True)
        back.start()
        pump(inner, outer)
        back.join(10)


@contextmanager
def relay(family: socket.AddressFamily, address: str, port: int) -> Iterator[int]:
    """Passes connections on to a port of the loopback of IPv4."""
    listener = socket.create_server((address, 0), family=family)

    def run() -> None:
        with suppress(OSError):
            while True:
                inner, _ = listener.accept()
                outer = socket.create_connection(("127.0.0.1", port))
                threading.Thread(target=pass_on, args=(inner, outer), daemon=True).start()

    threading.Thread(target=run, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def test_servers_of_ipv6_are_read(at: tuple[str, int], served: Served) -> None:
    url, port = at
    with relay(socket.AF_INET6, "::1", port) as there:
        store = Store(url.format("[::1]", there))
        assert store.read([(5, 1000), (4_000_000, 10)]).contents == [
            served.content[5:1005],
            served.content[4_000_000:4_000_010],
        ]
        assert "[::1]" in store.name


@contextmanager
def proxy(is_open: bool = True) -> Iterator[tuple[str, list[str]]]:
    """A proxy that makes connections, if it is open, and what it was asked for."""
    asked: list[str] = []

    def serve(_: int, connection: socket.socket) -> None:
        received = b""
        while b"\r\n\r\n" not in received:
            received += connection.recv(65536) or b"\r\n\r\n"
        asked.append(received.decode().partition("\r")[0])
        if not is_open:
            connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return
        outer = socket.create_connection(("127.0.0.1", int(asked[-1].split()[1].rpartition(":")[2])))
        connection.sendall(b"HTTP/1.1 200 Established\r\n\r\n")
        pass_on(connection, outer)

    with scripted(serve) as server:
        yield f"http://me:Zx81Secret@127.0.0.1:{server.port}", asked


def read_with(names: Path, url: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LD_PRELOAD": str(names), "ADDRESSES": "127.0.0.1", **variables}
    environment |= {"BRANCHLINE_STORAGE_TIMEOUT": "5", "BRANCHLINE_STORAGE_TRIES": "1"}
    return subprocess.run(
        [sys.executable, "-c", READ, url], env=environment, capture_output=True, text=True, timeout=280
    )


def test_a_proxy_of_the_environment_is_asked_for_what_it_is_for(names: Path, served: Served) -> None:
    url = f"http://several.test:{served.nginx.port}/random.bin"
    with proxy() as (at, asked):
        assert read_with(names, url, http_proxy=at).returncode == 0
        assert asked
        assert set(asked) == {f"CONNECT several.test:{served.nginx.port} HTTP/1.1"}
        asked.clear()
        for others in ({"https_proxy": at}, {"http_proxy": at, "no_proxy": "other,.test"}):
            assert read_with(names, url, **others).returncode == 0
        # As it is read from the machine of the proxy itself.
        local = url.replace("several.test", "localhost")
        assert read_with(names, local, ALL_PROXY=at).returncode == 0
        assert not asked
        # A proxy for pages of the web is none for a storage that is secure.
        secure = f"https://several.test:{served.nginx.port}/random.bin"
        assert "several.test" in read_with(names, secure, http_proxy=at).stderr
        assert not asked


def test_a_proxy_that_refuses_is_named_without_its_password(names: Path, served: Served) -> None:
    with proxy(is_open=False) as (at, asked):
        failed = read_with(names, f"http://several.test:{served.nginx.port}/random.bin", HTTP_PROXY=at)
        assert asked
    assert "proxy" in failed.stderr.splitlines()[-1]
    assert "Zx81Secret" not in failed.stderr
