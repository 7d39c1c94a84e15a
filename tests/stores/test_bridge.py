"""What libraries of Python read for us: fsspec's places, and XRootD by its own package where it wants a login."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import fsspec
import hist
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.stores.conftest import Served
from tests.stores.scripted import http_request, scripted
from tests.stores.servers_gsi import GsiXrootd

import branchline
from branchline._core import Store
from branchline.errors import BadFileError, BranchlineError, MissingFileError, StorageError
from branchline.reading.access import ByteRange
from branchline.reading.bridge.hdfs_files import as_bridge_error
from branchline.reading.bridge.xrootd_files import RANGE_BYTES_MAX, RANGES_MAX, _calls


class Counts:
    name = "counts"
    branches = ("px",)

    def process(self, events: Any) -> int:
        return len(events)


class Odd(MemoryFileSystem):
    """A place where reading ends as a test says."""

    protocol = "odd"
    trouble: Any = None

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("odd://", "memory://")))

    def _open(self, path: str, *arguments: Any, **named: Any) -> Any:
        trouble = type(self).trouble
        if isinstance(trouble, BaseException):
            raise trouble
        file = super()._open(path, *arguments, **named)
        if callable(trouble):
            file.read = lambda size=-1: trouble(size)
        return file


@pytest.fixture
def odd() -> Iterator[type[Odd]]:
    fsspec.register_implementation("odd", Odd, clobber=True)
    Odd.trouble = None
    Odd(skip_instance_cache=True).pipe("/f.bin", bytes(range(100)))
    yield Odd
    Odd.store.clear()


@pytest.fixture
def in_memory(served: Served) -> Iterator[str]:
    system = fsspec.filesystem("memory")
    for name in ("events.root", "small.root"):
        system.pipe(f"/data/{name}", (served.data / name).read_bytes())
    yield "memory://data"
    system.store.clear()


def test_a_tree_is_read_from_any_place_of_fsspec(served: Served, in_memory: str) -> None:
    expected = branchline.open(str(served.data / "events.root"))["events"].arrays()
    assert ak.array_equal(branchline.open(f"{in_memory}/events.root")["events"].arrays(), expected)


def test_a_file_in_an_archive_is_read_through_a_chain(served: Served, tmp_path: Path) -> None:
    archive = tmp_path / "data.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.write(served.data / "small.root", "sub/small.root")
    expected = branchline.open(str(served.data / "small.root"))["events"]["px"].array()
    for chain in (
        f"zip://sub/small.root:events::{archive}",
        f"simplecache::zip://sub/small.root::file://{archive}:events",
        f"simplecache::http://127.0.0.1:{served.nginx.port}/small.root:events",
    ):
        assert ak.array_equal(branchline.open(chain)["px"].array(), expected)
    assert Store(f"zip://sub/small.root::{archive}").name == "file://"
    result = branchline.run([Counts()], [f"zip://sub/small.root::{archive}:events"], tmp_path / "out", workers=1)
    assert result.outputs["counts"] == 1000


def test_a_stream_that_is_left_early_ends(in_memory: str) -> None:
    """Its threads may want Python's lock while the one who holds it waits for them."""
    for _ in range(20):
        stream = branchline.iterate(f"{in_memory}/events.root:events", step_size=1000)
        assert len(next(stream))
        del stream


def test_worker_processes_read_through_fsspec(served: Served, tmp_path: Path) -> None:
    class Counts:
        name = "counts"

        def process(self, events: ak.Array) -> hist.Hist:
            return hist.Hist.new.Reg(10, -3, 3, name="px").Double().fill(events.px)

    files = [f"fsspec+file://{served.data}/{name}:events" for name in ("events.root", "small.root")]
    result = branchline.run([Counts()], files, tmp_path / "out", workers=2)
    assert result.outputs["counts"].sum(flow=True) == 321_000
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    assert job["dataset"][0]["entries"] == 320_000


@pytest.mark.parametrize(
    ("trouble", "match", "retry"),
    [
        (PermissionError("not yours"), "not yours", False),
        (TimeoutError("late"), "late", True),
        (ConnectionResetError("gone"), "gone", True),
        (OSError("disk"), "disk", True),
        (KeyError("what"), "what", False),
        (RuntimeError("403 Forbidden: https://me:very.secret@h/?token=very.secret"), "permission denied", False),
    ],
)
def test_what_libraries_raise_is_said_of_the_file(
    odd: type[Odd], trouble: Exception, match: str, retry: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "2")
    odd.trouble = trouble
    with pytest.raises(StorageError, match=match) as raised:
        Store("odd://f.bin").read([(0, 1)])
    assert raised.value.retry is retry
    assert str(raised.value).startswith("odd://f.bin: ")
    assert "very.secret" not in str(raised.value)


