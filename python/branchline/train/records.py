"""Adding up the records of streams: one entry per file and per branch, however many sub-jobs read of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from branchline.limits import MISSING_NAMED

# Of what is counted per file, these add up to the totals of the job.
TOTALS = (
    "bytes_asked",
    "bytes_read",
    "cached_bytes",
    "read_calls",
    "baskets",
    "compressed_bytes",
    "plain_bytes",
    "fetch_s",
    "decompress_s",
    "decode_s",
)
# ... and to those of a storage element.
_OF_AN_ELEMENT = {"bytes_read": 0, "cached_bytes": 0, "read_calls": 0, "fetch_s": 0.0}
# Numbers that describe a file and must not be added when it was read in several parts.
_OF_THE_FILE = ("entries", "size_bytes")


class RecordTable:
    """Records by name; adding one that is there already adds its numbers."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._records: dict[str, dict[str, Any]] = {}

    def add(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Takes up records, in their order."""
        for record in records:
            name = record[self._key]
            if name not in self._records:
                self._records[name] = dict(record)
                continue
            total = self._records[name]
            for field, value in record.items():
                total[field] = _added(field, total.get(field), value)

    def as_list(self) -> list[dict[str, Any]]:
        """All records, in the order in which their names came first."""
        return list(self._records.values())

    def total(self, field: str) -> Any:
        """The sum of a number over all records."""
        return sum(record.get(field) or 0 for record in self._records.values())


def _added(field: str, first: Any, second: Any) -> Any:
    if first is None or second is None:
        return second if first is None else first
    if field in _OF_THE_FILE:
        return max(first, second)
    if isinstance(first, (int, float)) and isinstance(second, (int, float)) and not isinstance(first, bool):
        return first + second
    if isinstance(first, list):
        return [*first, *(one for one in second if one not in first)]
    if isinstance(first, str) and isinstance(second, str) and first != second:
        return first if second in first.split(", ") else f"{first}, {second}"
    return first


def storage_elements(files: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What was read from each storage element, from the records of the files."""
    elements: dict[str, dict[str, Any]] = {}
    for record in files:
        name = record["storage_element"]
        element = elements.setdefault(name, {"name": name, "files": 0, **_OF_AN_ELEMENT})
        element["files"] += 1
        for field in _OF_AN_ELEMENT:
            element[field] += record.get(field) or 0
    return list(elements.values())


def storage_remarks(files: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What storage had to remark: each sentence once, with the number of the files that it is about."""
    remarks: dict[str, dict[str, Any]] = {}
    for record in files:
        for text in record.get("remarks") or []:
            remarks.setdefault(text, {"text": text, "files": 0})["files"] += 1
    return list(remarks.values())


def companions_missing(missing: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each companion that had nothing for some events: their number, and the first of them."""
    companions: dict[str, dict[str, Any]] = {}
    for record in missing:
        known = companions.setdefault(record["name"], {"name": record["name"], "events_missing": 0, "first": []})
        known["events_missing"] += record["events_missing"]
        known["first"] = [*known["first"], *record["first"]][:MISSING_NAMED]
    return list(companions.values())


def skipped_files(skipped: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One entry per skipped file; the events lost in its parts are added, None as soon as one of them is unknown."""
    files: dict[str, dict[str, Any]] = {}
    for record in skipped:
        known = files.get(record["path"])
        if known is None:
            files[record["path"]] = dict(record)
        elif known["entries_lost"] is None or record["entries_lost"] is None:
            known["entries_lost"] = None
        else:
            known["entries_lost"] += record["entries_lost"]
    return list(files.values())
