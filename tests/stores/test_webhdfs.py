"""WebHDFS as a NameNode and DataNodes answer it, and as none should. Those of Hadoop itself are in tests/storage."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from fsspec.config import conf
from tests.stores.scripted import Script, scripted

from branchline._core import Store
from branchline.errors import MissingFileError, StorageError
from branchline.reading.bridge.fsspec_files import _with_port

CONTENT = bytes(range(256)) * 4096
BLOCK_BYTES = 400_000
FILE = {"length": len(CONTENT), "modificationTime": 17, "blockSize": BLOCK_BYTES, "type": "FILE"}

Respond = Callable[[dict[str, str]], bytes]


@pytest.fixture(autouse=True)
def few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "2")
    monkeypatch.setenv("BRANCHLINE_STORAGE_PAUSE", "0")
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "5")
    monkeypatch.setenv("FSSPEC_CONFIG_DIR", "/none")


def targets(connection: socket.socket) -> Iterator[str]:
    """The target of each request on a connection."""
    received = b""
    while more := connection.recv(65536):
        received += more
        while b"\r\n\r\n" in received:
            head, _, received = received.partition(b"\r\n\r\n")
            yield head.split()[1].decode()


def answer(status: str, content: bytes, *lines: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(content)}", *lines, "", ""]).encode() + content


def as_json(status: str, **content: object) -> bytes:
    return answer(status, json.dumps(content).encode(), "Content-Type: application/json")


def refused(status: str, exception: str, message: str = "no") -> bytes:
    return as_json(status, RemoteException={"exception": exception, "javaClassName": "x", "message": message})


def serving(respond: Respond, asked: list[dict[str, str]]) -> Script:
    """Answers each request by its query."""

    def script(number: int, connection: socket.socket) -> None:
        for target in targets(connection):
            query = {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}
            asked.append(query)
            connection.sendall(respond(query))

    return script


def part(query: dict[str, str]) -> bytes:
    start = int(query["offset"])
    return answer("200 OK", CONTENT[start : start + int(query["length"])])


def test_each_block_is_asked_for_once_and_then_read_where_it_lies() -> None:
    of_name: list[dict[str, str]] = []
    of_data: list[dict[str, str]] = []
    with scripted(serving(part, of_data)) as data:

        def name_node(query: dict[str, str]) -> bytes:
            if query["op"] == "GETFILESTATUS":
                return as_json("200 OK", FileStatus=FILE)
            place = f"http://127.0.0.1:{data.port}/f?op=OPEN&more=1&length={query['length']}&offset={query['offset']}"
            return answer("307 Temporary Redirect", b"", f"Location: {place}")

        with scripted(serving(name_node, of_name)) as name:
            store = Store(f"webhdfs://ada@127.0.0.1:{name.port}/f")
            for start, length in ((0, 10), (300_000, 90_000), (5, 300_000), (800_000, 200_000), (900_000, 5)):
                assert store.read([(start, length)]).contents == [CONTENT[start : start + length]]
    assert [one["op"] for one in of_name] == ["GETFILESTATUS", "OPEN", "OPEN"]
    assert {one["user.name"] for one in of_name} == {"ada"}
    assert [one["offset"] for one in of_name[1:]] == ["0", "800000"]
    assert len(of_data) == 5
    assert {one["more"] for one in of_data} == {"1"}
    assert store.size_bytes == len(CONTENT)
    assert store.identity == f"{len(CONTENT)} modified 17"


def test_where_a_data_node_refuses_the_name_node_is_asked_again() -> None:
    refuses: list[bool] = []

    def respond(query: dict[str, str]) -> bytes:
        if query["op"] == "GETFILESTATUS":
            return as_json("200 OK", FileStatus=FILE)
        if "direct" not in query:
            place = f"/f?op=OPEN&direct={len(refuses)}&offset={query['offset']}&length={query['length']}"
            return answer("307 Temporary Redirect", b"", f"Location: {place}")
        # The first DataNode refuses once it was used.
        if refuses and query["direct"] == "0":
            return refused("403 Forbidden", "IOException", "no block here")
        return part(query)

    asked: list[dict[str, str]] = []
    with scripted(serving(respond, asked)) as server:
        store = Store(f"webhdfs://127.0.0.1:{server.port}/f")
        assert store.read([(0, 5)]).contents == [CONTENT[:5]]
        refuses.append(True)
        assert store.read([(5, 5)]).contents == [CONTENT[5:10]]
        assert store.read([(9, 5)]).contents == [CONTENT[9:14]]
    assert [one.get("direct") for one in asked] == [None, None, "0", "0", None, "1", "1"]


@pytest.mark.parametrize(
    "broken",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
        refused("403 Forbidden", "IOException", "Failed to find datanode, suggest to check cluster health."),
        refused("403 Forbidden", "SocketTimeoutException"),
    ],
)
def test_the_name_node_is_asked_for_another_place_where_a_data_node_breaks(broken: bytes) -> None:
    of_name: list[dict[str, str]] = []
    of_data: list[dict[str, str]] = []

    def data_node(number: int, connection: socket.socket) -> None:
        next(targets(connection))
        connection.sendall(broken)

    with scripted(data_node) as first, scripted(serving(part, of_data)) as second:

        def name_node(query: dict[str, str]) -> bytes:
            if query["op"] == "GETFILESTATUS":
                return as_json("200 OK", FileStatus=FILE)
            port = first.port if len(of_name) == 2 else second.port
            place = f"http://127.0.0.1:{port}/f?op=OPEN&offset={query['offset']}&length={query['length']}"
            return answer("307 Temporary Redirect", b"", f"Location: {place}")

        with scripted(serving(name_node, of_name)) as name:
            store = Store(f"webhdfs://127.0.0.1:{name.port}/f")
            assert store.read([(7, 5)]).contents == [CONTENT[7:12]]
    assert [one["op"] for one in of_name] == ["GETFILESTATUS", "OPEN", "OPEN"]
    assert len(of_data) == 1


def test_folders_are_listed_at_the_port_at_which_files_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(conf, "webhdfs", {})
    assert _with_port("webhdfs://ada@name.node/data") == "webhdfs://ada@name.node:9870/data"
    for unchanged in ("webhdfs://ada@name.node:50070/data", "memory://data", "fsspec+webhdfs://name.node/data"):
        assert _with_port(unchanged) == unchanged
    # Who tells fsspec more may tell it the port.
    monkeypatch.setitem(conf, "webhdfs", {"port": 14000})
    assert _with_port("webhdfs://name.node/data") == "webhdfs://name.node/data"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (as_json("200 OK", FileStatus={**FILE, "type": "DIRECTORY"}), "directory"),
        (as_json("200 OK", FileStatus={**FILE, "length": -1}), "an invalid file status"),
        (as_json("200 OK", FileStatus={**FILE, "length": 2**64}), "an invalid file status"),
        (answer("200 OK", b"<html>"), "an invalid file status"),
        (answer("200 OK", b'{"FileStatus":{"length":'), "an invalid file status"),
        (answer("200 OK", b'"' * 1_000_000), "an invalid file status"),
        (refused("403 Forbidden", "AccessControlException"), "does not let you read it"),
        (refused("403 Forbidden", "StandbyException"), "StandbyException"),
        (refused("400 Bad Request", "\x1b[31mOdd\n"), "refused the request with status 400"),
        (refused("400 Bad Request", "IOException", 'no "a\\b \u00e9".root'), r'IOException: no "a\\b .".root'),
        (refused("400 Bad Request", "IOException", "at\tfirst\nat second"), r"IOException: at first\.$"),
        (answer("401 Authentication required", b""), "Kerberos"),
        (answer("403 Forbidden", b'{"RemoteException":{"exception":', "Content-Type: application/json"), "403"),
    ],
)
def test_what_a_name_node_should_not_say_is_an_error(given: bytes, words: str) -> None:
    with scripted(serving(lambda _query: given, [])) as server, pytest.raises(StorageError, match=words) as caught:
        Store(f"webhdfs://127.0.0.1:{server.port}/f")
    assert "\x1b" not in str(caught.value)


def test_a_missing_file_is_missing() -> None:
    gone = refused("404 Not Found", "FileNotFoundException")
    with scripted(serving(lambda _query: gone, [])) as server, pytest.raises(MissingFileError, match="no such file"):
        Store(f"webhdfs://127.0.0.1:{server.port}/f")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (answer("200 OK", CONTENT[:99]), "it has become shorter"),
        (answer("200 OK", CONTENT[:101]), "it has become shorter"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + CONTENT[:101], "more bytes than requested"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + CONTENT[:50], "127.0.0.1"),
        (refused("403 Forbidden", "BlockMissingException"), "BlockMissingException"),
        (refused("403 Forbidden", "IOException", "Offset=7 out of the range [0, 5); OPEN, path=/f"), "shorter"),
        (answer("307 Temporary Redirect", b"", "Location: /f"), "too many redirects"),
        (answer("206 Partial Content", CONTENT[:100]), "shorter"),
    ],
)
def test_other_bytes_than_were_requested_are_an_error(given: bytes, words: str) -> None:
    def respond(query: dict[str, str]) -> bytes:
        return as_json("200 OK", FileStatus=FILE) if query.get("op") == "GETFILESTATUS" else given

    head, _, content = given.partition(b"\r\n\r\n")
    ends = b"Content-Length: %d" % len(content) not in head

    def script(number: int, connection: socket.socket) -> None:
        for target in targets(connection):
            query = {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}
            connection.sendall(respond(query))
            # One that ended after a whole answer might still be taken for the next request.
            if query.get("op") != "GETFILESTATUS" and ends:
                return

    with scripted(script) as server:
        store = Store(f"webhdfs://127.0.0.1:{server.port}/f")
        with pytest.raises(StorageError, match=words):
            store.read([(0, 100)])


def test_options_of_fsspec_send_a_file_through_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, str]] = []
    status = as_json("200 OK", FileStatus=FILE)
    monkeypatch.setenv("FSSPEC_WEBHDFS_TOKEN", "secret")
    # It reads its variables once.
    monkeypatch.setitem(conf, "webhdfs", {"token": "secret"})
    with scripted(serving(lambda _query: status, asked)) as server:
        Store(f"webhdfs://127.0.0.1:{server.port}/f")
    assert asked[0]["delegation"] == "secret"
