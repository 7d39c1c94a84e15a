"""What the ways to storage elements are like, and what reading chose for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from branchline import _core
from branchline.access import Access

_CHOSEN = ("gap_bytes", "requests_in_flight", "bytes_in_flight")
_FIELDS = ("name", "round_trip_s", "bytes_per_second", *_CHOSEN)


def links_chosen(access: Access) -> list[dict[str, Any]]:
    """The ways that this process has measured, one entry for each storage element: ``name``, ``round_trip_s``,
    ``bytes_per_second``, and what is chosen for it now: ``gap_bytes``, ``requests_in_flight``, ``bytes_in_flight``.
    """
    return [{field: getattr(one, field) for field in _FIELDS} for one in _core.links_chosen(access)]


def joined_links(links: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each storage element: what was found and chosen last, and ``choices``, how many there were."""
    joined: dict[str, dict[str, Any]] = {}
    chosen: dict[str, set[tuple[Any, ...]]] = {}
    for one in links:
        name = str(one["name"])
        chosen.setdefault(name, set()).add(tuple(one[field] for field in _CHOSEN))
        joined[name] = dict(one) | {"choices": len(chosen[name])}
    return list(joined.values())


def distinct_links(links: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same for ``joined_links``, shorter: of entries with one name and one choice the last."""
    last: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in links:
        key = (one["name"], *(one[field] for field in _CHOSEN))
        last.pop(key, None)
        last[key] = dict(one)
    return list(last.values())
