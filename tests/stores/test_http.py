"""HTTP beyond what all stores have: tokens, certificates, redirects, requests counted, and servers that misbehave."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.stores.conftest import Served
from tests.stores.scripted import Script, http_request, scripted
from tests.stores.servers import NGINX_TOKEN, Folder, Nginx, back_soon, grid_proxy, wait_for

import branchline
from branchline._core import Store
from branchline.errors import BranchlineError, StorageError

SECRET = "eyJhbGciOi.very.secret"


@pytest.fixture
def own_nginx(served: Served, own_folder: Folder) -> Iterator[Nginx]:
    """A server to do harm to."""
    data = own_folder.below("data")
    shutil.copy(served.data / "random.bin", data)
    nginx = Nginx(own_folder.below("nginx"), data, served.certificates)
    nginx.start()
    yield nginx
    nginx.kill()


def local(port: int, path: str) -> str:
    return f"http://127.0.0.1:{port}/{path}"


def test_a_small_file_takes_two_requests(served: Served) -> None:
    before = len(served.nginx.requests)
    tree = branchline.open(local(served.nginx.port, "small.root"))["events"]
    assert len(tree["px"].array()) == 1000
    assert len(tree.arrays()) == 1000
    wait_for(lambda: served.nginx.requests[before:], 2)
    assert len([line for line in served.nginx.requests[before:] if "small.root" in line]) == 2


def test_many_ranges_take_few_requests_where_the_server_does_several_in_one(served: Served) -> None:
    ranges = [(offset, 100) for offset in range(0, 5_000_000, 5_000)]
    several = Store(local(served.nginx.port, "random.bin")).read(ranges).read_calls
    assert several <= 10
    one_by_one = Store(local(served.nginx.port, "one-range/random.bin"))
    assert one_by_one.read(ranges).read_calls >= 1000


def test_connections_are_kept(served: Served) -> None:
    with scripted(ranges_of(bytes(100_000))) as server:
        store = Store(local(server.port, "f"))
        for offset in range(50):
            assert store.read([(offset, 10)]).contents == [bytes(10)]
        assert server.connections == 1


def test_a_token_opens_a_guarded_file(served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    url = local(served.nginx.port, "guarded/random.bin")
    with pytest.raises(StorageError, match="token"):
        Store(url)
    monkeypatch.setenv("BEARER_TOKEN", NGINX_TOKEN)
    assert Store(url).read([(0, 5)]).contents == [served.content[:5]]
    monkeypatch.delenv("BEARER_TOKEN")
    file = tmp_path / "token"
    file.write_text(f"{NGINX_TOKEN}\n")
    monkeypatch.setenv("BEARER_TOKEN_FILE", str(file))
    assert Store(url).read([(0, 5)]).contents == [served.content[:5]]
    monkeypatch.delenv("BEARER_TOKEN_FILE")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    file.rename(tmp_path / f"bt_u{os.geteuid()}")
    assert Store(url).read([(0, 5)]).contents == [served.content[:5]]
    monkeypatch.setenv("BEARER_TOKEN_FILE", str(tmp_path / "absent"))
    with pytest.raises(StorageError, match="BEARER_TOKEN_FILE"):
        Store(url)


def test_a_token_stays_with_the_host_it_is_for(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server refuses the redirected request if it has a token."""
    monkeypatch.setenv("BEARER_TOKEN", NGINX_TOKEN)
    store = Store(local(served.nginx.port, "guarded-and-moved/random.bin"))
    for offset in (0, 1000):
        assert store.read([(offset, 5)]).contents == [served.content[offset : offset + 5]]


def test_no_error_tells_a_secret(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEARER_TOKEN", SECRET)
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "1")
    query = "?authz=Bearer%20very.secret&x=1"
    for url in (
        local(served.nginx.port, f"guarded/random.bin{query}"),
        local(served.nginx.port, f"absent.root{query}"),
        local(1, f"f.root{query}"),
        f"https://me:very.secret@127.0.0.1:{served.nginx.tls_port}/f.root",
        f"gsiftp://me:very.secret@127.0.0.1/f.root{query}",
        f"http://[wrong/f.root{query}",
    ):
        for opened in (Store, branchline.open):
            with pytest.raises(BranchlineError) as raised:
                opened(url)
            error = raised.value
            assert "very.secret" not in f"{error} {error!r} {error.path} {error.hint} {error.args}"
    store = Store(local(served.nginx.port, f"random.bin{query}"))
    assert "very.secret" not in store.path
    with pytest.raises(BranchlineError) as raised:
        store.read([(2**40, 1)])
    assert "very.secret" not in str(raised.value)


