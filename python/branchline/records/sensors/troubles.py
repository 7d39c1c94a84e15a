"""Failures at each storage element, counted by each process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from branchline import _core
from branchline.base.plain import record_of
from branchline.records.sensors.record import TroubleRecord


def take_troubles() -> list[TroubleRecord]:
    """The failures in this process since the last call, one record for each storage element."""
    return [record_of(TroubleRecord, one) for one in _core.take_troubles()]


def added_troubles(troubles: Iterable[TroubleRecord]) -> list[TroubleRecord]:
    """The sums for each storage element, sorted by name."""
    elements: dict[str, TroubleRecord] = {}
    numbers = [one.name for one in fields(TroubleRecord) if one.name != "name"]
    for trouble in troubles:
        total = elements.setdefault(trouble.name, TroubleRecord(trouble.name))
        for number in numbers:
            setattr(total, number, getattr(total, number) + getattr(trouble, number))
    return [elements[name] for name in sorted(elements)]
