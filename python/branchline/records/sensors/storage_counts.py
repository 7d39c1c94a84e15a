"""Counters that each process keeps for storage elements: measured links, the read settings chosen for them, and
failures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace

from branchline import _core
from branchline.base.plain import record_of
from branchline.reading.access import Access
from branchline.records.sensors.record import LinkRecord, TroubleRecord


def links_chosen(access: Access, site: str = "") -> list[LinkRecord]:
    """Return a record of each link that this process has measured, one per storage element, with its current settings.

    ``site`` is copied into each record.
    """
    return [replace(record_of(LinkRecord, one), site=site) for one in _core.links_chosen(access)]


def joined_links(links: Iterable[LinkRecord]) -> list[LinkRecord]:
    """Return the last record for each site and storage element. ``choices`` counts the different settings of all
    records.
    """
    last: dict[tuple[str, str], LinkRecord] = {}
    choices: dict[tuple[str, str], set[tuple[int, ...]]] = {}
    for link in links:
        key = (link.site, link.name)
        choices.setdefault(key, set()).add(_choice(link))
        last[key] = link
    return [replace(link, choices=len(choices[key])) for key, link in last.items()]


def distinct_links(links: Iterable[LinkRecord]) -> list[LinkRecord]:
    """Return the last record for each combination of site, storage element and settings.

    The other records can be dropped: ``joined_links`` returns the same result without them.
    """
    last: dict[tuple[str, str, tuple[int, ...]], LinkRecord] = {}
    for link in links:
        key = (link.site, link.name, _choice(link))
        last.pop(key, None)
        last[key] = link
    return list(last.values())


def _choice(link: LinkRecord) -> tuple[int, ...]:
    return link.gap_bytes, link.requests_in_flight, link.bytes_in_flight


def take_troubles() -> list[TroubleRecord]:
    """Return the failures in this process since the last call, one record per storage element."""
    return [record_of(TroubleRecord, one) for one in _core.take_troubles()]


def added_troubles(troubles: Iterable[TroubleRecord]) -> list[TroubleRecord]:
    """Return the sum of the records of each storage element, sorted by name."""
    elements: dict[str, TroubleRecord] = {}
    numbers = [one.name for one in fields(TroubleRecord) if one.name != "name"]
    for trouble in troubles:
        total = elements.setdefault(trouble.name, TroubleRecord(trouble.name))
        for number in numbers:
            setattr(total, number, getattr(total, number) + getattr(trouble, number))
    return [elements[name] for name in sorted(elements)]
