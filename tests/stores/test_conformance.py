"""What every store does alike, checked against the real server of each."""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass

import awkward as ak
import pytest
from tests.stores.conftest import BYTES_COUNT, Served

import branchline
from branchline._core import Store
from branchline.errors import BadFileError, BranchlineError, MissingFileError, StorageError

Url = Callable[[Served, str], str]

STORES: dict[str, Url] = {
    "local": lambda served, name: str(served.data / name),
    "file-url": lambda served, name: f"file://{served.data}/{name}",
    "http-nginx": lambda served, name: f"http://127.0.0.1:{served.nginx.port}/{name}",
    "http-nginx-one-range": lambda served, name: f"http://127.0.0.1:{served.nginx.port}/one-range/{name}",
    "http-nginx-moved": lambda served, name: f"http://127.0.0.1:{served.nginx.port}/moved/{name}",
    "https-nginx": lambda served, name: f"https://localhost:{served.nginx.tls_port}/{name}",
    "davs-nginx": lambda served, name: f"davs://127.0.0.1:{served.nginx.tls_port}/{name}",
    "root": lambda served, name: f"root://127.0.0.1:{served.xrootd.port}//{name}",
    "root-cluster": lambda served, name: f"root://127.0.0.1:{served.cluster.redirector.port}//{name}",
    "root-tls-there": lambda served, name: f"root://localhost:{served.xrootd_tls.port}//{name}",
    "roots": lambda served, name: f"roots://localhost:{served.xrootd_tls.port}//{name}",
    "http-xrootd": lambda served, name: f"http://127.0.0.1:{served.xrootd_http_port}/{name}",
}
LOCAL = {"local", "file-url"}
# XRootD 5.5 gives neither an entity tag nor a time with a range.
SAYS_NO_VERSION = {"http-xrootd"}


@dataclass(frozen=True)
class Place:
    name: str
    served: Served

    def url(self, name: str) -> str:
        return STORES[self.name](self.served, name)

    def open(self, name: str = "random.bin") -> Store:
        return Store(self.url(name))


@pytest.fixture(params=list(STORES))
def place(request: pytest.FixtureRequest, served: Served, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("SSL_CERT_FILE", str(served.certificates / "ca.pem"))
    return Place(request.param, served)


def test_ranges_get_exactly_their_bytes(place: Place) -> None:
    store = place.open()
    assert store.size_bytes == BYTES_COUNT
    end = BYTES_COUNT
    ranges = [(0, 1), (end - 1, 1), (5, 3_000_000), (0, 0), (end, 0), (4095, 2), (0, end), (4095, 2), (70_000, 70_000)]
    bytes_of, calls, moved = store.read(ranges)
    for (offset, length), found in zip(ranges, bytes_of, strict=True):
        assert found == place.served.content[offset : offset + length], (offset, length)
    assert 1 <= calls <= 2 * len(ranges)
    assert moved >= sum(length for _, length in ranges)


def test_a_thousand_ranges_of_any_order_and_size(place: Place) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    numbers = random.Random(seed)
    store = place.open()
    ranges = []
    for _ in range(1000):
        length = int(10 ** numbers.uniform(0, 4.5))
        ranges.append((numbers.randrange(BYTES_COUNT - length), length))
    found, _, _ = store.read(ranges)
    assert all(
        bytes_of == place.served.content[at : at + size] for (at, size), bytes_of in zip(ranges, found, strict=True)
    )


def test_one_range_takes_one_call(place: Place) -> None:
    store = place.open()
    assert store.read([(1000, 100_000)])[1:] == (1, 100_000)
    assert store.read([(1000, 0)]) == ([b""], 0, 0)
    assert store.read([]) == ([], 0, 0)


def test_a_range_behind_the_end_is_an_error_and_says_where_the_end_is(place: Place) -> None:
    store = place.open()
    for offset, length in [(BYTES_COUNT - 5, 6), (BYTES_COUNT, 1), (0, 2**63), (2**64 - 1, 2**64 - 1)]:
        with pytest.raises(BadFileError, match=f"file ends at {BYTES_COUNT} bytes") as raised:
            store.read([(0, 10), (offset, length)])
        assert not raised.value.retry


def test_an_empty_file_has_no_bytes(place: Place) -> None:
    store = place.open("empty.bin")
    assert store.size_bytes == 0
    assert store.read([(0, 0)])[0] == [b""]
    with pytest.raises(BadFileError):
        store.read([(0, 1)])


def test_a_file_that_is_not_there_is_missing(place: Place) -> None:
    with pytest.raises(MissingFileError, match="no such file") as raised:
        place.open("sub/absent.bin")
    assert place.url("sub/absent.bin") in str(raised.value)
    assert not raised.value.retry


def test_a_file_that_may_not_be_read_is_an_error(place: Place) -> None:
    closed = place.served.data / f"closed-{place.name}-{os.getpid()}.bin"
    closed.write_bytes(b"x")
    closed.chmod(0)
    try:
        if os.geteuid() == 0 and place.name in LOCAL:
            pytest.skip("nothing is closed to root")
        with pytest.raises(StorageError) as raised:
            place.open(closed.name)
        assert not raised.value.retry
    finally:
        closed.unlink()


def test_a_directory_is_no_file(place: Place) -> None:
    with pytest.raises(BranchlineError) as raised:
        place.open("sub").read([(0, 1)])
    assert not raised.value.retry


def test_threads_share_a_store(place: Place) -> None:
    store = place.open()
    wrong: list[object] = []

    def read(start: int) -> None:
        try:
            for offset in range(start, BYTES_COUNT - 200_000, 977_777):
                ranges = [(offset, 100_000), (offset + 150_000, 10)]
                found, _, _ = store.read(ranges)
                wrong.extend(r for r, b in zip(ranges, found, strict=True) if b != place.served.content[r[0] : sum(r)])
        except BranchlineError as error:
            wrong.append(error)

    threads = [threading.Thread(target=read, args=(start,)) for start in range(0, 4000, 500)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


def test_the_identity_changes_with_the_file_alone(place: Place) -> None:
    own = place.served.data / f"own-{place.name}-{os.getpid()}.bin"
    shutil.copy(place.served.data / "sub" / "with%20percent.bin", own)
    try:
        first = place.open(own.name).identity
        assert (first is None) == (place.name in SAYS_NO_VERSION)
        assert place.open(own.name).identity == first
        own.write_bytes(b"hello hello")
        assert place.open(own.name).identity != first or first is None
    finally:
        own.unlink()


def test_a_tree_is_read_as_from_the_local_disk(place: Place) -> None:
    expected = branchline.open(str(place.served.data / "events.root"))["events"].arrays()
    found = branchline.open(place.url("events.root"))["events"].arrays()
    assert ak.array_equal(found, expected)
