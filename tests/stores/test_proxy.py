"""The proxy that makes a link slow and unreliable: every byte arrives, never too early, and faults as asked for."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.patience import HANG_S
from tests.stores.scripted import Scripted, scripted
from tests.stores.scripted_xrootd import OK, answer, xrootd_script

from branchline._core import Proxy
from branchline.reading.datasets.dataset import Dataset

LOCATE, LIST = 3027, 3004

BLOCK = bytes(range(256)) * 4096


def answering(_: int, connection: socket.socket) -> None:
    """Answers each request, a number of bytes in 8 digits, with so many bytes."""
    while request := connection.recv(8, socket.MSG_WAITALL):
        wanted = int(request)
        while wanted:
            wanted -= connection.send(BLOCK[: min(wanted, len(BLOCK))])


@contextmanager
def proxied(throttle: str, fault: str | None = None) -> Iterator[tuple[Proxy, Scripted]]:
    with scripted(answering) as server:
        proxy = Proxy("127.0.0.1:0", f"127.0.0.1:{server.port}", throttle, fault)
        try:
            yield proxy, server
        finally:
            proxy.close()


def ask(connection: socket.socket, size: int) -> bytes:
    connection.sendall(b"%08d" % size)
    received = bytearray()
    while len(received) < size:
        more = connection.recv(1 << 20)
        if not more:
            break
        received += more
    return bytes(received)


def connected(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=HANG_S)


def test_every_byte_arrives_and_is_counted() -> None:
    with proxied("latency=2ms,jitter=3ms,seed=1") as (proxy, server):
        with connected(proxy) as one, connected(proxy) as other:
            for connection in (one, other):
                received = ask(connection, 5_000_000)
                expected = (BLOCK * 5)[:5_000_000]
                assert hashlib.sha256(received).digest() == hashlib.sha256(expected).digest()
        assert server.connections == 2
        counts = proxy.counts()
        assert (counts.connections, counts.to_server_bytes) == (2, 16)
        assert (counts.to_client_bytes, counts.faults) == (10_000_000, 0)


def test_nothing_comes_before_the_link_lets_it_through() -> None:
    with proxied("latency=40ms,bandwidth=10MB/s") as (proxy, _):
        started = time.monotonic()
        connections = [connected(proxy) for _ in range(4)]
        threads = [threading.Thread(target=ask, args=(connection, 250_000)) for connection in connections]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # A handshake, a request and its answer; and all four share the bandwidth.
        assert time.monotonic() - started >= 0.08 + 1_000_000 / 10e6
        for connection in connections:
            connection.close()


def test_a_client_that_ends_its_side_still_gets_its_answer() -> None:
    with proxied("latency=20ms") as (proxy, _), connected(proxy) as connection:
        connection.sendall(b"%08d" % 3)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(3, socket.MSG_WAITALL) == BLOCK[:3]
        assert connection.recv(1) == b""


@pytest.mark.parametrize(
    ("kind", "seen"), [("reset", "reset"), ("short", 500), ("stall", "silence"), ("hang", "silence"), ("wrong", 1)]
)
def test_the_answer_that_is_drawn_fails(kind: str, seen: object) -> None:
    with proxied("", f"{kind},after=3") as (proxy, _), connected(proxy) as connection:
        assert all(ask(connection, 1000) == BLOCK[:1000] for _ in range(3))
        if seen == "silence":
            connection.settimeout(0.3)
        assert outcome(connection) == seen
        assert proxy.counts().faults == 1


def outcome(connection: socket.socket) -> object:
    try:
        received = ask(connection, 1000)
    except ConnectionResetError:
        return "reset"
    except TimeoutError:
        return "silence"
    if len(received) < 1000:
        return len(received)
    return sum(one != other for one, other in zip(received, BLOCK[:1000], strict=True))


def test_words_that_mean_nothing_are_refused() -> None:
    for throttle, fault, named in [("latency=soon", None, "latency=soon"), ("", "stal", "stal"), ("", "", "no kind")]:
        with pytest.raises(ValueError, match=named):
            Proxy("127.0.0.1:0", "127.0.0.1:1", throttle, fault)


def test_a_server_that_is_not_there_closes_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    proxy = Proxy("127.0.0.1:0", f"127.0.0.1:{port}", "")
    with connected(proxy) as connection:
        assert connection.recv(1) == b""
    proxy.close()


def test_the_command_serves_until_it_is_interrupted() -> None:
    with scripted(answering) as server:
        command = [sys.executable, "-m", "branchline.cli", "proxy", "--to", f"127.0.0.1:{server.port}", "--latency"]
        with subprocess.Popen([*command, "1ms"], stdout=subprocess.PIPE, text=True, env=os.environ) as running:
            assert running.stdout is not None
            address = running.stdout.readline().split()[0]
            with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=HANG_S) as connection:
                assert ask(connection, 10) == BLOCK[:10]
            running.send_signal(signal.SIGINT)
            last = running.stdout.read()
            assert running.wait(20) == 0
    assert last == "1 connection, 8 bytes to the server, 10 bytes from it, 0 faults\n"


def test_a_folder_is_listed_through_it_though_its_server_has_another_name() -> None:
    def name_itself(_: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        if code == LOCATE:
            return answer(stream, OK, b"Srbehind-the-link.invalid:1094\0")
        return answer(stream, OK, b".\n0 0 0 0\na.root\n7 40 16 1700000000\0") if code == LIST else None

    with xrootd_script(b"", name_itself) as (_, _, server):
        proxy = Proxy("127.0.0.1:0", f"127.0.0.1:{server.port}", "")
        try:
            found = [(one.path, one.size_bytes) for one in Dataset.of(f"root://127.0.0.1:{proxy.port}//*.root")]
        finally:
            proxy.close()
    assert found == [(f"root://127.0.0.1:{proxy.port}//a.root", 40)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may take an address from a device")
def test_it_can_be_closed_when_its_address_is_gone() -> None:
    ip = shutil.which("ip") or shutil.which("ip", path="/usr/sbin:/sbin")
    if ip is None:
        pytest.skip("the program ip is missing")
    with own_address(ip) as (address, take_away):
        # Threads of an earlier proxy may still be ending.
        assert threads_end()
        proxy = Proxy(f"{address}:0", "127.0.0.1:1", "")
        take_away()
        closing = threading.Thread(target=proxy.close, daemon=True)
        closing.start()
        closing.join(5)
        assert not closing.is_alive()
        assert threads_end()


@contextmanager
def own_address(ip: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """An address that only this test has, on a device of its own, and how it is taken away."""
    device, address = f"bl{secrets.token_hex(4)}", f"10.252.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"

    def take_away() -> None:
        subprocess.run([ip, "link", "delete", device], capture_output=True, check=False)

    made = subprocess.run([ip, "link", "add", device, "type", "veth"], capture_output=True, check=False)
    if made.returncode != 0:
        pytest.skip("this machine makes no devices of networks")
    try:
        subprocess.run([ip, "address", "add", f"{address}/32", "dev", device], check=True)
        subprocess.run([ip, "link", "set", device, "up"], check=True)
        yield address, take_away
    finally:
        take_away()


def threads_end() -> bool:
    """Wait until this process has no thread of a proxy. The kernel lists a thread for a moment after its end."""
    end_s = time.monotonic() + HANG_S
    while threads_of_the_proxy() > 0:
        if time.monotonic() > end_s:
            return False
        time.sleep(0.01)
    return True


def threads_of_the_proxy() -> int:
    """Those of this process that belong to a proxy."""
    names = []
    for thread in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # it ended meanwhile
            names.append((thread / "comm").read_text().strip())
    return sum("branchline-proxy".startswith(name) for name in names)
