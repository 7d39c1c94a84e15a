"""Compares the rows of two tables column by column: the bytes of ROOT files differ by the time of writing alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from branchline.base.limits import COMPARED_TABLE_MEMORY_BYTES, COMPARED_TABLE_ROWS, COMPARED_TABLE_S
from branchline.control.trains.comparison.compared import DIFFERS, EQUAL, NOT_COMPARED, PartCompared
from branchline.errors import BranchlineError
from branchline.records.sensors.result_record import TableRecord

if TYPE_CHECKING:
    from branchline.writing.merging.digests import BranchDigest

_NAMES_SHOWN, _NAME_MAX, _WHY_MAX = 5, 80, 200


class _TooLongError(Exception):
    """A page does not wait longer."""


def compare_tables(name: str, ours: Path, theirs: Path, first: TableRecord, second: TableRecord) -> PartCompared:
    """The values of all columns, by digests. ``count`` is the number of columns, ``differing`` of those that differ.

    Takes up to COMPARED_TABLE_S seconds; a table that takes longer, or that cannot be read, is not compared.
    """
    end_s = time.monotonic() + COMPARED_TABLE_S
    try:
        found = [_digests(ours, first, end_s), _digests(theirs, second, end_s)]
    except _TooLongError:
        return PartCompared(name, "table", NOT_COMPARED, note=f"reading it takes more than {COMPARED_TABLE_S:.0f} s")
    # What is no Parquet file is told in many ways.
    except (BranchlineError, OSError, ValueError, TypeError, KeyError, MemoryError, NotImplementedError) as error:
        return PartCompared(name, "table", NOT_COMPARED, note=f"it cannot be read: {str(error)[:_WHY_MAX]}")
    return _compared(name, *found)


def _compared(name: str, ours: dict[str, BranchDigest], theirs: dict[str, BranchDigest]) -> PartCompared:
    if ours.keys() != theirs.keys():
        return PartCompared(name, "table", DIFFERS, note=f"it has other columns: {_shown(ours.keys() ^ theirs.keys())}")
    rows = [max((one.entries for one in each.values()), default=0) for each in (ours, theirs)]
    differing = [one for one in ours if ours[one] != theirs[one]]
    if rows[0] != rows[1]:
        note = f"{rows[0]} and {rows[1]} rows"
    elif differing:
        note = f"{rows[0]} rows in both; other values in {_shown(differing)}"
    else:
        note = f"{rows[0]} rows, all with the same values"
    return PartCompared(name, "table", DIFFERS if differing else EQUAL, len(ours), len(differing), note=note)


def _shown(names: Any) -> str:
    every = sorted(names)
    more = f" and {len(every) - _NAMES_SHOWN} more" if len(every) > _NAMES_SHOWN else ""
    return ", ".join(one[:_NAME_MAX] for one in every[:_NAMES_SHOWN]) + more


def _digests(path: Path, record: TableRecord, end_s: float) -> dict[str, BranchDigest]:
    """Raises _TooLongError, and what reading raises."""
    # Imported here since it imports awkward.
    from branchline.writing.merging.digests import BranchHasher

    hashers: dict[str, BranchHasher] = {}
    for step in _steps(path, record):
        if time.monotonic() > end_s:
            raise _TooLongError
        for column in step.fields:
            hashers.setdefault(column, BranchHasher()).add(step[column])
    return {column: hasher.value() for column, hasher in hashers.items()}


def _steps(path: Path, record: TableRecord) -> Iterator[Any]:
    """The rows of a file, some at a time, as records."""
    if path.suffix == ".parquet":
        import awkward as ak
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(COMPARED_TABLE_ROWS):
                yield ak.from_arrow(batch)
        return
    from branchline.reading.trees.iteration import iterate

    source = f"{path}:{record.tree}" if record.tree else str(path)
    yield from iterate(
        [source], step_size=COMPARED_TABLE_ROWS, workers=1, memory_limit=COMPARED_TABLE_MEMORY_BYTES, access="plain"
    )
