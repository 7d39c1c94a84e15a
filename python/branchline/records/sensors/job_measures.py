"""Measures of a control room: what it asks of the jobs that report to it, in its answers to their reports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from branchline.base.limits import MEASURE_SECONDS_MAX, MEASURE_TEXT_MAX, MEASURES_IN_FORCE_MAX
from branchline.base.plain import check_types, from_plain, to_plain

#: Raised when a field changes its meaning or goes away; new fields have defaults.
MEASURES_VERSION = 1
#: What jobs are asked to do: read another replica first, or copy files whole to the worker's disk and read them there.
AVOID, STAGE = "avoid-element", "stage-element"
#: What the field of an answer is called.
MEASURES_FIELD = "measures"


@dataclass(frozen=True)
class JobMeasure:
    """One measure. ``storage_element`` is an element as pages name it, or the beginning of locations up to a slash;
    ``site`` is that of the workers that it is for, empty for all. It ends ``seconds_left`` after the answer.
    """

    number: int
    kind: str
    storage_element: str
    site: str = ""
    seconds_left: float = 0.0

    def is_for(self, site: str) -> bool:
        """Whether workers at a site are to obey it."""
        return self.site in ("", site)

    def concerns(self, element: str, location: str) -> bool:
        """Whether a replica is meant, by its storage element and its location without secrets."""
        meant = self.storage_element
        return meant in (element, location) or location.startswith(meant if meant.endswith("/") else f"{meant}/")


@dataclass(frozen=True)
class JobMeasures:
    """All measures that are in force for a job: those of an earlier answer that are not here have ended. ``ignored``
    counts what this Branchline does not understand.
    """

    job: str
    measures_version: int = MEASURES_VERSION
    in_force: list[JobMeasure] = field(default_factory=list)
    ignored: int = 0

    def as_dict(self) -> Mapping[str, object]:
        """As an answer has it."""
        plain: Mapping[str, object] = to_plain(self)
        return plain


def measures_in(answer: bytes, job: str) -> JobMeasures | None:
    """The measures in an answer of a control room to a report of a job: none are in force where it names none. None
    where it says nothing to this job, or nothing that can be read. Whatever comes, it raises nothing.
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
    """One that this Branchline understands; None for any other."""
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
    """What a job did about a measure. ``files`` counts readings of files by sub-jobs that it changed: another replica
    was asked first, or the file was copied; ``without_other`` counts files that have no other replica and were read
    there anyway. ``first`` and ``last`` are when sub-jobs with them were opened (ISO 8601, UTC). ``refused`` says why
    the job did not obey.
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
        """Of a measure about which nothing was done yet."""
        return cls(measure.number, measure.kind, measure.storage_element, measure.site)

    def add(self, other: MeasureRecord) -> None:
        """Adds what another sub-job did about the same measure."""
        self.files += other.files
        self.without_other += other.without_other
        self.first = min(filter(None, (self.first, other.first)), default="")
        self.last = max(self.last, other.last)
        self.refused = self.refused or other.refused


def added_measures(records: Iterable[MeasureRecord]) -> list[MeasureRecord]:
    """One record for each measure, by number; those given stay as they are."""
    added: dict[int, MeasureRecord] = {}
    for one in records:
        if one.number in added:
            added[one.number].add(one)
        else:
            added[one.number] = replace(one)
    return [added[number] for number in sorted(added)]
