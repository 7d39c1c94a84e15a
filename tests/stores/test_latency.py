"""Small files far away: how many are on their way at a time, and in how many requests and bytes each is read."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
from tests.stores.conftest import Served
from tests.stores.scripted import Scripted
from tests.stores.scripted_xrootd import OPEN, PGREAD, READ, READV, Hook, XrootdScript, xrootd_script
from tests.stores.servers import wait_for

import branchline
from branchline._core import Proxy, Store
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.tracing.recording import recording
from branchline.tracing.trace import read_trace
from branchline.writing.merging.merge import merge

FILES = 6
BRANCHES = 60
READS = (READ, READV, PGREAD)


@pytest.fixture(scope="module")
def wide_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Two MB that do not compress, and metadata that are small compared with them."""
    folder: Path = tmp_path_factory.mktemp("wide")
    path = folder / "wide.root"
    numbers = np.random.default_rng(3)
    with uproot.recreate(path) as file:
        tree = file.mktree("events", {f"b{number}": "float64" for number in range(BRANCHES)})
        tree.extend({f"b{number}": numbers.random(4500) for number in range(BRANCHES)})
    # As ROOT writes it, with the metadata behind the baskets.
    merge([path], folder / "merged.root")
    return (folder / "merged.root").read_bytes()


def test_the_next_files_are_opened_while_the_first_is(served: Served) -> None:
    opened: set[bytes] = set()
    all_of_them = threading.Event()
    waited: list[bool] = []

    def each_waits(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        # Each on a connection of its own: on one that was taken for another file meanwhile it would be opened again.
        if code == OPEN:
            opened.add(payload)
            if len(opened) == FILES:
                all_of_them.set()
            waited.append(all_of_them.wait(8))
        return None

    with xrootd_script((served.data / "small.root").read_bytes(), each_waits) as (url, script, _):
        sources = [Source(f"{url}{number}", "events") for number in range(FILES)]
        with ChunkStream(sources, ["px"]) as stream:
            assert sum(len(chunk) for chunk in stream) == FILES * 1000
    assert waited == [True] * FILES
    assert script.requests.count(OPEN) == FILES


@pytest.mark.parametrize(("branches", "requests", "share"), [(["b7", "b41"], 2, 0.2), (None, 1, 1.0)])
def test_of_small_files_far_away_what_is_wanted_is_read_in_few_requests(
    wide_file: bytes, branches: list[str] | None, requests: int, share: float
) -> None:
    def slow(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> None:
        time.sleep(0.03)

    with xrootd_script(wide_file, slow, flags=0) as (url, script, _):
        sources = [Source(f"{url}{number}", "events") for number in range(FILES)]
        with ChunkStream(sources, branches) as stream:
            for chunk in stream:
                assert len(chunk) == 4500
            files = stream.records().files
    assert [one.read_calls for one in files] == [requests] * FILES
    assert len([code for code in script.requests if code in READS]) == requests * FILES
    assert all(one.bytes_read <= share * len(wide_file) for one in files)


@contextmanager
def far(content: bytes, hook: Hook) -> Iterator[tuple[str, Scripted]]:
    """The URL of a file at a server that is 100 ms away, and the server."""
    with xrootd_script(content, hook, flags=0) as (_, _, server):
        proxy = Proxy("127.0.0.1:0", f"127.0.0.1:{server.port}", "latency=100ms", None)
        try:
            yield f"root://127.0.0.1:{proxy.port}//far.root", server
        finally:
            proxy.close()


def test_of_many_ranges_of_a_far_file_all_are_asked_for_at_once() -> None:
    content = bytes(9_600_000)
    ranges = [(offset, 160_000) for offset in range(0, len(content), 160_000)]
    due: list[bytes] = []
    asked_bytes = 0

    def none_before_all(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        nonlocal asked_bytes
        if code not in READS:
            return None
        due.append(XrootdScript(content).good(stream, code, arguments, payload))
        asked_bytes += int.from_bytes(arguments[12:16], "big")
        return b"" if asked_bytes < len(content) else b"".join(due)

    with far(content, none_before_all) as (url, server):
        Store(url).read(ranges)
        assert server.connections == 1
    assert len(due) >= len(ranges)
    assert asked_bytes == len(content)


def test_of_small_files_over_http_what_is_wanted_is_read_in_three_requests(served: Served, wide_file: bytes) -> None:
    names = [f"wide-{number}.root" for number in range(3)]
    try:
        for name in names:
            (served.data / name).write_bytes(wide_file)
        sources = [Source(f"http://127.0.0.1:{served.nginx.port}/{name}", "events") for name in names]
        with ChunkStream(sources, ["b7", "b41"]) as stream:
            assert [len(chunk) for chunk in stream] == [4500] * 3
            files = stream.records().files
    finally:
        # Others list the folder.
        for name in names:
            (served.data / name).unlink(missing_ok=True)
    # The first bytes with the size, the end, and the baskets.
    assert [one.read_calls for one in files] == [3] * 3

    def requests() -> list[str]:
        return [name for line in served.nginx.requests for name in names if name in line]

    wait_for(requests, 9)
    assert sorted(requests()) == sorted(3 * names)


def test_connections_for_many_reads_are_made_while_metadata_are_read(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "large.root") as file:
        tree = file.mktree("events", {"x": "float64"})
        for _ in range(6):
            tree.extend({"x": np.random.default_rng(1).random(300_000)})
    opened: set[int] = set()
    others = threading.Event()
    waited: list[bool] = []

    def first_read_waits(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> None:
        if code == OPEN:
            # A far server.
            time.sleep(0.03)
            opened.add(number)
            if len(opened) == 2:
                others.set()
        if code in READS and not waited:
            waited.append(others.wait(10))

    content = (tmp_path / "large.root").read_bytes()
    with (
        xrootd_script(content, first_read_waits, flags=0) as (url, script, server),
        ChunkStream([Source(url, "events")], ["x"], step_size="1 MB") as stream,
    ):
        assert sum(len(chunk) for chunk in stream) == 6 * 300_000
    assert waited == [True]
    # On each the file is opened once.
    assert script.requests.count(OPEN) == server.connections


def test_metadata_of_a_far_file_that_do_not_lie_at_its_ends_take_one_more_round_trip(tmp_path: Path) -> None:
    names = [f"b{number}" for number in range(400)]
    with uproot.recreate(tmp_path / "scattered.root") as file:
        tree = file.mktree("events", dict.fromkeys(names, "float64"))
        for _ in range(2):
            tree.extend({name: np.random.default_rng(1).random(1000) for name in names})
    content = (tmp_path / "scattered.root").read_bytes()
    assert len(content) > 4 << 20
    # Both ends; the streamer infos and the tree; the baskets. None of a round is answered before all of it have come.
    rounds = [2, 2, 1]
    due: list[bytes] = []

    def round_by_round(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        if code not in READS:
            return None
        due.append(XrootdScript(content).good(stream, code, arguments, payload))
        if len(due) < rounds[0]:
            return b""
        answers = b"".join(due)
        due.clear()
        del rounds[0]
        return answers

    with far(content, round_by_round) as (url, server):
        with ChunkStream([Source(url, "events")], ["b7", "b300"], memory_limit="64 MB") as stream:
            assert sum(len(chunk) for chunk in stream) == 2000
        assert server.connections == 1
    assert rounds == []


def test_more_is_asked_for_as_soon_as_there_is_room_though_nobody_takes_what_comes(tmp_path: Path) -> None:
    entries = 250_000
    with uproot.recreate(tmp_path / "large.root", compression=None) as file:
        tree = file.mktree("events", {"x": "float64"})
        for _ in range(6):
            tree.extend({"x": np.random.default_rng(1).random(entries)})
    asked_for_fourth = threading.Event()
    waited: list[bool] = []

    def second_waits_for_fourth(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> None:
        time.sleep(0.03)  # a far server
        if code in READS:
            chunk = int.from_bytes(arguments[4:12], "big") // (8 * entries)
            if chunk == 3:
                asked_for_fourth.set()
            if chunk == 1 and not waited:
                waited.append(asked_for_fourth.wait(20))

    content = (tmp_path / "large.root").read_bytes()
    # What is read ahead has room for three chunks.
    with (
        xrootd_script(content, second_waits_for_fourth, flags=0) as (url, _, _),
        ChunkStream([Source(url, "events")], ["x"], step_size="2.1 MB", memory_limit="64 MB", threads=1) as stream,
    ):
        assert [len(chunk) for chunk in stream] == [entries] * 6
    assert waited == [True]


def test_files_that_are_opened_sooner_leave_room_for_those_before_them(wide_file: bytes) -> None:
    count = 12
    opened: list[bytes] = []

    def third_opens_last(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> None:
        if code == OPEN:
            # Others could have taken all there is until then.
            time.sleep(0.3 if payload.endswith(b"/f2") else 0.03)
            opened.append(payload)

    with xrootd_script(wide_file, third_opens_last, flags=0) as (url, _, _):
        sources = [Source(f"{url}{number}", "events") for number in range(count)]
        with ChunkStream(sources, None, step_size="10 MB", memory_limit="70 MB", threads=2) as stream:
            assert sum(len(chunk) for chunk in stream) == count * 4500
    # It was not refused because those behind it had taken what there is, and opened again.
    assert len([one for one in opened if one.endswith(b"/f2")]) == 1
    assert len({*opened}) == count


def test_files_for_which_there_was_no_room_ahead_are_opened_ahead_when_there_is(
    wide_file: bytes, tmp_path: Path
) -> None:
    count = 24

    def slow(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> None:
        time.sleep(0.03)

    with xrootd_script(wide_file, slow, flags=0) as (url, script, _), recording(tmp_path / "trace.parquet", "a test"):
        sources = [Source(f"{url}{number}", "events") for number in range(count)]
        with ChunkStream(sources, None, step_size="10 MB", memory_limit="70 MB", threads=2) as stream:
            assert sum(len(chunk) for chunk in stream) == count * 4500
    requests = read_trace(tmp_path / "trace.parquet").rows_of("request").to_pylist()
    of_threads = Counter(one["thread"] for one in requests if one["size_bytes"] > len(wide_file) // 2)
    assert of_threads.total() == count
    # None of the threads reads them one after the other.
    assert max(of_threads.values()) <= count // 2
    # Each was refused once at most.
    assert script.requests.count(OPEN) <= 2 * count


class Watching:
    """From its second file on notes how many are open by then, or soon."""

    name = "watching"
    branches = ("b7",)

    def __init__(self, opened: list[bytes]) -> None:
        self._opened = opened
        self.seen: list[int] = []

    def process(self, events: Any) -> int:
        if self.seen:
            wait_for(self._opened_to_read, FILES)
        self.seen.append(len(self._opened_to_read()))
        return len(events)

    def _opened_to_read(self) -> list[bytes]:
        """Each is opened once before, to ask for its size."""
        return [name for name, count in Counter(self._opened).items() if count > 1]


def test_a_train_opens_files_early_over_the_borders_of_its_sub_jobs(wide_file: bytes, tmp_path: Path) -> None:
    opened: list[bytes] = []

    def slow(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> None:
        if code == OPEN:
            opened.append(payload)
        time.sleep(0.01)

    wagon = Watching(opened)
    with xrootd_script(wide_file, slow, flags=0) as (url, _, _):
        files = [f"{url}{number}:events" for number in range(FILES)]
        result = branchline.run([wagon], files, tmp_path / "out", workers=0)
    assert result.outputs["watching"] == FILES * 4500
    assert result.job["subjobs"] == FILES
    assert wagon.seen[1] == FILES
