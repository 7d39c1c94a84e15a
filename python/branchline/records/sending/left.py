"""Sends what jobs left that are gone: killed ones, and those whose control room was away at their end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from branchline.records.sending.client import Sender
from branchline.records.sending.outbox import Tally, send_spooled
from branchline.records.sending.spool import Spool, SpooledSource


@dataclass
class SentReports:
    """What became of the reports that were left, in ``sent``. ``waiting`` counts those for the same control room that
    still are, ``elsewhere`` those for others, by address.
    """

    sent: Tally = field(default_factory=Tally)
    waiting: int = 0
    elsewhere: dict[str, int] = field(default_factory=dict)


def send_left(spool: Spool, sender: Sender, goes_on: Callable[[], bool] = lambda: True) -> SentReports:
    """Sends what is left for a control room, while it ``goes_on``. A source at which another process is at work is left
    alone: that one sends. Raises nothing.
    """
    found = SentReports()
    with suppress(OSError):
        spool.clear()
    for source in spool.sources():
        if source.is_own:
            continue
        server = source.server()
        if server != sender.target.url:
            found.elsewhere[server] = found.elsewhere.get(server, 0) + len(source.reports())
        elif found.sent.why_waiting or not goes_on():
            found.waiting += len(source.reports())
        else:
            _send(source, sender, goes_on, found)
    return found


def _send(source: SpooledSource, sender: Sender, goes_on: Callable[[], bool], found: SentReports) -> None:
    try:
        if not source.lock():
            return
    except OSError as error:
        found.sent.why_waiting = f"the folder {source.folder} cannot be locked: {error.strerror}"
        return
    try:
        found.sent.add(send_spooled(source, source.reports(), sender, goes_on))
        found.waiting += len(source.reports())
    finally:
        source.close()