def test_a_file_that_ends_early_or_gives_too_much_is_an_error(odd: type[Odd]) -> None:
    odd.trouble = lambda size: b""
    with pytest.raises(StorageError, match="was truncated to 10 bytes after it was opened"):
        Store("odd://f.bin").read([(10, 5)])
    odd.trouble = lambda size: bytes(size + 1)
    with pytest.raises(StorageError, match="more bytes than requested"):
        Store("odd://f.bin").read([(10, 5)])
    odd.trouble = lambda size: bytes(1)
    assert Store("odd://f.bin").read([(10, 5)]).contents == [bytes(5)]
    odd.trouble = lambda size: "text"
    with pytest.raises(StorageError):
        Store("odd://f.bin").read([(10, 5)])


def test_a_library_that_hangs_is_given_up(odd: type[Odd], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "0.2")
    release = threading.Event()
    odd.trouble = lambda size: (release.wait(30), bytes(size))[1]
    store = Store("odd://f.bin")
    # Without a deadline the read would succeed after 30 s.
    with pytest.raises(StorageError, match="did not answer within") as raised:
        store.read([(0, 5)])
    assert not raised.value.retry
    release.set()
    assert store.read([(0, 5)]).contents == [bytes(5)], "it goes on when the library does"


def test_places_that_are_not_known_say_what_is_missing() -> None:
    with pytest.raises(StorageError, match="Protocol not known: gsiftp"):
        Store("gsiftp://host/f.root")
    with pytest.raises(StorageError, match=r"fsspec needs another package for this file: .*gcsfs"):
        Store("gs://bucket/f.root")
    with pytest.raises(MissingFileError, match="no such file"):
        Store("memory://data/absent.root")


def test_fsspec_that_is_not_there_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(StorageError, match=r"pip install 'branchline\[fsspec\]'"):
        Store("memory://data/f.root")


def test_requests_of_a_place_that_does_many_things_at_once_are_in_flight_together(served: Served) -> None:
    # None of the first five ranges is answered before all of them have come.
    five, ranges = threading.Barrier(5), itertools.count()

    def script(number: int, connection: Any) -> None:
        while (request := http_request(connection)) is not None:
            first, _, last = request.get("range", "bytes=0-99").removeprefix("bytes=").partition("-")
            body = bytes(int(last) + 1 - int(first)) if "range" in request else bytes(100_000)
            if len(body) == 10 and next(ranges) < 5:
                five.wait(20)
            head = [f"HTTP/1.1 {206 if 'range' in request else 200} OK", f"Content-Length: {len(body)}"]
            head += ["Accept-Ranges: bytes", f"Content-Range: bytes {first}-{last}/100000", "", ""]
            connection.sendall("\r\n".join(head).encode() + body)

    with scripted(script) as server:
        store = Store(f"fsspec+http://127.0.0.1:{server.port}/f")
        assert store.read([(offset, 10) for offset in range(0, 1000, 100)]).contents == [bytes(10)] * 10
    assert not five.broken
    assert next(ranges) >= 10


