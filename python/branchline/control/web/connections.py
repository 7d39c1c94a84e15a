"""Connections on which requests arrive in time."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from branchline.base.limits import REQUEST_HEAD_S


class TimedConnection(H11Protocol):
    """A connection that is closed if the head of a request takes too long: uvicorn would wait for it for ever."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()

    def _watch(self) -> None:
        # There is none before the first request, whatever uvicorn declares.
        if self.cycle is not None and not self.cycle.response_complete:  # type: ignore[redundant-expr]
            self._forget()
        elif self._late is None and not self.transport.is_closing():
            self._late = self.loop.call_later(REQUEST_HEAD_S, self.transport.close)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
