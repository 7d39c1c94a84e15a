"""Determines the scale factors of a train's samples. The factors depend on sums of weights, which may have to be read
from the files.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import awkward as ak
import numpy as np

from branchline.base.quantities import counted
from branchline.errors import BadFileError, BranchlineError, NoSuchKeyError
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile, Sample
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.trees.file import File
from branchline.records.sensors.record import FileRecord, SkippedFile
from branchline.records.sensors.record_parts import SampleRecord

#: Maximum number of files from which sums of weights are read concurrently; most of the time is spent waiting for
#: storage.
FILES_AT_ONCE = 16
_HISTOGRAM = re.compile(r"histogram:(?P<name>[^\[\]]+)\[(?P<bin>\d+)\]")


@dataclass(frozen=True)
class _Part:
    """A file, the number of its events that were read, and the fraction of all its entries."""

    file: DataFile
    events: int
    fraction: float


def sample_records(
    dataset: Dataset, files: Sequence[FileRecord], skipped: Sequence[SkippedFile], access: Access
) -> list[SampleRecord]:
    """Return the records of the samples in the dataset list, with their scale factors. Empty if the list describes no
    samples.

    If a sample's sum of weights cannot be read, its record has a note with the reason.
    """
    by_sample: dict[str, list[DataFile]] = {}
    for one in dataset:
        if one.sample is not None:
            by_sample.setdefault(one.dataset, []).append(one)
    read = {one.path: one for one in files}
    lost = {one.path for one in skipped if not read.get(one.path) or not read[one.path].events}
    owners: dict[str, set[str]] = {}
    for one in dataset:
        owners.setdefault(one.path, set()).add(one.dataset)
    records = []
    for name, members in by_sample.items():
        sample = members[0].sample
        assert sample is not None
        parts = _parts(members, read, lost)
        record = SampleRecord(
            name=name,
            kind=sample.kind,
            label=sample.label or name,
            group=sample.group,
            era=sample.era,
            files=len(parts),
            events=sum(one.events for one in parts),
            cross_section_pb=sample.cross_section_pb,
            luminosity_per_fb=sample.luminosity_per_fb,
            scale=sample.scale,
        )
        shared = next((one.path for one in members if len(owners[one.path]) > 1), None)
        if shared is not None:
            record.note = f"{shared} is also in other samples, so the events read for this one are unknown"
        elif not sample.is_data:
            _add_sum(record, sample, parts, access)
        records.append(record)
    _add_factors(records)
    return records


def _parts(members: Sequence[DataFile], read: Mapping[str, FileRecord], lost: set[str]) -> list[_Part]:
    parts: dict[str, _Part] = {}
    for one in members:
        record = read.get(one.path)
        if record is None or one.path in lost or one.path in parts:
            continue
        entries = record.entries or 0
        fraction = min(1.0, record.events / entries) if entries else 1.0
        fraction *= record.folders / one.trees if one.trees else 1.0
        parts[one.path] = _Part(one, record.events, fraction)
    return list(parts.values())


def _add_sum(record: SampleRecord, sample: Sample, parts: Sequence[_Part], access: Access) -> None:
    wanted = sample.sum_of_weights
    if wanted is None:
        record.sum_of_weights = float(record.events)
        return
    if not isinstance(wanted, str):
        record.sum_of_weights, record.sum_of_weights_from = float(wanted), "the list"
        return
    record.sum_of_weights_from = wanted
    try:
        with ThreadPoolExecutor(FILES_AT_ONCE) as threads:
            sums = list(threads.map(lambda one: one.fraction * _sum_in(one.file, wanted, access), parts))
    except BranchlineError as error:
        record.note = f"its sum of weights cannot be read: {error}"
        return
    record.sum_of_weights = math.fsum(sums)
    in_part = sum(one.fraction < 1 for one in parts)
    if in_part:
        record.note = f"{counted(in_part, 'file')} only partly read; their sums of weights are scaled in proportion"


def _sum_in(file: DataFile, wanted: str, access: Access) -> float:
    """Return the sum of weights in a file. Raises errors from opening and reading the file."""
    opened = File(file.opens, access)
    of_histogram = _HISTOGRAM.fullmatch(wanted)
    if of_histogram is None:
        tree, _, branch = wanted.partition(":")
        values = opened.tree(tree).arrays([branch])[branch]
        return math.fsum(np.asarray(ak.flatten(values, axis=None), dtype=np.float64).tolist())
    histogram = opened[of_histogram["name"]]
    if not hasattr(histogram, "values"):
        raise BadFileError(f"{of_histogram['name']} is not a histogram", path=file.path)
    contents = np.asarray(histogram.values(flow=True))
    place = int(of_histogram["bin"])
    if contents.ndim != 1 or place >= len(contents):
        raise NoSuchKeyError(f"{of_histogram['name']} has no bin {place}", path=file.path)
    return float(contents[place])


def _add_factors(records: Sequence[SampleRecord]) -> None:
    """Set the scale factors. A simulated sample is scaled to its own luminosity or, without one, to the total
    luminosity of all data.
    """
    of_data = [one.luminosity_per_fb for one in records if one.is_data and one.luminosity_per_fb is not None]
    for one in records:
        if one.is_data:
            one.factor = 1.0
            continue
        if one.luminosity_per_fb is None and of_data:
            one.luminosity_per_fb = math.fsum(of_data)
        missing = [
            name
            for name, value in (("cross section", one.cross_section_pb), ("luminosity", one.luminosity_per_fb))
            if value is None
        ]
        if one.cross_section_pb is None or one.luminosity_per_fb is None:
            one.note = one.note or f"it has no {' and no '.join(missing)}"
        elif one.sum_of_weights == 0:
            one.note = one.note or "its sum of weights is 0"
        elif one.sum_of_weights is not None:
            one.factor = 1000 * one.cross_section_pb * one.luminosity_per_fb * one.scale / one.sum_of_weights
