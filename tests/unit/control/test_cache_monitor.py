"""The monitoring streams of caches: what the caches of the site configuration say is counted, all else is not."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.patience import HANG_S
from tests.unit.control.web.server import Server

from branchline.control.cache_monitor import BYTES_MAX, closed_files
from branchline.control.reports.readings import CacheReads, Period
from branchline.control.room import ControlRoom
from branchline.errors import OptionError
from branchline.jobs.sites import SITE_FILE_VARIABLE

#: A line of XRootD 5.5.3.
CLOSED = (
    b'{"event":"file_close","lfn":"/aa/one.root","size":331281,"blk_size":131072,"n_blks":3,"n_blks_done":3,'
    b'"access_cnt":2,"attach_t":1796064917,"detach_t":1796064917,"remotes":["127.0.0.1:18959"],'
    b'"b_hit":%d,"b_miss":%d,"b_bypass":%d,"n_cks_errs":0}'
)


def packet(*lines: bytes) -> bytes:
    body = b"\n".join(lines) + b"\0"
    return struct.pack(">BBHIiiq", ord("g"), 7, 24 + len(body), 1, 2, 3, 4) + body


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (packet(CLOSED % (848923, 0, 0), CLOSED % (1, 2, 3)), [CacheReads(1, 848923, 0, 0), CacheReads(1, 1, 2, 3)]),
        (CLOSED % (1, 2, 3), [CacheReads(1, 1, 2, 3)]),
        (packet(b'{"event":"file_open","lfn":"/f"}'), []),
        (b"u\0\0\x10 of another stream", []),
        (b"", []),
        (b"g", [None]),
        (packet(b"no JSON", b"[1]", b'"text"', b"[" * 60_000), [None] * 4),
        (packet(CLOSED % (-1, 0, 0), CLOSED % (BYTES_MAX + 1, 0, 0)), [None, None]),
        (
            packet(b'{"event":"file_close"}', b'{"event":"file_close","b_hit":1.5,"b_miss":true,"b_bypass":0}'),
            [None] * 2,
        ),
        (packet(CLOSED % (1, 2, 3))[:-40], [None]),
    ],
)
def test_what_a_packet_says_is_taken_or_is_damaged(content: bytes, found: list[CacheReads | None]) -> None:
    assert list(closed_files(content)) == found


def site_file(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (folder / "site.toml").write_text(text)
    monkeypatch.setenv(SITE_FILE_VARIABLE, str(folder / "site.toml"))


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlRoom]:
    site_file(tmp_path, monkeypatch, '[sites.GSI]\ncache = "root://127.0.0.1:1094"\n')
    monkeypatch.setattr("branchline.control.cache_monitor.STORED_S", 0.1)
    with closing(ControlRoom(tmp_path / "room")) as room:
        yield room


def send(address: str, content: bytes, sender: str = "127.0.0.1") -> None:
    host, _, port = address.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.bind((sender, 0))
        client.sendto(content, (host, int(port)))


def test_the_reads_of_a_cache_are_summed_by_hour_and_day(room: ControlRoom) -> None:
    address = room.watch_caches("127.0.0.1:0")
    assert room.cache_monitor is not None
    send(address, packet(CLOSED % (100, 900, 0)), sender="127.0.0.2")
    for _ in range(3):
        send(address, packet(CLOSED % (100, 900, 10), b"damaged"))
    room_end_s = time.monotonic() + HANG_S
    while sum(one.reads.files for one in room.cache_hours(Period(), by_day=False)) < 3:
        assert time.monotonic() < room_end_s
        time.sleep(0.02)
    for by_day, hours in ((False, 1), (True, 24)):
        # Midnight may pass between the packets.
        found = room.cache_hours(Period(), by_day=by_day)
        assert {(one.element, one.site, one.hours) for one in found} == {("root://127.0.0.1:1094", "GSI", hours)}
        assert [sum(one) for one in zip(*(one.reads.sums for one in found), strict=True)] == [3, 300, 2700, 30]
    monitor = room.cache_monitor
    assert (monitor.ignored, monitor.ignored_address, monitor.damaged) == (1, "127.0.0.2", 3)
    assert monitor.trouble == ""
    assert room.cache_hours(Period(until="2020-01-01T00:00:00+00:00"), by_day=False) == []


def test_what_was_received_last_is_stored_at_the_end(room: ControlRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.control.cache_monitor.STORED_S", 2.0)
    address = room.watch_caches("127.0.0.1:0")
    send(address, packet(CLOSED % (7, 0, 0)))
    assert room.cache_monitor is not None
    end_s = time.monotonic() + HANG_S
    while not room.cache_monitor._waiting and not room.cache_hours(Period(), by_day=True):
        assert time.monotonic() < end_s
        time.sleep(0.01)
    room.cache_monitor.close()
    [found] = room.cache_hours(Period(), by_day=True)
    assert found.reads == CacheReads(1, 7, 0, 0)


@pytest.mark.parametrize(
    "address", ["9930", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", "[::1:1", "no.such.host.invalid:1"]
)
def test_an_address_that_is_none_is_refused(room: ControlRoom, address: str) -> None:
    with pytest.raises(OptionError, match="HOST:PORT"):
        room.watch_caches(address)


def test_a_port_in_use_and_missing_caches_are_said(
    room: ControlRoom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = room.watch_caches("127.0.0.1:0")
    with pytest.raises(OptionError, match="unused port"):
        room.watch_caches(address)
    site_file(tmp_path, monkeypatch, '[sites.GSI]\ncache = "root://no.such.host.invalid"\n')
    with pytest.raises(OptionError, match=r"no\.such\.host\.invalid.* of the site GSI is unknown"):
        room.watch_caches("127.0.0.1:0")
    site_file(tmp_path, monkeypatch, "")
    with pytest.raises(OptionError, match="no cache is known"):
        room.watch_caches("127.0.0.1:0")


def test_the_page_of_storages_shows_hits_and_misses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site_file(tmp_path, monkeypatch, '[sites."<b>A"]\ncache = "root://127.0.0.1:1094"\n')
    with Server(tmp_path / "room", options=("--caches", "127.0.0.1:0")) as server:
        assert server.process.stdout is not None
        said = server.process.stdout.readline()
        assert said.startswith("caches report to 127.0.0.1:")
        send(said.split()[3], packet(CLOSED % (3_000_000, 1_000_000, 0)))
        end_s = time.monotonic() + HANG_S
        while not (found := server.get("/elements.json").json())["caches"]:
            assert time.monotonic() < end_s
            time.sleep(0.1)
        reads = {"files": 1, "hit_bytes": 3_000_000, "miss_bytes": 1_000_000, "bypass_bytes": 0}
        assert found["caches"] == [{"element": "root://127.0.0.1:1094", "site": "<b>A", "reads": reads}]
        assert json.dumps(found["cache_hours"]).count("root://127.0.0.1:1094") == 1
        page = server.get("/elements?period=all").text
        assert "Read through caches" in page
        assert "&lt;b&gt;A" in page
        assert "<b>A" not in page
        assert "75" in page
