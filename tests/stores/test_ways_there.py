"""On the way to a server: names with several addresses of which some are dead, IPv6, and proxies of the environment."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from tests.stores.conftest import Served
from tests.stores.scripted import scripted

from branchline._core import Store

# The system's own way to look up names knows one more: `several.test`, whose addresses the environment has.
NAMES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

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
"""
READ = """
import sys, threading, time
from branchline._core import Store

def read(number):
    store = Store(sys.argv[1])
    started_s = time.monotonic()
    assert len(b"".join(store.read([(at, 1000) for at in range(0, 4_000_000, 100_000)])[0])) == 40_000

started_s = time.monotonic()
read(0)
first_s = time.monotonic() - started_s
threads = [threading.Thread(target=read, args=(number,)) for number in range(3)]
for one in threads:
    one.start()
for one in threads:
    one.join()
print(first_s, time.monotonic() - started_s - first_s)
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
        listener = stack.enter_context(socket.socket())
        listener.bind((address, port))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect((address, port))
        yield


def read_by_name(url: str, addresses: str, names: Path) -> tuple[float, float]:
    environment = {**os.environ, "LD_PRELOAD": str(names), "ADDRESSES": addresses, "BRANCHLINE_STORAGE_TIMEOUT": "3"}
    done = subprocess.run([sys.executable, "-c", READ, url], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    first_s, others_s = map(float, done.stdout.split())
    return first_s, others_s


@pytest.fixture(params=["http", "root"])
def at(request: pytest.FixtureRequest, served: Served) -> tuple[str, int]:
    port = {"http": served.nginx.port, "root": served.xrootd.port}[request.param]
    return {"http": "http://{}:{}/random.bin", "root": "root://{}:{}//random.bin"}[request.param], port


def test_an_address_that_refuses_is_left_for_the_next(at: tuple[str, int], names: Path) -> None:
    url, port = at
    read_by_name(url.format("several.test", port), "127.0.0.77,127.0.0.1", names)


def test_an_address_that_is_silent_costs_one_wait_and_not_one_for_each_connection(
    at: tuple[str, int], names: Path
) -> None:
    url, port = at
    with silent("127.0.0.78", port):
        first_s, others_s = read_by_name(url.format("several.test", port), "127.0.0.78,127.0.0.1", names)
    assert others_s < first_s


@contextmanager
def relay(family: socket.AddressFamily, address: str, port: int) -> Iterator[int]:
    """Passes connections on to a port of the loopback of IPv4."""
    listener = socket.create_server((address, 0), family=family)

    def pump(one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while received := one.recv(65536):
                other.sendall(received)
        with suppress(OSError):
            other.shutdown(socket.SHUT_WR)

    def run() -> None:
        with suppress(OSError):
            while True:
                inner, _ = listener.accept()
                outer = socket.create_connection(("127.0.0.1", port))
                for pair in ((inner, outer), (outer, inner)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=run, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def test_servers_of_ipv6_are_read(at: tuple[str, int], served: Served) -> None:
    url, port = at
    with relay(socket.AF_INET6, "::1", port) as there:
        store = Store(url.format("[::1]", there))
        assert store.read([(5, 1000), (4_000_000, 10)])[0] == [served.content[5:1005], served.content[4_000_000:4_000_010]]
        assert "[::1]" in store.name
