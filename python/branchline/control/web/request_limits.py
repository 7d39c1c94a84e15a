"""Limits on requests: body size, time to receive a body, memory of all bodies together, and request rates."""

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
    """A limit on the total memory of all request bodies that are being received."""

    def __init__(self) -> None:
        self._held_bytes = 0

    @contextmanager
    def held(self, headers: Headers) -> Iterator[bool]:
        """Reserve memory for the body of a request until exit. Yields False if not enough memory is left."""
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
    """Return the size of a body according to the request headers; the maximum size for a chunked body."""
    if "transfer-encoding" in headers:
        return REQUEST_MAX_BYTES
    return int(headers.get("content-length", "0"))


def bounded(receive: Receive) -> Receive:
    """Return a receive function that raises HTTPException if the body is too long or arrives too slowly."""
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
            raise HTTPException(408, f"the request did not arrive within {REQUEST_BODY_S:.0f} s") from None
        received_bytes += len(message.get("body", b""))
        if received_bytes > REQUEST_MAX_BYTES:
            raise HTTPException(413, f"the request is longer than {REQUEST_MAX_BYTES} bytes")
        is_whole = not message.get("more_body", False)
        return message

    return next_message


def plain_body(content: bytes, headers: Headers) -> bytes:
    """Return a request body. Decompresses the body if the content encoding is gzip.

    Raises HTTPException with status 413 for a body that is too long, 400 for a damaged body, and 415 for an unsupported
    content encoding.
    """
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding == "identity":
        return content
    if encoding != "gzip":
        raise HTTPException(415, f"unsupported content encoding {encoding!r:.40}; use gzip or none")
    unzip = zlib.decompressobj(wbits=31)
    try:
        plain = unzip.decompress(content, REPORT_PLAIN_MAX_BYTES + 1)
    except zlib.error as error:
        raise HTTPException(400, f"the body is not valid gzip: {error}") from None
    if len(plain) > REPORT_PLAIN_MAX_BYTES:
        raise HTTPException(413, f"the decompressed body is longer than {REPORT_PLAIN_MAX_BYTES} bytes")
    if not unzip.eof:
        raise HTTPException(400, "the body is truncated")
    return plain


@dataclass
class RateLimit:
    """Limits the number of events for each name to ``count_max`` per ``span_s``."""

    count_max: int
    span_s: float
    now_s: Callable[[], float] = time.monotonic
    _counts: dict[str, int] = field(default_factory=dict)
    _began_s: float = 0.0

    def add(self, name: str) -> bool:
        """Count an event. Returns False if the event exceeds the limit."""
        self._renew()
        key = self._key(name)
        self._counts[key] = self._counts.get(key, 0) + 1
        return self._counts[key] <= self.count_max

    def is_over(self, name: str) -> bool:
        """Whether the next event would exceed the limit."""
        self._renew()
        return self._counts.get(self._key(name), 0) >= self.count_max

    def forget(self, name: str) -> None:
        """Reset the count of a name."""
        self._counts.pop(name, None)

    def _key(self, name: str) -> str:
        """Return the key under which a name is counted.

        Names can come from requests. If there are too many names, further names share one count.
        """
        return name if name in self._counts or len(self._counts) < LOGIN_PLACES_MAX else ""

    def _renew(self) -> None:
        if self.now_s() - self._began_s > self.span_s:
            self._began_s = self.now_s()
            self._counts.clear()
