"""Pages that many look at are drawn once for all of them, each time that something has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from branchline.base.limits import PAGES_AT_ONCE, PAGES_KEPT_MAX
from branchline.control.people import Person
from branchline.control.web.live import Ticks

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
