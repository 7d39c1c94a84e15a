"""What a train has read since its reads were taken last: the record of one that was resumed has all of them again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

from branchline.records.sensors.record import FileRecord, JobRecord, SiteReading

_Reading = TypeVar("_Reading", FileRecord, SiteReading)
# Numbers of a file that no further read of it changes.
_OF_THE_FILE = {"size_bytes", "entries", "open_s"}


@dataclass(frozen=True)
class TrainReads:
    """All reads of a train so far: by file, and by site and storage element."""

    files: list[FileRecord] = field(default_factory=list)
    sites: list[SiteReading] = field(default_factory=list)

    @classmethod
    def of(cls, record: JobRecord) -> TrainReads:
        """Those of a record. Files of which an earlier run made all results were not read."""
        return cls([one for one in record.files if one.subjobs or not one.subjobs_reused], list(record.sites))

    def since(self, before: TrainReads) -> TrainReads:
        """Those that came after ``before``."""
        return TrainReads(
            _since(self.files, before.files, lambda one: one.path, lambda one: one.subjobs),
            _since(
                self.sites,
                before.sites,
                lambda one: (one.site, one.storage_element, one.nearness),
                lambda one: one.files,
            ),
        )


def _since(
    now: Sequence[_Reading],
    before: Sequence[_Reading],
    key: Callable[[_Reading], object],
    count: Callable[[_Reading], int],
) -> list[_Reading]:
    known = {key(one): one for one in before}
    found = []
    for one in now:
        earlier = known.get(key(one))
        # A record that has less than before does not contain what was read before.
        if earlier is None or count(one) < count(earlier):
            found.append(one)
        elif count(one) > count(earlier):
            found.append(_minus(one, earlier))
    return found


def _minus(one: _Reading, earlier: _Reading) -> _Reading:
    """The difference in every number that grows."""
    grown: dict[str, int | float] = {}
    for name in {number.name for number in fields(one)} - _OF_THE_FILE:
        value, before = getattr(one, name), getattr(earlier, name)
        if isinstance(value, int | float) and isinstance(before, int | float):
            grown[name] = max(value - before, 0)
    return replace(one, **grown)  # type: ignore[arg-type]  # numbers of these fields
