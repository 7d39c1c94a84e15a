"""Answers that HTTP allows and few servers give: sizes that are not known, whole files, redirects, waits, web pages."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.stores.conftest import Served
from tests.stores.scripted import HttpRequest, HttpServer, Scripted, http_answer, scripted
from tests.stores.servers import wait_for

import branchline
from branchline._core import Store, take_troubles
from branchline.errors import BadFileError, MissingFileError, StorageError
from branchline.reading.datasets.dataset import Dataset

CONTENT = bytes(range(250)) * 8_000
SMALL = CONTENT[:100_000]
LOGIN = b"<!DOCTYPE html><html><head><title>Sign in to CERN</title></head>" + b"<p>text</p>" * 1000


def url_of(server: Scripted, target: str = "f.root") -> str:
    return f"http://127.0.0.1:{server.port}/{target}"


def part(request: HttpRequest, content: bytes, size: str | None = None, *headers: str) -> bytes:
    """The answer to a request for one range."""
    span = request.span()
    assert span is not None
    body = content[span.start : span.stop]
    where = f"Content-Range: bytes {span.start}-{span.start + len(body) - 1}/{size or len(content)}"
    return http_answer("206 Partial Content", where, *headers, body=body)


def chunked(content: bytes, *headers: str) -> bytes:
    pieces = [content[at : at + 30_000] for at in range(0, len(content), 30_000)]
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    return http_answer("200 OK", "Transfer-Encoding: chunked", *headers, body=body)


# Sizes that are not known.


@pytest.mark.parametrize("head", ["sized", "403", "405", "501", "unsized", "zero", "closes"])
def test_a_part_of_a_file_of_unknown_size_is_accepted_and_the_size_taken_from_elsewhere(head: str) -> None:
    def answer(request: HttpRequest) -> bytes:
        if request.method == "HEAD":
            return {
                "sized": http_answer("200 OK", f"Content-Length: {len(CONTENT)}"),
                "unsized": http_answer("200 OK", "Transfer-Encoding: chunked"),
                "zero": http_answer("200 OK"),
                "closes": b"",
            }.get(head) or http_answer(f"{head} No")
        return part(request, CONTENT, "*") if request.span() else http_answer("200 OK", body=CONTENT)

    with scripted(server := HttpServer(answer)) as served:
        store = Store(url_of(served))
        assert store.size_bytes == len(CONTENT)
        assert store.read([(1000, 10), (999_990, 10)]).contents == [CONTENT[1000:1010], CONTENT[999_990:1_000_000]]
        with pytest.raises(BadFileError, match="ends at"):
            store.read([(len(CONTENT) - 5, 10)])
    assert server.count("HEAD") == 1


def test_parts_of_unknown_size_in_one_answer_are_accepted() -> None:
    def answer(request: HttpRequest) -> bytes:
        if request.method == "HEAD":
            return http_answer("200 OK", f"Content-Length: {len(CONTENT)}")
        if request.span():
            return part(request, CONTENT, "*")
        spans = [pair.split("-") for pair in request.headers["range"].removeprefix("bytes=").split(",")]
        body = b"".join(
            b"\r\n--B\r\nContent-Range: bytes %b-%b/*\r\n\r\n%b"
            % (first.encode(), last.encode(), CONTENT[int(first) : int(last) + 1])
            for first, last in spans
        )
        kind = "Content-Type: multipart/byteranges; boundary=B"
        return http_answer("206 Partial Content", kind, body=body + b"\r\n--B--\r\n")

    with scripted(HttpServer(answer)) as served:
        ranges = [(offset, 7) for offset in range(0, 90_000, 1000)]
        read = Store(url_of(served)).read(ranges)
    assert read.contents == [CONTENT[at : at + size] for at, size in ranges]
    assert read.read_calls == 1


def test_a_file_of_unknown_size_that_is_replaced_between_two_answers_is_refused() -> None:
    def answer(request: HttpRequest) -> bytes:
        if request.method == "HEAD":
            return http_answer("200 OK", f"Content-Length: {len(SMALL)}", 'ETag: "two"')
        return part(request, CONTENT, "*", 'ETag: "one"')

    with scripted(HttpServer(answer)) as served, pytest.raises(StorageError, match="two versions"):
        Store(url_of(served))


# Servers without ranges.


@pytest.mark.parametrize("content", [SMALL, CONTENT], ids=["small", "large"])
@pytest.mark.parametrize("how", ["200", "203", "416", "chunked", "until the end"])
def test_a_server_without_ranges_sends_the_whole_file_once(how: str, content: bytes) -> None:
    def answer(request: HttpRequest) -> bytes:
        if how == "416" and "range" in request.headers:
            return http_answer("416 No")
        if request.method == "HEAD":
            return http_answer("405 No")
        if how == "chunked":
            return chunked(content)
        if how == "until the end":
            return b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + content
        return http_answer("203 Non-Authoritative" if how == "203" else "200 OK", body=content)

    with scripted(server := HttpServer(answer, closes=how == "until the end")) as served:
        store = Store(url_of(served))
        assert store.size_bytes == len(content)
        first = store.read([(0, 10), (50_000, 10)])
        assert first.contents == [content[:10], content[50_000:50_010]]
        # The whole file, which one request brought.
        assert (first.read_calls, first.bytes_read) == (1, len(content))
        again = store.read([(60_000, 1000), (10, 5)])
        assert again.contents == [content[60_000:61_000], content[10:15]]
        assert (again.read_calls, again.bytes_read) == (0, 0)
        whole = sum("range" not in one.headers and one.method == "GET" for one in server.requests)
    assert whole <= 2
    assert len(server.requests) <= 4


def test_a_server_that_sends_the_whole_file_later_is_read_on() -> None:
    """A range is a wish that a server may always ignore."""

    def answer(request: HttpRequest) -> bytes:
        if len(server.requests) <= 2:
            return part(request, CONTENT, None, 'ETag: "one"')
        return http_answer("200 OK", f'ETag: "{tag}"', body=CONTENT)

    for tag in ("one", "two"):
        with scripted(server := HttpServer(answer)) as served:
            store = Store(url_of(served))
            assert store.read([(100, 10)]).contents == [CONTENT[100:110]]
            if tag == "two":
                with pytest.raises(StorageError, match="changed"):
                    store.read([(1000, 10)])
            else:
                ranges = [(offset, 10) for offset in range(0, 1_000_000, 50_000)]
                assert store.read(ranges).contents == [CONTENT[at : at + 10] for at, _ in ranges]
                assert sum("range" not in one.headers for one in server.requests) == 1


@pytest.mark.parametrize("access", ["planned", "plain", "cache", "prefetch", "stage"])
def test_every_access_reads_from_a_server_without_ranges(access: str, served: Served, tmp_path: Path) -> None:
    expected = branchline.open(str(served.data / "events.root"))["events"].arrays()
    before = len(served.nginx.ranges)
    url = f"http://127.0.0.1:{served.nginx.port}/no-ranges/events.root"
    chosen = branchline.Access(mode=access, stage_dir=str(tmp_path))
    tree = branchline.open(url, access=chosen)["events"]
    arrays = tree.arrays()
    assert arrays.px.tolist() == expected.px.tolist()
    assert arrays.pt.tolist() == expected.pt.tolist()
    size = (served.data / "events.root").stat().st_size
    wait_for(lambda: [line for line in served.nginx.ranges[before:] if line.split()[1] == str(size)], 1)
    whole = [line for line in served.nginx.ranges[before:] if line.split()[1] == str(size)]
    # One more was ended when the first bytes showed that it is the whole file.
    assert len(whole) <= 2
    assert len(served.nginx.ranges[before:]) <= 3


def test_a_whole_file_that_does_not_fit_is_refused_with_its_size(tmp_path: Path) -> None:
    size = 2**60

    def answer(request: HttpRequest) -> bytes:
        return http_answer("200 OK", f"Content-Length: {size}", body=bytes(10_000))

    with scripted(server := HttpServer(answer)) as served:
        store = Store(url_of(served), branchline.Access(stage_dir=str(tmp_path)))
        with pytest.raises(StorageError, match=rf"only as a whole, {size} bytes, and {tmp_path} has only") as raised:
            store.read([(0, 10)])
        assert not raised.value.retry
        assert "TMPDIR" in str(raised.value)
    assert len(server.requests) == 2
    assert not list(tmp_path.iterdir())


def test_a_whole_file_that_is_cut_is_requested_again() -> None:
    for whole in (http_answer("200 OK", body=CONTENT), chunked(CONTENT)):

        def answer(request: HttpRequest, whole: bytes = whole) -> bytes:
            return whole[:-1000] if len(server.requests) == 2 else whole

        with scripted(server := HttpServer(answer, closes=True)) as served:
            store = Store(url_of(served))
            assert store.read([(len(CONTENT) - 10, 10)]).contents == [CONTENT[-10:]]


@pytest.mark.parametrize("status", ["200 OK", "206 Partial Content"])
def test_bytes_that_are_compressed_on_their_way_are_refused(status: str) -> None:
    def answer(request: HttpRequest) -> bytes:
        assert request.headers["accept-encoding"] == "identity"
        return http_answer(status, "Content-Encoding: gzip", f"Content-Range: bytes 0-0/{len(CONTENT)}", body=b"\x1f")

    with scripted(HttpServer(answer)) as served, pytest.raises(StorageError, match="Content-Encoding gzip"):
        Store(url_of(served))


# Redirects.


def test_locations_without_their_escapes_and_relative_ones_are_followed() -> None:
    for location, target in (
        ("/data/run 1/f<1>.root", "/data/run%201/f%3C1%3E.root"),
        ("http://127.0.0.1:{port}/r\xe9sum\xe9 2.root", "/r%E9sum%E9%202.root"),
        ("//127.0.0.1:{port}/f 3", "/f%203"),
        ("../other/f 4", "/other/f%204"),
        ("?x=a b", "/data/f.root?x=a%20b"),
    ):

        def answer(request: HttpRequest, location: str = location, target: str = target) -> bytes:
            if request.target == "/data/f.root":
                return http_answer("302 Found", f"Location: {location.format(port=served.port)}", body=b"moved")
            assert request.target == target
            return part(request, CONTENT)

        with scripted(server := HttpServer(answer)) as served:
            store = Store(url_of(served, "data/f.root"))
            assert store.read([(1000, 10)]).contents == [CONTENT[1000:1010]]
            # Further ranges are requested from there.
            assert [one.target for one in server.requests] == ["/data/f.root", target, target]
            assert served.connections == 1


def test_the_error_after_a_redirect_names_the_server_that_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "1")
    for said, message in (
        (http_answer("404 No"), "there is no such file at {other}"),
        (http_answer("403 No"), "{other} does not let you read it"),
        (http_answer("500 No"), "{other} refused the request with status 500"),
        (http_answer("204 No Content"), "{other} sent no file, but answered with status 204"),
        (b"nonsense\r\n\r\n", "{other} answered with invalid HTTP"),
        (b"", "{other} closed the connection"),
    ):
        with (
            scripted(HttpServer(lambda _, said=said: said, closes=True)) as second,  # type: ignore[misc]
            scripted(HttpServer(lambda _: http_answer("307 T", f"Location: {url_of(second, 'g')}"))) as first,
        ):
            with pytest.raises((StorageError, MissingFileError)) as raised:
                Store(url_of(first))
            other = f"127.0.0.1:{second.port} (redirected by 127.0.0.1:{first.port})"
            assert message.format(other=other) in str(raised.value)
            assert url_of(first) in str(raised.value)


def test_a_redirect_in_a_circle_takes_a_few_requests() -> None:
    with scripted(server := HttpServer(lambda _: http_answer("301 M", "Location: again"))) as served:
        with pytest.raises(StorageError, match="too many redirects"):
            Store(url_of(served))
        assert len(server.requests) == 9


def test_a_token_follows_a_redirect_on_its_own_server_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEARER_TOKEN", "secret")
    other = HttpServer(lambda request: part(request, CONTENT))

    def answer(request: HttpRequest) -> bytes:
        assert request.headers["authorization"] == "Bearer secret"
        location = url_of(elsewhere, "h") if request.target == "/g" else "/g"
        return http_answer("302 Found", f"Location: {location}")

    with scripted(other) as elsewhere, scripted(server := HttpServer(answer)) as served:
        assert Store(url_of(served)).read([(7, 7)]).contents == [CONTENT[7:14]]
    assert [one.target for one in server.requests] == ["/f.root", "/g"]
    assert [one.headers.get("authorization") for one in other.requests] == [None, None]


# Web pages.


def pages() -> dict[str, Callable[[HttpRequest], bytes]]:
    html = "Content-Type: text/html; charset=utf-8"
    return {
        "200": lambda _: http_answer("200 OK", html, body=LOGIN),
        "another type": lambda _: http_answer("200 OK", "Content-Type: application/octet-stream", body=LOGIN),
        "chunked": lambda _: chunked(LOGIN, html),
        "206": lambda request: part(request, LOGIN, None, html),
        "206 of unknown size": lambda request: part(request, LOGIN, "*", html),
        "large": lambda _: http_answer("200 OK", html, body=LOGIN + b"<!-- -->" * 200_000),
    }


@pytest.mark.parametrize("opened", [Store, branchline.open])
@pytest.mark.parametrize("name", list(pages()))
def test_a_login_page_is_named_as_such_with_its_url(name: str, opened: Callable[[str], object]) -> None:
    def answer(request: HttpRequest) -> bytes:
        if request.target == "/f.root":
            return http_answer("302 Found", f"Location: {url_of(login, 'sso/login?state=very-secret')}")
        return http_answer("404 No")

    with (
        scripted(HttpServer(lambda request: pages()[name](request))) as login,
        scripted(HttpServer(answer)) as served,
    ):
        with pytest.raises(StorageError, match="sent a web page") as raised:
            opened(url_of(served))
        said = str(raised.value)
        assert f"from {url_of(login, 'sso/login')}" in said
        assert url_of(served) in said
        assert "BEARER_TOKEN" in said
        assert "very-secret" not in said
        assert not raised.value.retry
        # One byte of a page has no title.
        assert (opened is Store and name.startswith("206")) or "Sign in to CERN" in said


def test_a_login_page_in_the_middle_of_a_file_is_named_as_such() -> None:
    def answer(request: HttpRequest) -> bytes:
        if len(server.requests) <= 2:
            return part(request, CONTENT)
        return http_answer("200 OK", "Content-Type: text/html", body=LOGIN)

    with scripted(server := HttpServer(answer)) as served:
        store = Store(url_of(served))
        assert store.read([(100, 10)]).contents == [CONTENT[100:110]]
        with pytest.raises(StorageError, match="sent a web page"):
            store.read([(1000, 10), (100_000, 10)])


def test_a_file_that_its_server_calls_a_web_page_is_read(served: Served) -> None:
    """Servers call files so whose type they do not know."""
    content = (served.data / "small.root").read_bytes()
    kind = "Content-Type: text/html"
    for ranges in (False, True):

        def answer(request: HttpRequest, ranges: bool = ranges) -> bytes:
            is_part = ranges and request.span() is not None
            return part(request, content, None, kind) if is_part else http_answer("200 OK", kind, body=content)

        with scripted(HttpServer(answer)) as server:
            assert len(branchline.open(url_of(server))["events"]["px"].array()) == 1000


def test_the_page_of_a_login_is_no_listing_of_a_folder() -> None:
    login = HttpServer(lambda _: http_answer("200 OK", "Content-Type: text/html", body=LOGIN))
    with scripted(login) as sso:
        redirect = http_answer("302 Found", f"Location: {url_of(sso, 'sso')}")
        with scripted(HttpServer(lambda _: redirect)) as served, pytest.raises(StorageError, match="sent a web page"):
            Dataset.of(f"{url_of(served, 'data')}/*.root")


@pytest.mark.parametrize("status", ["405 Method Not Allowed", "501 Not Implemented"])
def test_a_server_without_webdav_shows_its_folders_as_pages(status: str) -> None:
    def answer(request: HttpRequest) -> bytes:
        if request.method == "PROPFIND":
            return http_answer(status)
        if request.target == "/data/":
            return http_answer("200 OK", "Content-Type: text/html", body=b'<html><a href="f.root">f</a></html>')
        return part(request, CONTENT)

    with scripted(HttpServer(answer)) as served:
        dataset = Dataset.of(f"{url_of(served, 'data')}/*.root")
        assert [(one.path, one.size_bytes) for one in dataset] == [(url_of(served, "data/f.root"), len(CONTENT))]


# Waits.


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable", "202 Accepted"])
@pytest.mark.parametrize("how", ["seconds", "date", "date without a clock"])
def test_a_server_that_asks_to_wait_is_waited_for(status: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "1")
    monkeypatch.setenv("BRANCHLINE_STORAGE_PAUSE", "0")

    def waits() -> tuple[str, ...]:
        # The clock of the server is wrong by a day.
        now = time.time() if how == "date without a clock" else time.time() - 86400
        date = email.utils.formatdate
        when = "1" if how == "seconds" else date(int(now) + 2 - ("clock" not in how), usegmt=True)
        clock = [f"Date: {date(int(now), usegmt=True)}"] if "clock" not in how else []
        return (f"Retry-After: {when}", *clock)

    def answer(request: HttpRequest) -> bytes:
        return http_answer(status, *waits()) if len(server.requests) == 1 else part(request, CONTENT)

    take_troubles()
    with scripted(server := HttpServer(answer)) as served:
        store = Store(url_of(served))
        assert store.read([(5, 5)]).contents == [CONTENT[5:10]]
        [trouble] = take_troubles()
    assert (trouble.waits, trouble.waited_s, trouble.retries) == (1, 1.0, 0)
    assert len(server.requests) == 3


@pytest.mark.parametrize(("after", "requests"), [("3600", 1), ("1", 3), ("9" * 30, 1)])
def test_waits_end_at_the_limit_of_the_user(after: str, requests: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_WAIT", "2")
    monkeypatch.setenv("BRANCHLINE_STORAGE_PAUSE", "0")
    with scripted(server := HttpServer(lambda _: http_answer("503 Busy", f"Retry-After: {after}"))) as served:
        with pytest.raises(StorageError, match="BRANCHLINE_STORAGE_WAIT") as raised:
            Store(url_of(served))
        assert not raised.value.retry
        assert "status 503" in str(raised.value)
        assert len(server.requests) == requests


@pytest.mark.parametrize("after", ["0", "soon", "-5", "1.5", "", "Sun, 06 Nov 1994 08:49:37 GMT"])
def test_a_wait_of_no_time_is_a_try(after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "3")
    monkeypatch.setenv("BRANCHLINE_STORAGE_PAUSE", "0")
    with scripted(server := HttpServer(lambda _: http_answer("503 Busy", f"Retry-After: {after}"))) as served:
        with pytest.raises(StorageError, match="3 tries"):
            Store(url_of(served))
        assert len(server.requests) == 3