def test_a_certificate_of_the_user_opens_a_file(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("X509_CERT_DIR", str(served.certificates / "authorities"))
    url = f"davs://localhost:{served.nginx.tls_port}/for-known-users/random.bin"
    with pytest.raises(StorageError, match="X509_USER_CERT"):
        Store(url)
    proxy = tmp_path / "proxy"
    proxy.write_text((served.certificates / "user.pem").read_text())
    monkeypatch.setenv("X509_USER_PROXY", str(proxy))
    with pytest.raises(StorageError, match=r"your certificate could not be sent: .* contains no unencrypted key"):
        Store(url)
    assert Store(url.replace("for-known-users/", "")).size_bytes, "nobody asks for it"
    proxy.write_text(proxy.read_text() + (served.certificates / "user-key.pem").read_text())
    assert Store(url).read([(0, 5)]).contents == [served.content[:5]]
    monkeypatch.delenv("X509_USER_PROXY")
    monkeypatch.setenv("X509_USER_CERT", str(served.certificates / "user.pem"))
    monkeypatch.setenv("X509_USER_KEY", str(served.certificates / "user-key.pem"))
    assert Store(url).read([(0, 5)]).contents == [served.content[:5]]


def test_a_proxy_of_the_grid_is_shown_to_who_asks_for_it(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The server is OpenSSL in a script, which takes proxies; nginx does not."""
    shown: list[object] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(served.certificates / "cert.pem", served.certificates / "key.pem")
    context.load_verify_locations(served.certificates / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_ALLOW_PROXY_CERTS

    def script(number: int, plain: socket.socket) -> None:
        with context.wrap_socket(plain, server_side=True) as connection:
            while (ranges := asked(connection)) is not None:
                shown.append(connection.getpeercert()["subject"])
                connection.sendall(part(bytes(100), *ranges[0]))

    monkeypatch.setenv("SSL_CERT_FILE", str(served.certificates / "ca.pem"))
    with scripted(script) as server:
        with pytest.raises(StorageError):
            Store(f"https://localhost:{server.port}/f")
        monkeypatch.setenv("X509_USER_PROXY", str(grid_proxy(tmp_path, served.certificates)))
        assert Store(f"https://localhost:{server.port}/f").read([(0, 5)]).contents == [bytes(5)]
    assert set(shown) == {((("commonName", "A user"),), (("commonName", "1"),))}


def test_a_server_that_takes_no_proxies_is_told_from_one_that_takes_nobody(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(served.certificates / "ca.pem"))
    monkeypatch.setenv("X509_USER_PROXY", str(grid_proxy(tmp_path, served.certificates)))
    with pytest.raises(StorageError, match=r"the proxy .* was sent, which some servers do not accept"):
        Store(f"https://localhost:{served.nginx.tls_port}/random.bin")


def test_an_authority_that_is_not_trusted_is_named_as_the_reason(served: Served) -> None:
    with pytest.raises(StorageError, match="X509_CERT_DIR") as raised:
        Store(f"https://localhost:{served.nginx.tls_port}/random.bin")
    assert not raised.value.retry


def test_the_folder_of_the_grid_s_authorities_is_looked_into(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copy(served.certificates / "ca.pem", tmp_path / "0123abcd.0")
    monkeypatch.setenv("X509_CERT_DIR", str(tmp_path))
    assert Store(f"davs://localhost:{served.nginx.tls_port}/random.bin").size_bytes == len(served.content)


def test_redirects_in_a_circle_end(served: Served) -> None:
    with pytest.raises(StorageError, match="too many redirects"):
        Store(local(served.nginx.port, "round/random.bin"))


def test_a_host_that_is_not_there_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "2")
    with pytest.raises(StorageError, match=r"2 tries") as raised:
        Store(local(1, "f.root"))
    assert raised.value.retry


def test_a_server_that_was_restarted_is_read_on(own_nginx: Nginx) -> None:
    store = Store(local(own_nginx.port, "random.bin"))
    before = store.read([(0, 1000)]).contents
    own_nginx.kill()
    with back_soon(own_nginx):
        assert store.read([(0, 1000)]).contents == before


def test_a_server_that_was_killed_is_an_error_soon(own_nginx: Nginx, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "2")
    store = Store(local(own_nginx.port, "random.bin"))
    own_nginx.kill()
    with pytest.raises(StorageError, match="reading 10 bytes at offset 5 failed: no connection") as raised:
        store.read([(5, 10)])
    assert raised.value.retry


def test_a_server_that_stalls_is_an_error_within_its_deadline(
    own_nginx: Nginx, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "1")
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "2")
    store = Store(local(own_nginx.port, "random.bin"))
    own_nginx.pause()
    started_s = time.monotonic()
    with pytest.raises(StorageError, match="did not answer in time") as raised:
        store.read([(offset, 10) for offset in range(0, 100_000, 100)])
    own_nginx.go_on()
    assert raised.value.retry
    # A deadline for each range, one after the other, would be a quarter of an hour.
    assert time.monotonic() - started_s < 40
    assert store.read([(0, 10)]).read_calls == 1


def test_a_file_that_was_replaced_is_not_mixed_with_the_old_one(own_nginx: Nginx, own_folder: Folder) -> None:
    data = own_folder.below("data")
    os.utime(data / "random.bin", (1e9, 1e9))
    store = Store(local(own_nginx.port, "random.bin"))
    (data / "new.bin").write_bytes(bytes(5_000_017))
    (data / "new.bin").rename(data / "random.bin")
    with pytest.raises(StorageError, match="changed since it was opened") as raised:
        store.read([(0, 10)])
    assert not raised.value.retry
    # Several ranges come in one answer of several parts.
    with pytest.raises(StorageError, match="changed since it was opened"):
        store.read([(0, 10), (4_000_000, 10)])


def test_a_file_behind_a_redirector_that_was_replaced_is_not_mixed_with_the_old_one(
    own_nginx: Nginx, own_folder: Folder
) -> None:
    """A file of the same size: only what the server behind the redirector calls its version says so."""
    data = own_folder.below("data")
    os.utime(data / "random.bin", (1e9, 1e9))
    store = Store(local(own_nginx.port, "moved/random.bin"))
    before = (data / "random.bin").read_bytes()
    assert store.read([(0, 10)]).contents == [before[:10]]
    (data / "new.bin").write_bytes(bytes(len(before)))
    (data / "new.bin").rename(data / "random.bin")
    for ranges in ([(1000, 10)], [(1000, 10), (4_000_000, 10)]):
        with pytest.raises(StorageError, match="changed since it was opened") as raised:
            store.read(ranges)
        assert not raised.value.retry


def test_servers_behind_a_redirector_may_name_a_version_differently() -> None:
    """Each is compared with itself; the second takes over when the first is gone."""
    content = bytes(range(250)) * 400

    def serving(tags: list[str]) -> Script:
        def script(number: int, connection: socket.socket) -> None:
            while tags and (ranges := asked(connection)) is not None:
                tag = f'ETag: "{tags.pop(0)}"'
                connection.sendall(part(content, *ranges[0]).replace(b"\r\n", f"\r\n{tag}\r\n".encode(), 1))

        return script

    with scripted(serving(["a", "a"])) as one, scripted(serving(["b", "b", "c"])) as two:

        def redirect(number: int, connection: socket.socket) -> None:
            place = f"Location: http://127.0.0.1:{(two if number else one).port}/f"
            while asked(connection) is not None:
                connection.sendall(answer("302 Found", place, "Content-Length: 0", "Connection: close"))
                return

        with scripted(redirect) as redirector:
            store = Store(local(redirector.port, "f"))
            for offset in (1000, 2000, 3000):
                assert store.read([(offset, 7)]).contents == [content[offset : offset + 7]]
            with pytest.raises(StorageError, match="changed since it was opened"):
                store.read([(4000, 7)])


def answer(status: str, *headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode() + body


def part(content: bytes, first: int, last: int) -> bytes:
    body = content[first : last + 1]
    return answer(
        "206 Partial Content",
        f"Content-Range: bytes {first}-{last}/{len(content)}",
        f"Content-Length: {len(body)}",
        body=body,
    )


def asked(connection: socket.socket) -> list[tuple[int, int]] | None:
    """First and last byte of each range of the next request."""
    request = http_request(connection)
    if request is None:
        return None
    pairs = (pair.split("-") for pair in request["range"].removeprefix("bytes=").split(","))
    return [(int(first), int(last)) for first, last in pairs]


def ranges_of(content: bytes) -> Script:
    """A server that answers with the first range of each request."""

    def script(number: int, connection: socket.socket) -> None:
        while (ranges := asked(connection)) is not None:
            connection.sendall(part(content, *ranges[0]))

    return script


def test_a_server_that_answers_with_the_first_of_several_ranges_is_asked_for_each() -> None:
    content = bytes(range(250)) * 400
    with scripted(ranges_of(content)) as server:
        store = Store(local(server.port, "f"))
        ranges = [(offset, 7) for offset in range(0, 90_000, 1000)]
        assert store.read(ranges).contents == [content[at : at + size] for at, size in ranges]


def test_parts_in_another_order_joined_or_left_out_are_asked_for_again() -> None:
    content = bytes(range(250)) * 400

    def script(number: int, connection: socket.socket) -> None:
        while (ranges := asked(connection)) is not None:
            if len(ranges) == 1:
                connection.sendall(part(content, *ranges[0]))
                continue
            given = [*reversed(ranges[2:]), (ranges[0][0], ranges[1][1])]
            body = (
                b"".join(
                    b"\r\n--B\r\nContent-Range: bytes %d-%d/%d\r\n\r\n%b" % (a, b, len(content), content[a : b + 1])
                    for a, b in given
                )
                + b"\r\n--B--\r\n"
            )
            kind = "Content-Type: multipart/byteranges; boundary=B"
            connection.sendall(answer("206 Partial Content", kind, f"Content-Length: {len(body)}", body=body))

    with scripted(script) as server:
        store = Store(local(server.port, "f"))
        ranges = [(offset, 7) for offset in range(0, 90_000, 1000)]
        assert store.read(ranges).contents == [content[at : at + size] for at, size in ranges]


def test_an_answer_that_was_cut_or_refused_for_a_while_is_asked_for_again() -> None:
    content = bytes(range(250)) * 400

    def script(number: int, connection: socket.socket) -> None:
        while (ranges := asked(connection)) is not None:
            whole = part(content, *ranges[0])
            if number == 1:
                connection.sendall(whole[:-100])
                return
            if number == 2:
                connection.sendall(answer("503 Service Unavailable", "Content-Length: 0"))
                return
            connection.sendall(whole)
            if number == 0:
                return

    with scripted(script) as server:
        store = Store(local(server.port, "f"))
        assert store.read([(1000, 50_000)]).contents == [content[1000:51_000]]
        assert server.connections == 4


WRONG_ANSWERS = {
    "other bytes": answer("206 P", "Content-Range: bytes 7-16/100000", "Content-Length: 10", body=bytes(10)),
    "no range": answer("206 P", "Content-Length: 10", body=bytes(10)),
    "too short": answer("206 P", "Content-Range: bytes 5-14/100000", "Content-Length: 3", body=bytes(3)),
    "too long": answer("206 P", "Content-Range: bytes 5-14/100000", "Content-Length: 30", body=bytes(30)),
    "another size": answer("206 P", "Content-Range: bytes 5-14/9", "Content-Length: 10", body=bytes(10)),
    "no HTTP": b"\x00\xff" * 1000,
    "a redirect to nowhere": answer("302 Found", "Content-Length: 0"),
    "a redirect to a file": answer("302 Found", "Location: file:///etc/passwd", "Content-Length: 0"),
    "headers without end": b"HTTP/1.1 206 P\r\n" + b"X: y\r\n" * 200_000,
    "nothing": b"",
    "chunks that lie": answer(
        "206 P", "Content-Range: bytes 5-14/100000", "Transfer-Encoding: chunked", body=b"ffffffffffffffff\r\n"
    ),
    "teapot": answer("418 I am a teapot", "Content-Length: 0"),
}


@pytest.mark.parametrize("name", list(WRONG_ANSWERS))
def test_wrong_answers_are_errors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "2")

    def script(number: int, connection: socket.socket) -> None:
        while (ranges := asked(connection)) is not None:
            if ranges == [(0, 0)]:
                connection.sendall(part(bytes(100_000), 0, 0))
            else:
                connection.sendall(WRONG_ANSWERS[name])
                return

    with scripted(script) as server:
        store = Store(local(server.port, "f"))
        with pytest.raises(StorageError):
            store.read([(5, 10)])


def test_bytes_that_trickle_end_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "0.3")
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "1")

    def script(number: int, connection: socket.socket) -> None:
        while (ranges := asked(connection)) is not None:
            whole = part(bytes(100_000), *ranges[0])
            for at in range(len(whole)):
                connection.sendall(whole[at : at + 1])
                if ranges != [(0, 0)]:
                    time.sleep(0.05)

    with scripted(script) as server:
        store = Store(local(server.port, "f"))
        # Without a deadline the read would succeed in the end.
        with pytest.raises(StorageError, match="did not answer in time"):
            store.read([(5, 300)])


def test_a_size_that_lies_takes_no_memory() -> None:
    def script(number: int, connection: socket.socket) -> None:
        while (ranges := asked(connection)) is not None:
            first, last = ranges[0]
            length = f"Content-Length: {last - first + 1}"
            connection.sendall(answer("206 P", f"Content-Range: bytes {first}-{last}/{2**63}", length, body=b"x"))

    with scripted(script) as server:
        store = Store(local(server.port, "f"))
        with pytest.raises(StorageError, match="not enough memory") as raised:
            store.read([(0, 2**62)])
        assert not raised.value.retry
