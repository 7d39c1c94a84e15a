"""Records the integrated luminosity of the data that the wagons of a train have processed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from branchline.errors import BranchlineError
from branchline.reading.datasets.data_file import Sample
from branchline.reading.datasets.dataset import Dataset
from branchline.records.sensors.record_parts import LuminosityRecord
from branchline.trains.subjobs.share_result import WagonShare
from branchline.trains.wagons.luminosity import Keys, LumiSections, luminosities
from branchline.trains.wagons.wagons import Wagon


def luminosity_records(
    dataset: Dataset, wagons: Sequence[Wagon], shares: Mapping[str, WagonShare]
) -> list[LuminosityRecord]:
    """Return a record for each wagon and each dataset of which the wagon has processed luminosity sections."""
    samples = {one.dataset: one.sample for one in dataset}
    known: dict[str, Mapping[int, float] | BranchlineError] = {}
    return [
        _record(wagon.name, name, sections.keys, samples.get(name), known)
        for wagon in wagons
        for name, sections in sorted(shares[wagon.name].sections.items())
    ]


def _record(
    wagon: str, dataset: str, keys: Keys, sample: Sample | None, known: dict[str, Mapping[int, float] | BranchlineError]
) -> LuminosityRecord:
    record = LuminosityRecord(wagon, dataset, len(keys))
    source = None if sample is None else sample.section_luminosity_per_pb
    if source is None:
        return record
    record.source = str(source)
    if not isinstance(source, str):
        record.luminosity_per_pb = source * len(keys)
        return record
    if source not in known:
        try:
            known[source] = luminosities(Path(source))
        except BranchlineError as error:
            known[source] = error
    found = known[source]
    if isinstance(found, BranchlineError):
        record.note = str(found)
        return record
    # The keys are sorted, so the sum does not depend on how the train was split.
    record.luminosity_per_pb = math.fsum(found[one] for one in keys.tolist() if one in found)
    missing = LumiSections(np.array([one for one in keys.tolist() if one not in found], np.uint64))
    record.missing_count, record.missing = len(missing), missing.as_json()
    return record
