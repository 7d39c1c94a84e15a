"""The tables that wagons wrote, for the page and the terminal."""

from __future__ import annotations

from typing import NamedTuple

from branchline.base.quantities import count, counted, duration, size
from branchline.records.diagnosis.figures import partial_note
from branchline.records.sensors.record import JobRecord
from branchline.records.sensors.result_record import TableRecord

# Files of a table that are named; job.json has all of them.
TABLES_SHOWN_MAX = 40
COLUMNS_SHOWN_MAX = 6


class TableRow(NamedTuple):
    """A table as the page shows it."""

    wagon: str
    key: str
    format: str
    file: str
    rows: str
    size: str
    columns: str
    merging: str
    partial: str


def table_rows(job: JobRecord) -> list[TableRow]:
    """The tables of a job, in the order of its wagons."""
    return [
        TableRow(
            one.wagon,
            one.key or "all of it",
            one.format,
            _place(one),
            count(one.rows),
            size(one.size_bytes),
            _columns(one),
            _merging(one),
            partial_note(job, one.wagon) or "",
        )
        for one in job.tables[:TABLES_SHOWN_MAX]
    ]


def table_sentences(job: JobRecord) -> list[str]:
    """Where the tables are, in sentences for the terminal."""
    return [
        f"table {one.wagon}{'/' if one.key else ''}{one.key}: {counted(one.rows, 'row')}, {size(one.size_bytes)}, "
        f"{_place(one)}"
        for one in job.tables[:TABLES_SHOWN_MAX]
    ]


def _place(table: TableRecord) -> str:
    if len(table.files) == 1 and table.is_merged and table.format != "parquet":
        return table.files[0]
    folder = table.files[0].rpartition("/")[0] if table.files else ""
    return f"{folder}/ ({counted(len(table.files), 'file')}{'' if table.is_merged else ', not merged'})"


def _columns(table: TableRecord) -> str:
    names = list(table.columns)
    more = f" and {len(names) - COLUMNS_SHOWN_MAX} more" if len(names) > COLUMNS_SHOWN_MAX else ""
    return f"{count(len(names))}: {', '.join(names[:COLUMNS_SHOWN_MAX])}{more}"


def _merging(table: TableRecord) -> str:
    pieces = counted(table.pieces, "piece")
    if not table.merge_stages:
        return pieces
    stages = counted(table.merge_stages, "stage")
    return f"{pieces} in {stages}, {size(table.merge_bytes)} copied in {duration(table.merge_s)}"
