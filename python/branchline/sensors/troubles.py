"""What went wrong at each storage element and was mended, or was not: counts that every process keeps by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from branchline import _core

_FIELDS = (
    "name",
    "retries",
    "timeouts",
    "resets",
    "wrong_answers",
    "other_errors",
    "replicas_left",
    "replicas_refused",
    "lost_s",
)


def take_troubles() -> list[dict[str, Any]]:
    """The troubles that this process has met since it was asked last, one entry for each storage element.

    ``retries`` are requests that were made again, ``timeouts``, ``resets``, ``wrong_answers`` and ``other_errors`` what
    had gone wrong, ``replicas_left`` files that were read on from another replica, ``replicas_refused`` replicas that
    differ from what was read before, ``lost_s`` the time of requests that failed and of the pauses after them.
    """
    return [{field: getattr(one, field) for field in _FIELDS} for one in _core.take_troubles()]


def added_troubles(troubles: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each storage element, sorted by name."""
    elements: dict[str, dict[str, Any]] = {}
    for one in troubles:
        known = elements.setdefault(one["name"], {"name": one["name"]})
        for name, value in one.items():
            if name != "name":
                known[name] = known.get(name, 0) + value
    return sorted(elements.values(), key=lambda element: str(element["name"]))
