"""Servers that never answer, or ask to wait: how many requests are made of them before another is read."""

from __future__ import annotations

import shutil
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import awkward as ak
import pytest
from tests.stores.conftest import Served
from tests.stores.scripted import HttpRequest, HttpServer, Scripted, http_answer, next_request, scripted
from tests.stores.scripted_xrootd import OPEN, PGREAD, READ, READV, WAIT, XrootdScript, answer, xrootd_script

import branchline
from branchline import Dataset, TrainStatus
from branchline._core import Store, list_folder, size_and_identity, take_troubles
from branchline.errors import PartialResultWarning, StorageError
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.server_files import with_sizes

CONTENT = bytes(range(250)) * 400


def silence(_: int, connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "0.3")
    monkeypatch.setenv("BRANCHLINE_STORAGE_PAUSE", "0")
    monkeypatch.delenv("BRANCHLINE_STORAGE_TRIES", raising=False)
    take_troubles()


@pytest.fixture
def silent() -> Iterator[Scripted]:
    with scripted(silence) as server:
        yield server


def url_at(scheme: str, server: Scripted, path: str = "a/f.root") -> str:
    return f"{scheme}://127.0.0.1:{server.port}/{'/' if scheme == 'root' else ''}{path}"


class Sum:
    name = "sum"

    def process(self, events: ak.Array) -> float:
        return float(ak.sum(events.px))


def read_by_store(paths: list[str]) -> None:
    for path in paths:
        assert len(Store(path).read([(0, 100)]).contents[0]) == 100


def read_by_train(paths: list[str]) -> None:
    result = branchline.run([Sum()], paths, workers=1)
    assert result.record.events == 1000 * len(paths)


# A train requests the sizes of its files side by side, and tells its workers which server is silent.
@pytest.mark.parametrize(("read", "most"), [(read_by_store, 1), (read_by_train, 3)])
@pytest.mark.parametrize("scheme", ["root", "http"])
def test_a_silent_first_replica_costs_one_timeout(
    scheme: str, read: Callable[[list[str]], None], most: int, silent: Scripted, served: Served
) -> None:
    read([f"{url_at(scheme, silent, f'{folder}/f.root')} | {served.data / 'small.root'}" for folder in "abc"])
    first = silent.connections
    assert 1 <= first <= most
    read([f"{url_at(scheme, silent, 'd/f.root')} | {served.data / 'small.root'}"])
    assert silent.connections == first


