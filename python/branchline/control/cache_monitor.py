"""Receives the monitoring streams of XRootD caches (XCache): how many bytes each cache had, and how many it fetched.

A cache sends UDP packets about the files that were closed (stream ``pfc`` of ``xrootd.monitor``). A packet has a binary
head and a JSON object per line. Packets are accepted only from the addresses of the caches in the site configuration.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from branchline.base.limits import UPKEEP_END_S
from branchline.control.background_errors import trouble_of
from branchline.control.database import Database
from branchline.control.reports.periods import text_of
from branchline.control.reports.readings import CacheReads
from branchline.errors import OptionError
from branchline.jobs.sites import SiteCache

#: Maximum size of a packet: the largest of UDP.
PACKET_MAX_BYTES = 65_535
#: Interval at which received sums are stored.
STORED_S = 3.0
#: Maximum number of bytes that a packet may report for a file (16 TiB), and maximum value of a stored sum.
BYTES_MAX, SUM_MAX = 2**44, 2**60
#: First byte of packets with JSON lines, and the length of their binary head: code, number, length and start time, the
#: times of the first and last line, and the sender.
_STREAM, _HEAD = b"g", struct.Struct(">BBHIiiq")
#: First byte of packets without a binary head.
_JSON = b"{"


@dataclass(frozen=True)
class CachePlace:
    """A cache: its storage element, and its site."""

    element: str
    site: str


class CacheMonitor:
    """A thread that receives the packets of caches, and adds them to the database every few seconds.

    ``ignored`` counts packets from other addresses, and ``ignored_address`` is the last of them; ``damaged`` counts
    packets and lines that cannot be parsed; ``trouble`` is the last error of the database.
    """

    def __init__(self, database: Database, listener: socket.socket, caches: Mapping[str, CachePlace]) -> None:
        """Receive packets from ``listener``. ``caches`` are the known caches by IP address."""
        self._database = database
        self._listener = listener
        self._caches = caches
        self._waiting: dict[tuple[str, CachePlace], CacheReads] = {}
        self._stored_s = time.monotonic()
        self._end = threading.Event()
        self.ignored = self.damaged = 0
        self.ignored_address = self.trouble = ""
        self._thread = threading.Thread(target=self._run, name="caches of the control room", daemon=True)
        listener.settimeout(STORED_S / 10)
        self._thread.start()

    @property
    def address(self) -> str:
        """The address that receives packets, as ``HOST:PORT``."""
        host, port, *_ = self._listener.getsockname()
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def close(self) -> None:
        """Store what was received, and stop."""
        self._end.set()
        self._thread.join(UPKEEP_END_S)
        self._listener.close()

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                with suppress(TimeoutError):
                    packet, sender = self._listener.recvfrom(PACKET_MAX_BYTES)
                    self._take(packet, str(sender[0]))
                if time.monotonic() - self._stored_s >= STORED_S:
                    self._store()
            except Exception as error:  # noqa: BLE001 - an internal error must not end the thread
                self.trouble = trouble_of(error, "the monitoring of caches")
                self._end.wait(STORED_S)
        with suppress(Exception):
            self._store()

    def _take(self, packet: bytes, address: str) -> None:
        place = self._caches.get(address.removeprefix("::ffff:"))
        if place is None:
            self.ignored, self.ignored_address = self.ignored + 1, address
            return
        found = list(closed_files(packet))
        self.damaged += found.count(None)
        key = (text_of(datetime.now(UTC)), place)
        for one in found:
            if one is not None:
                self._waiting[key] = self._waiting.get(key, CacheReads()).plus(one)

    def _store(self) -> None:
        self._stored_s = time.monotonic()
        if not self._waiting:
            return
        rows = [
            (hour, place.element, place.site, *(min(one, SUM_MAX) for one in reads.sums))
            for (hour, place), reads in self._waiting.items()
        ]
        sums = ("files", "hit_bytes", "miss_bytes", "bypass_bytes")
        added = ", ".join(f"{one} = min({one} + excluded.{one}, {SUM_MAX})" for one in sums)
        with self._database.writing() as connection:
            connection.executemany(
                "INSERT INTO cache_hours VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - constants
                f" ON CONFLICT (hour, element) DO UPDATE SET site = excluded.site, {added}",
                rows,
            )
        self._waiting, self.trouble = {}, ""


def closed_files(packet: bytes) -> Iterator[CacheReads | None]:
    """Yield the reads of each file that a packet of a cache reports as closed; None for what cannot be parsed.

    Packets of other monitoring streams have no reads.
    """
    kind = packet[:1]
    if kind not in (_STREAM, _JSON):
        return
    if kind == _STREAM and len(packet) < _HEAD.size:
        yield None
        return
    lines = packet[_HEAD.size :] if kind == _STREAM else packet
    for line in lines.rstrip(b"\0").split(b"\n"):
        if line.strip():
            try:
                found = json.loads(line)
                if found.get("event") == "file_close":
                    yield CacheReads(1, *(_bytes_in(found, name) for name in ("b_hit", "b_miss", "b_bypass")))
            # AttributeError: the JSON value is not an object.
            except (ValueError, KeyError, AttributeError, RecursionError):
                yield None


def _bytes_in(found: Mapping[str, object], name: str) -> int:
    value = found[name]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= BYTES_MAX:
        raise ValueError(f"{name} is not a number of bytes")
    return value


def monitor_socket(address: str) -> socket.socket:
    """Return a UDP socket that listens at ``HOST:PORT``. Raises OptionError."""
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
        if not host or port is None:
            raise ValueError("no HOST:PORT")
        family, kind, protocol, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, ValueError) as error:
        what = f"cannot listen for caches at {address!r:.100}: {error}"
        raise OptionError(what, hint="write the address as HOST:PORT, such as 0.0.0.0:9930") from None
    try:
        listener.bind(target)
    except OSError as error:
        listener.close()
        what = f"cannot listen for caches at {address!r:.100}: {error.strerror or error}"
        raise OptionError(what, hint="choose an unused port of this machine") from None
    return listener


def places_of(caches: Mapping[str, SiteCache]) -> dict[str, CachePlace]:
    """Return the caches of sites by IP address. Caches on the same machine count as one.

    Raises OptionError without caches, and for a cache whose host is unknown.
    """
    if not caches:
        what = "no cache is known whose monitoring could be received"
        raise OptionError(what, hint='add cache = "root://HOST:PORT" to a site in the site configuration')
    found: dict[str, CachePlace] = {}
    for site, cache in caches.items():
        try:
            host = urlsplit(cache.server).hostname or ""
            addresses = {str(one[4][0]) for one in socket.getaddrinfo(host, None)}
        except (OSError, ValueError) as error:
            what = f"the host of the cache {cache.server!r:.200} of the site {site} is unknown: {error}"
            raise OptionError(what, hint="correct the site configuration") from None
        for address in sorted(addresses):
            found.setdefault(address, CachePlace(cache.server, site))
    return found
