"""Limits of requests: body size, time and memory, and how often a client may ask or try a password."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from branchline.base.limits import (
    LOGIN_PLACES_MAX,
    REPORT_PLAIN_MAX_BYTES,
    REQUEST_BODY_S,
    REQUEST_MAX_BYTES,
    REQUESTS_MAX_BYTES,
)


class BodyRoom:
    """The memory of all bodies that are under way."""

    def __init__(self) -> None:
        self._held_bytes = 0

    @contextmanager
    def held(self, headers: Headers) -> Iterator[bool]:
        """Holds the memory of a request's body; gives False if there is none left."""
        size_bytes = announced_bytes(headers)
        fits = self._held_bytes + size_bytes <= REQUESTS_MAX_BYTES
        if not fits:
            size_bytes = 0
        self._held_bytes += size_bytes
        try:
            yield fits
        finally:
            self._held_bytes -= size_bytes


def announced_bytes(headers: Headers) -> int:
    """The size of a body as its head has it; one in pieces may have the largest."""
    if "transfer-encoding" in headers:
        return REQUEST_MAX_BYTES
    return int(headers.get("content-length", "0"))


def bounded(receive: Receive) -> Receive:
    """The messages of a body, until it is too long or too slow: then HTTPException is raised where it is read."""
    end = asyncio.get_running_loop().time() + REQUEST_BODY_S
    received_bytes, is_whole = 0, False

    async def next_message() -> Message:
        nonlocal received_bytes, is_whole
        if is_whole:
            return await receive()
        try:
            async with asyncio.timeout_at(end):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, f"a request has to come within {REQUEST_BODY_S:.0f} s") from None
        received_bytes += len(message.get("body", b""))
        if received_bytes > REQUEST_MAX_BYTES:
            raise HTTPException(413, f"a request has up to {REQUEST_MAX_BYTES} bytes")
        is_whole = not message.get("more_body", False)
        return message

    return next_message


def plain_body(content: bytes, headers: Headers) -> bytes:
    """The body decompressed, if it says so. Raises HTTPException: 413 if it is too long then, 400 if it is damaged."""
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding == "identity":
        return content
    if encoding != "gzip":
        raise HTTPException(415, "a body is plain or gzip")
    return _unzipped(content)


def _unzipped(content: bytes) -> bytes:
    unzip = zlib.decompressobj(wbits=31)
    try:
        plain = unzip.decompress(content, REPORT_PLAIN_MAX_BYTES + 1)
    except zlib.error as error:
        raise HTTPException(400, f"the body is no gzip: {error}") from None
    if len(plain) > REPORT_PLAIN_MAX_BYTES:
        raise HTTPException(413, f"a body has up to {REPORT_PLAIN_MAX_BYTES} bytes after decompression")
    if not unzip.eof:
        raise HTTPException(400, "the body is cut short")
    return plain


@dataclass
class Rates:
    """At most ``count_max`` times in ``span_s`` for each name."""

    count_max: int
    span_s: float
    now_s: Callable[[], float] = time.monotonic
    _counts: dict[str, int] = field(default_factory=dict)
    _began_s: float = 0.0

    def add(self, name: str) -> bool:
        """Counts one; False if it is too much."""
        self._renew()
        key = self._key(name)
        self._counts[key] = self._counts.get(key, 0) + 1
        return self._counts[key] <= self.count_max

    def is_over(self, name: str) -> bool:
        """Whether the next one is too much."""
        self._renew()
        return self._counts.get(self._key(name), 0) >= self.count_max

    def forget(self, name: str) -> None:
        """Begins anew for a name."""
        self._counts.pop(name, None)

    def _key(self, name: str) -> str:
        """Names may come from outside: when there are too many, those that are not known yet share one count."""
        return name if name in self._counts or len(self._counts) < LOGIN_PLACES_MAX else ""

    def _renew(self) -> None:
        if self.now_s() - self._began_s > self.span_s:
            self._began_s = self.now_s()
            self._counts.clear()