@pytest.mark.long
@pytest.mark.parametrize(
    ("scheme", "until"), [("root", "connected"), ("root", "opened"), ("http", "connected"), ("http", "opened")]
)
def test_a_silent_first_replica_costs_a_train_at_most_15_s(
    scheme: str, until: str, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the timeouts that everybody has; a second replica answers at once."""
    monkeypatch.delenv("BRANCHLINE_STORAGE_TIMEOUT")
    content = (served.data / "small.root").read_bytes()
    script = silence if until == "connected" else silent_after_opening(scheme, content, [])
    with scripted(script) as server:
        files = [f"{url_at(scheme, server, f'{folder}/f.root')} | {served.data / 'small.root'}" for folder in "abc"]
        began_s = time.monotonic()
        read_by_train(files)
        # The rest is the time of the train itself, on a busy machine.
        assert time.monotonic() - began_s < 15 + 10


@pytest.mark.parametrize("scheme", ["root", "http"])
def test_a_train_on_a_silent_server_alone_ends_with_its_error(scheme: str, silent: Scripted) -> None:
    with pytest.warns(PartialResultWarning, match="did not answer in time"):
        branchline.run([Sum()], [url_at(scheme, silent)], workers=1)
    # One query for the size and one attempt to open it, since the server is known to be silent by then.
    assert silent.connections == 2


def test_a_silent_server_that_then_asks_to_wait_is_waited_for_shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a cache that cannot reach its origin. Others may ask to wait for ten minutes."""
    monkeypatch.delenv("BRANCHLINE_STORAGE_WAIT")
    opened: list[int] = []

    def hook(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        if code != OPEN:
            return None
        opened.append(number)
        return b"" if len(opened) == 1 else answer(stream, WAIT, struct.pack(">I", 1))

    with xrootd_script(CONTENT, hook) as (url, _, _):
        with pytest.raises(StorageError, match="did not answer in time"):
            size_and_identity(url)
        for count in (2, 3):
            with pytest.raises(StorageError, match="asks to wait for longer"):
                Store(url)
            assert len(opened) == count


@pytest.mark.parametrize("scheme", ["root", "http"])
def test_files_of_a_silent_server_are_tried_once_each_until_it_answers(scheme: str, served: Served) -> None:
    answers: list[bool] = []
    xrootd, http = XrootdScript(CONTENT), busy(0, "")

    def script(number: int, connection: socket.socket) -> None:
        (xrootd if scheme == "root" else http)(number, connection) if answers else silence(number, connection)

    with scripted(script) as server:
        for name, tried in (("a", 2), ("b", 3), ("c", 4)):
            with pytest.raises(StorageError, match="did not answer in time"):
                Store(url_at(scheme, server, name))
            assert server.connections == tried
        answers.append(True)
        assert Store(url_at(scheme, server, "d")).read([(7, 7)]).contents == [CONTENT[7:14]]


def test_the_troubles_of_a_silent_replica_are_one_timeout_without_retries(silent: Scripted, served: Served) -> None:
    read_by_store([f"{url_at('root', silent)} | {served.data / 'small.root'}"])
    [trouble] = take_troubles()
    assert (trouble.timeouts, trouble.retries, trouble.replicas_left) == (1, 0, 0)


@pytest.mark.parametrize("scheme", ["root", "http"])
def test_the_only_server_of_a_file_is_tried_once_more_after_a_timeout(
    scheme: str, silent: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StorageError, match=r"did not answer in time.*\(2 tries\)") as raised:
        Store(url_at(scheme, silent))
    assert raised.value.retry
    assert silent.connections == 2
    # As often as the user says.
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "3")
    with scripted(silence) as other, pytest.raises(StorageError, match="3 tries"):
        Store(url_at(scheme, other))
    assert other.connections == 3


def test_errors_that_come_at_once_are_tried_four_times_as_before() -> None:
    with scripted(server := HttpServer(lambda _: http_answer("500 Oh"))) as served:
        with pytest.raises(StorageError, match="4 tries"):
            Store(url_at("http", served))
        assert len(server.requests) == 4


def test_all_replicas_that_are_silent_are_tried_twice_each() -> None:
    with scripted(silence) as one, scripted(silence) as other:
        with pytest.raises(StorageError, match=r"none of its 2 replicas can be read \(2 tries\)"):
            Store(f"{url_at('root', one)} | {url_at('http', other)}")
        assert (one.connections, other.connections) == (2, 2)


def silent_after_opening(scheme: str, content: bytes, requests: list[str]) -> Callable[[int, socket.socket], None]:
    """A server that answers while a file is opened, and then receives requests alone."""
    if scheme == "root":

        def hook(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
            requests.append("open" if code == OPEN else "other")
            is_read = code in (READ, READV, PGREAD)
            if is_read:
                requests.append("read")
            return b"" if is_read else None

        return XrootdScript(content, hook)

    def answer_http(request: HttpRequest) -> bytes:
        span = request.span()
        if span is None:
            return http_answer("405 No")
        if len(span) > 1:
            requests.append("read")
            return b""
        where = f"Content-Range: bytes 0-0/{len(content)}"
        return http_answer("206 Partial Content", where, body=content[:1])

    return HttpServer(answer_http)


@pytest.mark.parametrize("scheme", ["root", "http"])
def test_a_replica_that_becomes_silent_is_left_after_one_request(scheme: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(CONTENT)
    requests: list[str] = []
    with scripted(silent_after_opening(scheme, CONTENT, requests)) as server:
        store = Store(f"{url_at(scheme, server)} | {tmp_path / 'f'}")
        assert store.read([(1000, 100)]).contents == [CONTENT[1000:1100]]
        assert store.read([(2000, 100)]).contents == [CONTENT[2000:2100]]
    assert requests.count("read") == 1


def busy(times: int, after: str, content: bytes = CONTENT) -> HttpServer:
    """A server that asks to wait for the first requests."""

    def answer_http(request: HttpRequest) -> bytes:
        if len(server.requests) <= times:
            return http_answer("503 Busy", f"Retry-After: {after}")
        span = request.span()
        if span is None:
            return http_answer("405 No")
        body = content[span.start : span.stop]
        where = f"Content-Range: bytes {span.start}-{span.start + len(body) - 1}/{len(content)}"
        return http_answer("206 Partial Content", where, body=body)

    server = HttpServer(answer_http)
    return server


def test_a_replica_that_asks_for_a_long_wait_is_left_for_another() -> None:
    with scripted(one := busy(1000, "3600")) as first, scripted(busy(0, "")) as second:
        store = Store(f"{url_at('http', first)} | {url_at('http', second)}")
        assert store.read([(7, 7)]).contents == [CONTENT[7:14]]
        assert len(one.requests) == 1


def test_replicas_that_all_ask_for_a_wait_are_waited_for_in_the_second_round() -> None:
    with scripted(one := busy(2, "1")) as first, scripted(other := busy(1000, "1")) as second:
        store = Store(f"{url_at('http', first)} | {url_at('http', second)}")
        assert store.read([(7, 7)]).contents == [CONTENT[7:14]]
        assert len(other.requests) == 1
        assert len(one.requests) >= 3
    with (
        scripted(busy(1000, "3600")) as first,
        scripted(busy(1000, "3600")) as second,
        pytest.raises(StorageError, match="BRANCHLINE_STORAGE_WAIT"),
    ):
        Store(f"{url_at('http', first)} | {url_at('http', second)}")


def test_waits_that_an_xrootd_server_asks_for_are_counted_with_their_time() -> None:
    seen = []

    def wait(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        if code in (OPEN, READ, READV, PGREAD) and code not in seen:
            seen.append(code)
            return answer(stream, WAIT, struct.pack(">I", 1))
        return None

    with xrootd_script(CONTENT, wait) as (url, _, _):
        assert Store(url).read([(7, 7)]).contents == [CONTENT[7:14]]
    [trouble] = take_troubles()
    assert (trouble.waits, trouble.waited_s, trouble.retries) == (2, 2.0, 0)


def test_a_replica_without_ranges_has_the_time_of_the_whole_file() -> None:
    """It takes longer than a replica may be silent."""
    content = bytes(range(250)) * 12_000
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content)

    def slow(_: int, connection: socket.socket) -> None:
        while next_request(connection) is not None:
            connection.sendall(head)
            for at in range(0, len(content), 300_000):
                connection.sendall(content[at : at + 300_000])
                time.sleep(0.15)

    with scripted(slow) as first, scripted(other := busy(0, "", content)) as second:
        store = Store(f"{url_at('http', first)} | {url_at('http', second)}")
        assert store.read([(1_000_007, 7)]).contents == [content[1_000_007:1_000_014]]
        assert not [one for one in other.requests if one.span() and len(one.span() or "") == 7]


# Planning.


@pytest.mark.parametrize("scheme", ["root", "http"])
def test_the_size_of_a_file_is_taken_from_the_first_replica_that_answers(
    scheme: str, silent: Scripted, served: Served
) -> None:
    answers = f"http://127.0.0.1:{served.nginx.port}/small.root"
    size = (served.data / "small.root").stat().st_size
    for path in ("a/f.root", "b/f.root"):
        found, identity = size_and_identity(f"{url_at(scheme, silent, path)} | {answers}")
        assert (found, bool(identity)) == (size, True)
    assert silent.connections == 1
    # It is not queried about other files, nor about folders.
    with pytest.raises(StorageError, match="recently did not answer"):
        size_and_identity(url_at(scheme, silent, "c/f.root"))
    with pytest.raises(StorageError, match="recently did not answer"):
        list_folder(url_at(scheme, silent, "c/"), once=True)
    assert silent.connections == 1


def test_a_server_that_does_not_tell_sizes_in_time_leaves_the_reason(silent: Scripted, served: Served) -> None:
    [slow] = with_sizes([DataFile(url_at("root", silent))])
    assert (slow.size_bytes, slow.version) == (None, "")
    assert "did not answer in time" in slow.no_version
    where = f"http://127.0.0.1:{served.nginx.port}/no-versions/small.root"
    [without] = with_sizes([DataFile(where)])
    assert without.size_bytes
    assert without.no_version == "its server reports neither a modification time nor an ETag"


def test_the_queries_of_all_sizes_end_and_the_train_runs(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branchline.reading.datasets.server_files.SIZES_QUERIED_S", 0.0)
    url = f"root://127.0.0.1:{served.xrootd.port}//small.root"
    (tmp_path / "wagons.py").write_text("def total(events):\n    return len(events.px)\n")
    result = branchline.run(f"{tmp_path / 'wagons.py'}:total", [url], tmp_path / "out", workers=1)
    assert result.outputs["total"] == 1000
    [note] = result.record.reuse_notes
    assert url in note
    assert "took more than 0 s" in note


def test_the_progress_of_many_queries_is_reported(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branchline.reading.datasets.server_files.PROGRESS_INTERVAL_S", 0.0)
    urls = [f"http://127.0.0.1:{served.nginx.port}/small.root?{number}" for number in range(20)]
    told: list[tuple[int, int]] = []
    Dataset.of(urls, progress=lambda done, total: told.append((done, total)))
    assert told == [(done, 20) for done in range(1, 21)]
    states: list[TrainStatus] = []
    branchline.run([Sum()], urls, tmp_path / "out", workers=1, progress=states.append)
    planned = [one for one in states if one.phase == "plan"]
    assert [one.fraction_done for one in planned] == [done / 20 for done in range(1, 21)]


def test_files_that_are_alone_in_their_folders_have_sizes_and_versions(served: Served) -> None:
    """As all files in the layout of Rucio; more of them than there are threads."""
    for number in range(100):
        folder = served.data / "rucio" / f"{number:02x}"
        folder.mkdir(parents=True)
        (folder / "f.bin").write_bytes(bytes(number + 1))
    (served.data / "rucio" / "00" / "g.bin").write_bytes(b"g")
    for one in (served.data / "rucio", *(served.data / "rucio").rglob("*")):
        one.chmod(0o755 if one.is_dir() else 0o644)
    urls = {
        "root": f"root://127.0.0.1:{served.xrootd.port}//rucio",
        "http": f"http://127.0.0.1:{served.nginx.port}/rucio",
    }
    for scheme, base in urls.items():
        files = with_sizes([DataFile(f"{base}/{number:02x}/f.bin") for number in range(100)])
        assert [one.size_bytes for one in files] == list(range(1, 101)), scheme
        assert all(one.version for one in files)
        # The listing of a folder gives the same version as a query about one file.
        if scheme == "root":
            listed = with_sizes([DataFile(f"{base}/00/f.bin"), DataFile(f"{base}/00/g.bin")])
            assert listed[0].version == files[0].version
    shutil.rmtree(served.data / "rucio")
