"""XRootD beyond what all stores have: limits, logins, TLS, and servers that are killed, stopped and replaced."""

from __future__ import annotations

import random
import shutil
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.stores.conftest import Served
from tests.stores.scripted_xrootd import AUTH, LOGIN, OK, answer, xrootd_script
from tests.stores.servers import Folder, Xrootd, XrootdCluster, back_soon, hand_over, program, xrootd_with_tls

import branchline
from branchline._core import Store
from branchline.errors import StorageError

AUTHENTICATED = """
xrootd.seclib libXrdSec.so
sec.protocol {protocol}
sec.protbind * only {name}
"""
TOKEN = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJtZSJ9.AAAA"

StartXrootd = Callable[..., Xrootd]


@pytest.fixture
def own_data(served: Served, own_folder: Folder) -> Path:
    data = own_folder.below("data")
    for name in ("random.bin", "events.root"):
        shutil.copy(served.data / name, data)
    return data


@pytest.fixture
def start(served: Served, own_folder: Folder, own_data: Path) -> Iterator[StartXrootd]:
    """Starts a server to do harm to, or with a configuration of its own."""
    started = []

    def call(more: str = "") -> Xrootd:
        server = Xrootd(own_folder.below("xrootd"), own_data, served.shim, more)
        started.append(server)
        server.start()
        return server

    yield call
    for one in started:
        one.kill()


def url(server: Xrootd, name: str = "random.bin", scheme: str = "root") -> str:
    return f"{scheme}://localhost:{server.port}//{name}"


def test_requests_are_as_large_as_the_server_takes_them(served: Served) -> None:
    store = Store(url(served.xrootd))
    many = [(offset, 10) for offset in range(0, 5_000_000, 1000)]
    read = store.read(many)
    assert read.contents == [served.content[at : at + size] for at, size in many]
    assert read.read_calls == 5, "1024 ranges in a request"
    wide = [(offset, 100_000) for offset in range(0, 4_800_000, 100_000)]
    read = store.read(wide)
    assert read.contents == [served.content[at : at + size] for at, size in wide]
    assert read.read_calls == 2
    assert store.read([(0, 5_000_000)]).read_calls == 2


def test_one_slash_behind_the_host_is_as_good_as_two(served: Served) -> None:
    assert Store(f"root://127.0.0.1:{served.xrootd.port}/random.bin").size_bytes == len(served.content)
    assert Store(f"xroot://me@127.0.0.1:{served.xrootd.port}///random.bin").size_bytes == len(served.content)


def test_a_server_that_was_restarted_is_read_on(start: StartXrootd, served: Served) -> None:
    server = start()
    stores = [Store(url(server)) for _ in range(3)]
    server.kill()
    with back_soon(server):
        for store in stores:
            assert store.read([(5, 1000)]).contents == [served.content[5:1005]]


def test_a_server_that_was_killed_is_an_error_soon(start: StartXrootd) -> None:
    server = start()
    store = Store(url(server))
    server.kill()
    with pytest.raises(StorageError, match=r"reading 10 bytes at offset 5 failed: .*4 tries") as raised:
        store.read([(5, 10)])
    assert raised.value.retry


def test_a_server_that_stalls_is_an_error_within_its_deadline(
    start: StartXrootd, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "1")
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "2")
    server = start()
    store = Store(url(server))
    server.pause()
    started_s = time.monotonic()
    with pytest.raises(StorageError, match="did not answer in time") as raised:
        store.read([(offset, 10) for offset in range(0, 100_000, 100)])
    with pytest.raises(StorageError, match="did not answer in time"):
        Store(url(server))
    # A deadline for each range, one after the other, would be a quarter of an hour.
    assert time.monotonic() - started_s < 40
    server.go_on()
    assert raised.value.retry
    assert store.read([(0, 10)]).contents == [served.content[:10]]


def test_a_file_that_was_replaced_is_not_mixed_with_the_old_one(start: StartXrootd, own_data: Path) -> None:
    server = start()
    store = Store(url(server))
    before = store.read([(0, 10)]).contents
    (own_data / "new.bin").write_bytes(bytes(5_000_017))
    (own_data / "new.bin").rename(own_data / "random.bin")
    assert store.read([(0, 10)]).contents == before, "an open file stays what it was"
    server.kill()
    server.start()
    with pytest.raises(StorageError, match="changed since it was opened") as raised:
        store.read([(0, 10)])
    assert not raised.value.retry


def test_another_replica_is_read_when_a_data_server_dies(served: Served, own_folder: Folder, own_data: Path) -> None:
    cluster = XrootdCluster(own_folder, own_data, served.shim)
    try:
        cluster.start()
        # The redirector shares them out.
        stores = [Store(url(cluster.redirector)) for _ in range(6)]
        tree = branchline.open(url(cluster.redirector, "events.root"))["events"]
        cluster.servers[0].kill()
        for store in stores:
            for offset in (7, 4_000_000):
                assert store.read([(offset, 1000)]).contents == [served.content[offset : offset + 1000]]
        assert len(tree["px"].array()) == 320_000
    finally:
        cluster.kill()


def test_a_login_by_unix_name(start: StartXrootd, served: Served) -> None:
    server = start(AUTHENTICATED.format(protocol="unix", name="unix"))
    assert Store(url(server)).read([(0, 10)]).contents == [served.content[:10]]


