"""Connections that send slowly, or nothing, are closed; those in the middle of something are not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from tests.patience import HANG_S

from branchline.control.people import ADMINISTRATOR, Person
from branchline.control.web import request_limits
from branchline.control.web import server as control_server
from branchline.control.web.security import Guard
from branchline.control.web.server import TimedConnection, _listening
from branchline.control.web.server_settings import OwnToken, ServerSettings

TOKEN = "t" * 32
HEAD = f"Host: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
GET = f"GET /late HTTP/1.1\r\n{HEAD}\r\n"


async def body_length(request: Request) -> Response:
    return PlainTextResponse(f"{len(await request.body())} bytes")


async def late(_: Request) -> Response:
    await asyncio.sleep(1.5)
    return PlainTextResponse("late")


@asynccontextmanager
async def serving() -> AsyncIterator[int]:
    """The port of a server behind our guard."""
    app = Starlette(routes=[Route("/body", body_length, methods=["POST"]), Route("/late", late)])
    guard = Guard(app, ServerSettings(OwnToken(TOKEN, Person("me", ADMINISTRATOR))))
    with closing(_listening("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(guard, http=TimedConnection, lifespan="off", log_level="error", access_log=False)
        server = uvicorn.Server(config)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(server._serve([listener]))
            try:
                yield listener.getsockname()[1]
            finally:
                server.should_exit = True


async def answer_of(port: int, *sent: str) -> str:
    """All that comes back until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for one in sent:
        writer.write(one.encode())
        await writer.drain()
    async with asyncio.timeout(HANG_S):
        content = await reader.read()
    writer.close()
    await writer.wait_closed()
    return content.decode()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_server, "REQUEST_HEAD_S", 1.0)
    monkeypatch.setattr(request_limits, "REQUEST_BODY_S", 1.0)


@pytest.mark.usefixtures("hurried")
def test_a_head_that_does_not_end_is_not_waited_for() -> None:
    async def ask() -> list[str]:
        async with serving() as port:
            return await asyncio.gather(answer_of(port), answer_of(port, "GET / HT"), answer_of(port, GET, "GET /la"))

    nothing, half, second_half = asyncio.run(ask())
    assert (nothing, half) == ("", "")
    # An answer takes longer than a head may, and still comes.
    assert second_half.endswith("\r\n\r\nlate")


@pytest.mark.usefixtures("hurried")
def test_a_body_that_does_not_end_is_refused() -> None:
    async def ask() -> list[str]:
        head = f"POST /body HTTP/1.1\r\n{HEAD}"
        async with serving() as port:
            return await asyncio.gather(
                answer_of(port, f"{head}Content-Length: 100\r\n\r\n", "half of it"),
                answer_of(port, f"{head}Transfer-Encoding: chunked\r\n\r\n", "4\r\nhalf\r\n"),
            )

    for answer in asyncio.run(ask()):
        assert answer.startswith("HTTP/1.1 408 ")
        assert answer.endswith("the request did not arrive within 1 s")


def test_a_body_in_pieces_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "REQUEST_MAX_BYTES", 1000)

    async def ask(size: int) -> str:
        piece = f"{size:x}\r\n{'x' * size}\r\n"
        head = f"POST /body HTTP/1.1\r\n{HEAD}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        async with serving() as port:
            return await answer_of(port, head, piece, piece, "0\r\n\r\n")

    assert asyncio.run(ask(500)).endswith("1000 bytes")
    assert asyncio.run(ask(501)).startswith("HTTP/1.1 413 ")


def test_no_more_is_taken_at_once_than_fits_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "REQUESTS_MAX_BYTES", 1000)

    def request(length: int) -> str:
        return f"POST /body HTTP/1.1\r\n{HEAD}Connection: close\r\nContent-Length: {length}\r\n\r\n"

    async def ask() -> list[str]:
        async with serving() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request(600).encode() + b"x")
            await writer.drain()
            while not (refused := await answer_of(port, request(600), "y" * 600)).startswith("HTTP/1.1 429 "):
                await asyncio.sleep(0.01)
            small = await answer_of(port, request(400), "z" * 400)
            writer.write(b"x" * 599)
            held = (await reader.read()).decode()
            writer.close()
            return [refused, small, held, await answer_of(port, request(600), "y" * 600)]

    refused, small, held, after = asyncio.run(ask())
    assert "retry-after: 10" in refused
    assert [one.rpartition("\n")[2] for one in (small, held, after)] == ["400 bytes", "600 bytes", "600 bytes"]
