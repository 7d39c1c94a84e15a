"""Live pages: server-sent events announce changes, and pages then reload their parts.

A page that is requested several times is rendered once per change.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from branchline.base.limits import (
    LIVE_AGE_MAX_S,
    LIVE_HEARTBEAT_S,
    LIVE_INTERVAL_S,
    LIVE_KNOWN_S,
    LIVE_VIEWERS_MAX,
    LIVE_VIEWERS_OF_PERSON_MAX,
    PAGES_AT_ONCE,
    PAGES_KEPT_MAX,
)
from branchline.control.people import Person
from branchline.control.room import ControlRoom


class Ticks:
    """The version of the control room that viewers are told of: a new one once in LIVE_INTERVAL_S at most, and once in
    LIVE_AGE_MAX_S at least. Pages change although nothing comes: a job that sends nothing any more is silent.
    """

    def __init__(self, room: ControlRoom) -> None:
        self._room = room
        self.renew()

    def now(self) -> int:
        """The version of this interval."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= LIVE_INTERVAL_S:
            self.renew()
        return self._version

    def renew(self) -> None:
        """A new interval begins: who has changed something sees it at once."""
        self._looked_s = time.monotonic()
        # Both numbers only grow: so does the sum, whenever one of them does.
        self._version = self._room.version + int(self._looked_s / LIVE_AGE_MAX_S)


async def events(request: Request) -> Response:
    """The stream of a browser, which opens it again when it ends."""
    state = request.app.state
    # One person must not take the places of all; whoever is alone has them.
    own_max = LIVE_VIEWERS_OF_PERSON_MAX if state.is_shared else LIVE_VIEWERS_MAX
    if state.viewers.total() >= LIVE_VIEWERS_MAX or state.viewers[request.state.person.name] >= own_max:
        return Response("Too many pages are open.\n", 503, {"Retry-After": "60"})
    return StreamingResponse(_changes(request), media_type="text/event-stream")


async def _changes(request: Request) -> AsyncIterator[str]:
    state = request.app.state
    ticks: Ticks = state.ticks
    name = request.state.person.name
    state.viewers[name] += 1
    try:
        yield "retry: 2000\n\n"
        seen, quiet_s, known_s = ticks.now(), 0.0, 0.0
        while not state.ending.is_set() and not await request.is_disconnected():
            with suppress(TimeoutError):
                await asyncio.wait_for(state.ending.wait(), LIVE_INTERVAL_S)
            quiet_s += LIVE_INTERVAL_S
            known_s += LIVE_INTERVAL_S
            if known_s >= LIVE_KNOWN_S:
                known_s = 0.0
                # They may have logged out, or been disabled, since.
                if await request.state.login_again() is None:
                    return
            if ticks.now() != seen:
                seen, quiet_s, known_s = ticks.now(), 0.0, 0.0
                yield f"event: changed\ndata: {seen}\n\n"
            elif quiet_s > LIVE_HEARTBEAT_S:
                # A proxy between them would close a silent stream.
                quiet_s = 0.0
                yield ": nothing\n\n"
    finally:
        state.viewers[name] -= 1
        # Names of those who have gone are not kept.
        state.viewers += Counter()


#: An address with its question, and who asks.
Key = tuple[str, str, Person]


class SharedPages:
    """The pages of the last version that viewers were told of. Used by the server's one loop."""

    def __init__(self, ticks: Ticks) -> None:
        self._ticks = ticks
        self._drawn: dict[Key, tuple[int, asyncio.Future[str]]] = {}
        # Jobs that report have other threads: pages never keep them waiting.
        self._threads = ThreadPoolExecutor(PAGES_AT_ONCE, "branchline-pages")

    async def page(self, key: Key, draw: Callable[[], str]) -> str:
        """What ``draw`` gives, perhaps to an earlier request of this version, or raises."""
        version = self._ticks.now()
        known = self._drawn.get(key)
        # What failed may work now, although nothing was reported: the disk has room again.
        if known is None or known[0] != version or _has_failed(known[1]):
            if len(self._drawn) >= PAGES_KEPT_MAX:
                self._drawn.clear()
            drawing = asyncio.get_running_loop().run_in_executor(self._threads, draw)
            drawing.add_done_callback(_retrieve)
            known = self._drawn[key] = (version, drawing)
        # Whoever goes away before it is drawn does not take it from the others.
        return await asyncio.shield(known[1])


def _has_failed(drawing: asyncio.Future[str]) -> bool:
    return drawing.done() and (drawing.cancelled() or drawing.exception() is not None)


def _retrieve(drawing: asyncio.Future[str]) -> None:
    """An error that nobody waits for any more is no fault of the loop."""
    if not drawing.cancelled():
        drawing.exception()