def test_xrootd_that_wants_a_proxy_is_read_by_its_own_client(
    gsi: GsiXrootd, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in gsi.grid.environment.items():
        monkeypatch.setenv(name, value)
    base = f"root://localhost:{gsi.port}/"
    expected = branchline.open(str(served.data / "events.root"))["events"].arrays()
    assert ak.array_equal(branchline.open(f"{base}/events.root")["events"].arrays(), expected)
    store = Store(f"{base}/random.bin")
    read = store.read([(offset, 1000) for offset in range(0, 4_800_000, 4000)])
    assert read.read_calls == 2, "vector reads of 1024 ranges"
    assert read.contents[7] == served.content[28_000:29_000]
    with pytest.raises(BadFileError, match="file ends at"):
        store.read([(5_000_000, 100)])


def test_without_a_proxy_it_is_said_what_the_server_wants(gsi: GsiXrootd, tmp_path: Path) -> None:
    """In a process of its own: XRootD's client keeps the proxy that it had."""
    environment = {**gsi.grid.environment, "X509_USER_PROXY": str(tmp_path / "absent"), "HOME": str(tmp_path)}
    code = f"from branchline._core import Store; Store('root://localhost:{gsi.port}//random.bin')"
    ended = subprocess.run(
        [sys.executable, "-c", code], env={**_own(), **environment}, capture_output=True, text=True, timeout=280
    )
    assert "StorageError" in ended.stderr
    assert "in the package xrootd" in ended.stderr


def _own() -> dict[str, str]:
    import os

    return {**os.environ, "BRANCHLINE_STORAGE_TRIES": "1"}


def test_a_package_that_is_not_there_is_asked_for(gsi: GsiXrootd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "XRootD", None)
    with pytest.raises(
        StorageError, match=r"requires a login with gsi; .*which is not installed: pip install"
    ) as raised:
        Store(f"root://localhost:{gsi.port}//random.bin")
    assert not raised.value.retry


def test_vector_reads_keep_to_what_servers_take() -> None:
    ranges = [ByteRange(index * 10, 3) for index in range(2500)] + [
        ByteRange(0, RANGE_BYTES_MAX + 1),
        ByteRange(5, RANGE_BYTES_MAX),
        ByteRange(9, 1),
        ByteRange(9, 1),
    ]
    calls = list(_calls(ranges))
    assert sorted(one for call in calls for one in call) == sorted(set(ranges))
    for call in calls:
        assert len(call) == 1 or (len(call) <= RANGES_MAX and max(one.length for one in call) <= RANGE_BYTES_MAX)
    assert len(calls) == 4


def test_hdfs_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for url, match in [
        ("hdfs://me@host:8020/f.root", "set HADOOP_USER_NAME"),
        ("hdfs://me:very.secret@host:8020/f.root", "set HADOOP_USER_NAME"),
        ("hdfs://host:8020", "the URL has no path"),
        ("hdfs://host:8020/", "the URL has no path"),
        ("hdfs:///f.root", "No fs.defaultFS setting found; .*HADOOP_CONF_DIR"),
        ("HDFS://cluster/f.root", "No NameNode hosts found; .*HADOOP_CONF_DIR"),
    ]:
        with pytest.raises(StorageError, match=match) as raised:
            Store(url)
        assert not raised.value.retry
        assert "very.secret" not in str(raised.value)
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(StorageError, match=r"pip install 'branchline\[hdfs\]'"):
        Store("hdfs://host:8020/f.root")


def test_a_name_node_that_is_not_there_is_said_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "1")
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "50")
    with pytest.raises(StorageError, match="Connection refused") as raised:
        Store("hdfs://127.0.0.1:1/f.root")
    assert raised.value.retry


@pytest.mark.parametrize(
    ("error", "kind", "retry", "said"),
    [
        (
            RuntimeError('RPCError("org.apache.hadoop.security.AccessControlException", "Permission denied: user=me, '
                         'inode=\\"/f\\"\\n\\tat org.apache.hadoop.Checker(Checker.java:1)")'),
            "permission", False, "AccessControlException: Permission denied: user=me",
        ),
        (RuntimeError('RPCError("org.apache.hadoop.ipc.StandbyException", "no")'), "unreachable", True, "no"),
        (RuntimeError('RPCError("org.apache.hadoop.Odd", "odd\\n\\tat a.java")'), "refused", False, "Odd: odd"),
        (
            RuntimeError('DataTransferError("All DataNodes failed: [DatanodeInfoProto { java }]")'),
            "unreachable", True, "DataTransferError: All DataNodes failed",
        ),
        (RuntimeError("ChecksumError"), "failed", True, "ChecksumError"),
        (RuntimeError("NoSASLMechanism"), "permission", False, "NoSASLMechanism; set the user"),
        (FileNotFoundError("f\n\tat a.java"), "missing", False, "there is no such file"),
        (ConnectionRefusedError("refused"), "unreachable", True, "refused"),
        (TimeoutError("late"), "timeout", True, "late"),
        (BaseException("Cannot read past end of the file"), "refused", False, "Cannot read past end"),
        (RuntimeError(""), "refused", False, "RuntimeError"),
    ],
)  # fmt: skip
def test_errors_of_hdfs_tell_what_passes_from_what_is_final(
    error: BaseException, kind: str, retry: bool, said: str
) -> None:
    found = as_bridge_error(error)
    assert (found.kind, found.retry) == (kind, retry)
    assert said in str(found)
    assert "java" not in str(found)
    assert "DatanodeInfoProto" not in str(found)


def test_every_error_of_the_bridge_is_one_of_ours(odd: type[Odd]) -> None:
    for url in ("odd://", "odd:///", "memory://", "fsspec+://x", "fsspec+memory://", "fsspec+fsspec+memory://x"):
        with pytest.raises(BranchlineError):
            Store(url)
