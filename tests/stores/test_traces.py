"""A trace holds the requests that the servers themselves have in their logs: every one, with its ranges and bytes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
from tests.stores.servers import Folder, Nginx, Xrootd, certificates, loopback_shim, wait_for

from branchline import Access
from branchline._core import Proxy
from branchline.reading.sources import Source
from branchline.reading.trees.file import File
from branchline.reading.trees.stream import ChunkStream
from branchline.tracing.recording import recording
from branchline.tracing.trace import PART, REQUEST, Trace, read_trace
from branchline.tracing.trace_summary import summarise

BRANCHES = [f"branch_{number}" for number in range(40)]
SOME = [BRANCHES[number] for number in (1, 2, 9, 20, 21, 39)]
Range = tuple[int, int]


@pytest.fixture
def data(own_folder: Folder) -> Path:
    """A folder with a file of 10 MB, of which a few branches are read in several ranges."""
    folder = own_folder.below("data")
    numbers = np.random.default_rng(3)
    with uproot.recreate(folder / "events.root", compression=uproot.ZLIB(1)) as file:
        tree = file.mktree("events", dict.fromkeys(BRANCHES, "float64"))
        for _ in range(4):
            tree.extend({name: numbers.normal(size=8000) for name in BRANCHES})
    return folder


@pytest.fixture
def nginx(own_folder: Folder, data: Path) -> Iterator[Nginx]:
    keys = own_folder.below("certificates")
    certificates(keys)
    nginx = Nginx(own_folder.below("nginx"), data, keys)
    nginx.start()
    yield nginx
    nginx.kill()


@pytest.fixture
def xrootd(own_folder: Folder, data: Path) -> Iterator[Xrootd]:
    """A server that logs every request."""
    server = Xrootd(own_folder.below("xrootd"), data, loopback_shim(own_folder.path), "xrootd.trace all\n")
    server.start()
    yield server
    server.kill()


def recorded(url: str, path: Path, branches: list[str] | None) -> Trace:
    """A trace of reading some branches of the file, or all."""
    with recording(path, "a test"):
        File(url).tree().arrays(branches)
    return read_trace(path)


def joined(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """Ranges of which neighbours are one."""
    own: list[Range] = []
    for begin, end in ranges:
        own = [*own[:-1], (own[-1][0], end)] if own and own[-1][1] == begin else [*own, (begin, end)]
    return tuple(own)


def ranges_of_requests(trace: Trace) -> dict[int, tuple[Range, ...]]:
    """The ranges of each request, joined from the pieces that it hit."""
    found: dict[int, list[Range]] = {}
    for row in trace.rows_of(PART).to_pylist():
        found.setdefault(row["request"], []).append((row["offset"], row["offset"] + row["size_bytes"]))
    return {number: joined(own) for number, own in found.items()}


def check_rows(rows: list[dict[str, Any]]) -> None:
    assert {row["outcome"] for row in rows} == {"ok"}
    assert {row["attempt"] for row in rows} == {1}
    assert all(row["size_bytes"] == row["got_bytes"] for row in rows)
    assert all(row["queued_ns"] <= row["sent_ns"] <= row["first_byte_ns"] <= row["last_byte_ns"] for row in rows)


@pytest.mark.parametrize("branches", [None, SOME])
def test_every_request_is_in_the_access_log_of_nginx(nginx: Nginx, tmp_path: Path, branches: list[str] | None) -> None:
    trace = recorded(f"http://127.0.0.1:{nginx.port}/events.root", tmp_path / "t.parquet", branches)
    rows = trace.rows_of(REQUEST).to_pylist()
    wait_for(lambda: nginx.ranges, len(rows))
    lines = [line.split(" ", 2) for line in nginx.ranges]
    # A connection has a number of its own, and is used again.
    assert all(row["connection"] > 0 for row in rows)
    assert len({row["connection"] for row in rows}) <= len(rows)
    logged = [joined([(int(a), int(b) + 1) for a, b in re.findall(r"(\d+)-(\d+)", ranges)]) for _, _, ranges in lines]
    assert len(rows) == len(lines) >= 3
    assert Counter(ranges_of_requests(trace).values()) == Counter(logged)
    check_rows(rows)
    # An answer of several ranges has lines between these, which are no bytes of the file.
    in_parts = {ranges for ranges, (_, _, asked) in zip(logged, lines, strict=True) if "," in asked}
    several = {number for number, ranges in ranges_of_requests(trace).items() if ranges in in_parts}
    alone = sum(row["got_bytes"] for row in rows if row["request"] not in several)
    assert alone == sum(int(sent) for _, sent, ranges in lines if "," not in ranges)
    check_branches(trace, branches)


def reads_in(log: Path) -> list[tuple[Range, ...]]:
    """The ranges of each request in the log of an XRootD server that logs all: those of a vector read together."""
    found: list[list[Range]] = []
    # Lines of requests over several connections may be mixed.
    current: dict[tuple[str, str], list[Range]] = {}
    for line in log.read_text().splitlines():
        one = re.search(r" (\S+) Xrootd_Protocol: (\w+) (?:req=|.*?(?:pgread|read|readV) (\d+)@(\d+))", line)
        if one is None:
            continue
        request = one[1], one[2]
        if one[3] is None:
            current[request] = []
            found.append(current[request])
        else:
            begin = int(one[4])
            current[request].append((begin, begin + int(one[3])))
    return [joined(own) for own in found if own]


@pytest.mark.parametrize("branches", [None, SOME])
def test_every_read_is_in_the_log_of_the_xrootd_server(
    own_folder: Folder, xrootd: Xrootd, tmp_path: Path, branches: list[str] | None
) -> None:
    trace = recorded(f"root://127.0.0.1:{xrootd.port}//events.root", tmp_path / "t.parquet", branches)
    rows = trace.rows_of(REQUEST).to_pylist()
    wait_for(lambda: reads_in(log_of(own_folder)), len(rows))
    logged = reads_in(log_of(own_folder))
    assert len(rows) == len(logged) >= 2
    assert Counter(ranges_of_requests(trace).values()) == Counter(logged)
    check_rows(rows)
    assert all(row["connection"] > 0 for row in rows)
    check_branches(trace, branches)


def check_branches(trace: Trace, branches: list[str] | None) -> None:
    """What was read and used is what was asked for."""
    found = summarise(trace).as_json()
    used = {row["branch"] for row in found["branches"] if row["unwanted_bytes"] == 0}
    assert used == set(branches or BRANCHES)
    assert {row["what"] for row in found["spans"]} == {"wait", "decompress", "decode"}


#: A proxy before the server resets connections in the middle of answers, but not of the first few requests.
RESETS = "reset,every=13,after=6,seed=3"


def asked(trace: Trace) -> Counter[Range]:
    """The first byte and the bytes of each request for a part of the file, whatever became of it."""
    rows = trace.rows_of(REQUEST).to_pylist()
    return Counter((row["offset"], row["size_bytes"]) for row in rows if row["size_bytes"])


def first_and_bytes(ranges: Sequence[Range]) -> Range:
    return ranges[0][0], sum(end - begin for begin, end in ranges)


def logged_by_nginx(nginx: Nginx) -> list[list[Range]]:
    """The ranges of each request that asked for any."""
    lines = [line.split(" ", 2)[2] for line in nginx.ranges]
    logged = [[(int(a), int(b) + 1) for a, b in re.findall(r"(\d+)-(\d+)", ranges)] for ranges in lines]
    return [ranges for ranges in logged if ranges]


def log_of(own_folder: Folder) -> Path:
    return own_folder.path / "xrootd" / "test" / "xrootd.log"


def read_through_resets(url: str, port: int, path: Path) -> Trace:
    """A trace of reading all of the file through a proxy that resets connections."""
    proxy = Proxy("127.0.0.1:0", f"127.0.0.1:{port}", "", RESETS)
    try:
        with recording(path, "a test"):
            File(url.format(proxy.address), access=Access(mode="plain")).tree().arrays(BRANCHES)
    finally:
        proxy.close()
    return read_trace(path)


def test_every_try_after_a_reset_is_in_the_access_log_of_nginx(
    nginx: Nginx, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_PAUSE", "0.001")
    trace = read_through_resets("http://{}/events.root", nginx.port, tmp_path / "t.parquet")
    wait_for(lambda: logged_by_nginx(nginx), sum(asked(trace).values()))
    assert asked(trace) == Counter(map(first_and_bytes, logged_by_nginx(nginx)))
    check_tries(trace)


def test_every_try_after_a_reset_is_in_the_log_of_the_xrootd_server(
    own_folder: Folder, xrootd: Xrootd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_PAUSE", "0.001")
    trace = read_through_resets("root://{}//events.root", xrootd.port, tmp_path / "t.parquet")
    wait_for(lambda: reads_in(log_of(own_folder)), sum(asked(trace).values()))
    assert asked(trace) == Counter(map(first_and_bytes, reads_in(log_of(own_folder))))
    check_tries(trace)


def check_tries(trace: Trace) -> None:
    rows = trace.rows_of(REQUEST).to_pylist()
    failed = [row for row in rows if row["outcome"] != "ok"]
    assert len(failed) >= 3
    assert {row["attempt"] for row in rows} >= {1, 2}


def staged(url: str, folder: Path) -> Trace:
    """A trace of reading some branches of a copy of the file."""
    access = Access(mode="stage", stage_dir=str(folder))
    with recording(folder / "t.parquet", "a test"):
        File(url, access=access).tree().arrays(SOME)
    return read_trace(folder / "t.parquet")


def check_staged(trace: Trace, logged: Sequence[Sequence[Range]], size_bytes: int) -> None:
    """What was asked of the server is the file, once, and all is in its log; the rest was asked of the copy."""
    rows = trace.rows_of(REQUEST).to_pylist()
    near = [row for row in rows if row["store"].startswith("local:")]
    far = Counter((row["offset"], row["size_bytes"]) for row in rows if row not in near and row["size_bytes"])
    assert far == Counter(map(first_and_bytes, logged))
    assert sum(size for _, size in far) >= size_bytes
    assert sum(row["got_bytes"] for row in near) > 0
    assert min(row["sent_ns"] for row in near) >= max(row["last_byte_ns"] for row in rows if row not in near)


def test_a_copy_is_made_by_requests_that_are_in_the_access_log_of_nginx(
    nginx: Nginx, data: Path, tmp_path: Path
) -> None:
    trace = staged(f"http://127.0.0.1:{nginx.port}/events.root", tmp_path)
    wait_for(lambda: logged_by_nginx(nginx), 1)
    check_staged(trace, logged_by_nginx(nginx), (data / "events.root").stat().st_size)


def test_a_copy_is_made_by_reads_that_are_in_the_log_of_the_xrootd_server(
    own_folder: Folder, xrootd: Xrootd, data: Path, tmp_path: Path
) -> None:
    trace = staged(f"root://127.0.0.1:{xrootd.port}//events.root", tmp_path)
    wait_for(lambda: reads_in(log_of(own_folder)), 1)
    check_staged(trace, reads_in(log_of(own_folder)), (data / "events.root").stat().st_size)


def test_requests_that_were_decided_together_say_so_whenever_they_are_sent(nginx: Nginx, tmp_path: Path) -> None:
    trace = recorded(f"http://127.0.0.1:{nginx.port}/one-range/events.root", tmp_path / "trace.parquet", SOME)
    rows = trace.rows_of(REQUEST).to_pylist()
    [(decided_ns, count)] = Counter(row["queued_ns"] for row in rows).most_common(1)
    assert count > len(SOME)
    sent_ns = {row["sent_ns"] for row in rows if row["queued_ns"] == decided_ns}
    assert len(sent_ns) > 1
    assert min(sent_ns) >= decided_ns


def test_requests_of_what_is_asked_for_ahead_were_decided_before_they_are_sent(nginx: Nginx, tmp_path: Path) -> None:
    access = Access(requests_in_flight=2)
    with recording(tmp_path / "trace.parquet", "a test"):
        sources = [Source(f"http://127.0.0.1:{nginx.port}/events.root?{number}", "events") for number in range(8)]
        with ChunkStream(sources, SOME, access=access) as stream:
            assert len(list(stream)) >= 8
    rows = read_trace(tmp_path / "trace.parquet").rows_of(REQUEST).to_pylist()
    assert all(row["queued_ns"] <= row["sent_ns"] for row in rows)
    assert sum(row["queued_ns"] < row["sent_ns"] for row in rows) >= len(sources)