def test_a_login_by_a_shared_secret(
    start: StartXrootd, served: Served, own_folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = own_folder.path / "sss.keytab"
    make = [program("xrdsssadmin"), "-k", "test", "-u", "me", "-g", "us", "add", str(table)]
    subprocess.run(make, input=b"y\n", check=True, capture_output=True)
    own_table = tmp_path / "keys"
    shutil.copy(table, own_table)
    own_table.chmod(0o600)
    table.chmod(0o600)
    hand_over(table)
    server = start(AUTHENTICATED.format(protocol=f"sss -s {table}", name="sss"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(StorageError, match="no keytab found; set XrdSecSSSKT"):
        Store(url(server))
    monkeypatch.setenv("XrdSecSSSKT", str(own_table))
    assert Store(url(server)).read([(0, 10)]).contents == [served.content[:10]]
    text = own_table.read_text().strip()
    own_table.write_text(f"{text[:-8]}00000000\n")
    with pytest.raises(StorageError, match="sss: ") as raised:
        # Another name, or the connection that is there would be used.
        Store(url(server).replace("root://", "root://other@"))
    assert text[-50:-8] not in str(raised.value)


def test_ways_to_log_in_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "XRootD", None)

    def wants(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        return answer(stream, OK, bytes(16) + b"&P=gsi,v:10600&P=krb5,host@REALM\0") if code == LOGIN else None

    with xrootd_script(b"", wants) as (url, _, _):
        with pytest.raises(StorageError, match="requires a login with gsi or krb5; this client") as raised:
            Store(url)
        assert not raised.value.retry


def test_a_token_logs_in_over_tls_only(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is a script: XRootD's own asks an issuer on the web for what a token is worth."""
    given: list[bytes] = []

    def wants(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        if code == LOGIN:
            return answer(stream, OK, bytes(16) + b"&P=ztn,0:4096:\0")
        if code == AUTH:
            assert arguments[12:] == b"ztn\0"
            given.append(payload)
            return answer(stream, OK)
        return None

    monkeypatch.setenv("SSL_CERT_FILE", str(served.certificates / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(served.certificates / "cert.pem", served.certificates / "key.pem")
    with xrootd_script(b"hello", wants, tls=context) as (url, _, _):
        url = url.replace("root://", "roots://")
        with pytest.raises(StorageError, match="no token in BEARER_TOKEN_FILE"):
            Store(url)
        monkeypatch.setenv("BEARER_TOKEN", TOKEN)
        assert Store(url).read([(0, 5)]).contents == [b"hello"]
        (payload,) = given
        assert payload[:8] == b"ztn\0\0T\0\0"
        (length,) = struct.unpack(">H", payload[8:10])
        assert payload[10 : 10 + length] == TOKEN.encode() + b"\0"
    with xrootd_script(b"hello", wants) as (url, _, _), pytest.raises(StorageError, match="only sent over TLS"):
        Store(url)


def test_a_server_that_demands_tls_gets_it(
    served: Served, own_folder: Folder, own_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = xrootd_with_tls(own_folder.below("xrootd"), own_data, served.shim, served.certificates, when="")
    server.start()
    try:
        with pytest.raises(StorageError, match="X509_CERT_DIR") as raised:
            Store(url(server))
        assert not raised.value.retry
        monkeypatch.setenv("X509_CERT_DIR", str(served.certificates / "authorities"))
        assert Store(url(server)).read([(0, 10)]).contents == [served.content[:10]]
    finally:
        server.kill()


def test_roots_is_refused_by_a_server_without_tls(served: Served) -> None:
    with pytest.raises(StorageError, match="does not support TLS"):
        Store(url(served.xrootd, scheme="roots"))


def test_a_host_that_is_not_known_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "1")
    with pytest.raises(StorageError, match=r"the host of no-such-host\.invalid:1094 is unknown") as raised:
        Store("root://no-such-host.invalid//f.root")
    assert raised.value.retry


def test_something_else_than_xrootd_is_an_error(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "0.5")
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "1")
    for port in (served.nginx.port, served.nginx.tls_port, served.xrootd_http_port):
        with pytest.raises(StorageError):
            Store(f"root://127.0.0.1:{port}//random.bin")


def connections_to(server: Xrootd) -> int:
    """Connections of this machine that the server has now."""
    port = f":{server.port:04X}"
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    return sum(line[1].endswith(port) and line[3] == "01" for line in lines)


@pytest.mark.parametrize("streams", [1, 4])
def test_a_large_read_comes_over_as_many_streams_as_are_chosen(
    start: StartXrootd, own_data: Path, streams: int
) -> None:
    content = random.Random(5).randbytes(40_000_001)
    (own_data / "large.bin").write_bytes(content)
    (own_data / "large.bin").chmod(0o644)
    server = start()
    store = Store(url(server, "large.bin"), access=branchline.Access(streams=streams))
    assert store.read([(5, 10)]).contents == [content[5:15]]
    assert connections_to(server) == 1, "a small read takes one"
    ranges = [(0, 30_000_000), (39_000_000, 1_000_001), (17, 100)]
    assert store.read(ranges).contents == [content[at : at + size] for at, size in ranges]
    assert connections_to(server) == streams
    server.kill()
    with back_soon(server):
        assert store.read(ranges).contents == [content[at : at + size] for at, size in ranges]
