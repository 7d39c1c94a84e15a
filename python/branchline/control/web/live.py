"""Live pages: server-sent events announce changes of the control room, and pages in browsers then reload their parts.

The server renders a page only once per change, and caches the page for all browsers.
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
    """The version number of pages.

    Except after ``renew``, the version changes at most once per LIVE_INTERVAL_S. The version changes at least once per
    LIVE_AGE_MAX_S, because the content of pages also changes with time.
    """

    def __init__(self, room: ControlRoom) -> None:
        self._room = room
        self.renew()

    def now(self) -> int:
        """Return the current version of pages."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= LIVE_INTERVAL_S:
            self.renew()
        return self._version

    def renew(self) -> None:
        """Update the version now, so that users see their own changes immediately."""
        self._looked_s = time.monotonic()
        # Both numbers only increase, so the sum changes whenever one number changes.
        self._version = self._room.version + int(self._looked_s / LIVE_AGE_MAX_S)


async def events(request: Request) -> Response:
    """Return a stream of server-sent events. Browsers reconnect when the stream ends."""
    state = request.app.state
    # A single user may use all connections. In a shared control room, each user may use only a part of them.
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
                # End the stream if the user has logged out or the account was disabled in the meantime.
                if await request.state.login_again() is None:
                    return
            if ticks.now() != seen:
                seen, quiet_s, known_s = ticks.now(), 0.0, 0.0
                yield f"event: changed\ndata: {seen}\n\n"
            elif quiet_s > LIVE_HEARTBEAT_S:
                # Send a comment, because a proxy may close an idle connection.
                quiet_s = 0.0
                yield ": nothing\n\n"
    finally:
        state.viewers[name] -= 1
        # Adding an empty Counter removes names with a count of 0.
        state.viewers += Counter()


#: Key of a cached page: path, query and user of the request.
Key = tuple[str, str, Person]


class SharedPages:
    """A cache of rendered pages. Pages of outdated versions are rendered again.

    Must only be used in the server's event loop.
    """

    def __init__(self, ticks: Ticks) -> None:
        self._ticks = ticks
        self._drawn: dict[Key, tuple[int, asyncio.Future[str]]] = {}
        # Pages have a separate thread pool, so that they never delay job reports.
        self._threads = ThreadPoolExecutor(PAGES_AT_ONCE, "branchline-pages")

    async def page(self, key: Key, draw: Callable[[], str]) -> str:
        """Return the cached page for ``key``, or render the page with ``draw``. Raises the errors of ``draw``."""
        version = self._ticks.now()
        known = self._drawn.get(key)
        # Failures are not cached, because their cause, such as a full disk, can disappear without a new version.
        if known is None or known[0] != version or _has_failed(known[1]):
            if len(self._drawn) >= PAGES_KEPT_MAX:
                self._drawn.clear()
            drawing = asyncio.get_running_loop().run_in_executor(self._threads, draw)
            drawing.add_done_callback(_retrieve)
            known = self._drawn[key] = (version, drawing)
        # A client that disconnects must not cancel the rendering for other clients.
        return await asyncio.shield(known[1])


def _has_failed(drawing: asyncio.Future[str]) -> bool:
    return drawing.done() and (drawing.cancelled() or drawing.exception() is not None)


def _retrieve(drawing: asyncio.Future[str]) -> None:
    """Retrieve a failed rendering's exception. asyncio logs unretrieved exceptions if all clients have disconnected."""
    if not drawing.cancelled():
        drawing.exception()
