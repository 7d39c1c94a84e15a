"""Measures of a control room: corrective actions that it requests from the jobs that report to it.

The requests are part of the responses to the jobs' reports.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from branchline.base.limits import MEASURE_SECONDS_MAX, MEASURE_TEXT_MAX, MEASURES_IN_FORCE_MAX
from branchline.base.plain import check_types, from_plain, to_plain

#: Version of the measures' format; increased when a field changes its meaning or is removed. New fields have defaults.
MEASURES_VERSION = 1
#: Kinds of measures: prefer another replica, or copy whole files to the worker's disk and read the copies.
AVOID, STAGE = "avoid-element", "stage-element"
#: Key of the measures in a response.
MEASURES_FIELD = "measures"


@dataclass(frozen=True)
class JobMeasure:
    """A corrective action that a control room requests from a job.

    - ``storage_element`` is the name of a storage element as shown on the pages, or a URL prefix that ends at a slash.
    - ``site`` limits the measure to workers at a site; empty for all workers.
    - ``seconds_left`` is the time after the response at which the measure expires.
    """

    number: int
    kind: str
    storage_element: str
    site: str = ""
    seconds_left: float = 0.0

    def is_for(self, site: str) -> bool:
        """Return whether the measure applies to workers at a site."""
        return self.site in ("", site)

    def concerns(self, element: str, location: str) -> bool:
        """Return whether the measure applies to a replica.

        ``element`` is the replica's storage element, ``location`` its location without secrets.
        """
        meant = self.storage_element
        return meant in (element, location) or location.startswith(meant if meant.endswith("/") else f"{meant}/")


@dataclass(frozen=True)
class JobMeasures:
    """All measures in force for a job.

    Measures from earlier responses that are not listed have ended. ``ignored`` counts measures that this version does
    not understand.
    """

    job: str
    measures_version: int = MEASURES_VERSION
    in_force: list[JobMeasure] = field(default_factory=list)
    ignored: int = 0

    def as_dict(self) -> Mapping[str, object]:
        """Return the measures as they appear in a response."""
        plain: Mapping[str, object] = to_plain(self)
        return plain


def measures_in(answer: bytes, job: str) -> JobMeasures | None:
    """Return the measures in the control room's response to a job's report.

    If the response lists no measures, none are in force. Returns None if the response is for another job or cannot be
    parsed. Never raises.
    """
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    if MEASURES_FIELD not in found:
        return JobMeasures(job)
    given = found[MEASURES_FIELD]
    if not isinstance(given, dict) or given.get("job") != job:
        return None
    listed, version = given.get("in_force"), given.get("measures_version")
    if not isinstance(listed, list):
        return None
    if type(version) is not int or not 1 <= version <= MEASURES_VERSION:
        return JobMeasures(job, ignored=len(listed))
    read = [_measure(one) for one in listed[:MEASURES_IN_FORCE_MAX]]
    known = {one.number: one for one in read if one is not None}
    return JobMeasures(job, version, list(known.values()), len(listed) - len(known))


def _measure(plain: object) -> JobMeasure | None:
    """Parse a measure; return None if this version does not understand it."""
    try:
        one: JobMeasure = from_plain(JobMeasure, plain)
        check_types(one)
    except (ValueError, TypeError, RecursionError):
        return None
    is_text = all(len(text) <= MEASURE_TEXT_MAX and text.isprintable() for text in (one.storage_element, one.site))
    is_good = is_text and one.storage_element.strip() != "" and 0 < one.seconds_left <= MEASURE_SECONDS_MAX
    return one if is_good and one.kind in (AVOID, STAGE) and one.number > 0 else None


@dataclass
class MeasureRecord:
    """The effect of a measure (corrective action) on a job.

    ``files`` counts the file reads that the measure changed: another replica was tried first, or the file was copied.
    ``without_other`` counts file reads that it could not change because the file has no other replica. ``first`` and
    ``last`` are the times (ISO 8601, UTC) at which the first and last affected sub-job was opened. ``refused`` is the
    reason if the job did not follow the measure.
    """

    number: int
    kind: str = AVOID
    storage_element: str = ""
    site: str = ""
    files: int = 0
    without_other: int = 0
    first: str = ""
    last: str = ""
    refused: str = ""

    @classmethod
    def of(cls, measure: JobMeasure) -> MeasureRecord:
        """Return the record of a measure that has had no effect yet."""
        return cls(measure.number, measure.kind, measure.storage_element, measure.site)

    def add(self, other: MeasureRecord) -> None:
        """Add the effect of the same measure on another sub-job."""
        self.files += other.files
        self.without_other += other.without_other
        self.first = min(filter(None, (self.first, other.first)), default="")
        self.last = max(self.last, other.last)
        self.refused = self.refused or other.refused


def added_measures(records: Iterable[MeasureRecord]) -> list[MeasureRecord]:
    """Return the sum of the records of each measure, ordered by measure number; the given records are not changed."""
    added: dict[int, MeasureRecord] = {}
    for one in records:
        if one.number in added:
            added[one.number].add(one)
        else:
            added[one.number] = replace(one)
    return [added[number] for number in sorted(added)]
