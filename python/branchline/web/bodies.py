"""Bodies of requests, bounded in size, plain and compressed."""

from __future__ import annotations

import zlib

from starlette.exceptions import HTTPException
from starlette.requests import Request

from branchline.limits import REPORT_PLAIN_MAX_BYTES, REQUEST_MAX_BYTES


async def body_of(request: Request) -> bytes:
    """The body, decompressed if it says so. Raises HTTPException: 413 if it is too long, 400 if it is damaged."""
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > REQUEST_MAX_BYTES:
            raise HTTPException(413, f"a request has up to {REQUEST_MAX_BYTES} bytes")
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding == "identity":
        return bytes(content)
    if encoding != "gzip":
        raise HTTPException(415, "a body is plain or gzip")
    return _unzipped(bytes(content))


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
