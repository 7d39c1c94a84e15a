"""Cutflows, tables and reused results of a job, as rows and sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from branchline.base.quantities import count, counted, duration, significant, size, weights_column
from branchline.records.diagnosis.figures import partial_note
from branchline.records.sensors.record import CutflowRecord, JobRecord
from branchline.records.sensors.record_parts import TableRecord

#: Maximum number of wagons listed by name in a sentence; the remaining ones are only counted.
NAMES_SHOWN_MAX = 5
#: Maximum number of tables, and of a table's columns, that the report lists; job.json lists all of them.
TABLES_SHOWN_MAX = 40
COLUMNS_SHOWN_MAX = 6


# --- cutflows ---------------------------------------------------------------------------------------------------------


class CutRow(NamedTuple):
    """One cut of a cutflow.

    ``events`` is the number of events that pass this cut and all earlier cuts. ``of_last`` is the fraction of the
    events that passed the previous cut, ``of_all`` the fraction of all events, and ``weight`` the sum of the events'
    weights.
    """

    name: str
    events: str
    of_last: str
    of_all: str
    weight: str


class CutflowTable(NamedTuple):
    """One cutflow: the wagon that returned it, its position in the wagon's return value, and its cuts in order."""

    wagon: str
    name: str
    rows: list[CutRow]


def cutflow_tables(job: JobRecord) -> list[CutflowTable]:
    """Return the cutflows of all wagons, in the order of the wagons."""
    return [
        CutflowTable(wagon.name, flow.name, list(_cut_rows(flow)))
        for wagon in job.wagons
        for flow in wagon.cutflows
        if flow.cuts
    ]


def left_out_sentences(job: JobRecord) -> list[str]:
    """Return a sentence for each wagon that returned more cutflows than the record contains."""
    return [
        f"job.json and the report have {count(len(wagon.cutflows))} of the "
        f"{count(len(wagon.cutflows) + wagon.cutflows_left_out)} cutflows of {wagon.name}; its results have all of them"
        for wagon in job.wagons
        if wagon.cutflows_left_out
    ]


def join_sentences(job: JobRecord) -> list[str]:
    """Return a sentence on the rows of each join."""
    return [
        f"{one.name}: {counted(one.rows, 'row')} joined"
        + (f", {counted(one.negative, 'row')} with a negative index left out" if one.negative else "")
        for one in job.joins
    ]


def _cut_rows(flow: CutflowRecord) -> Iterator[CutRow]:
    first = last = flow.cuts[0].events
    column = weights_column([math.nan if cut.weight is None else cut.weight for cut in flow.cuts])
    for cut, weight in zip(flow.cuts, column, strict=True):
        yield CutRow(cut.name, count(cut.events), _part(cut.events, last), _part(cut.events, first), weight)
        last = cut.events


def _part(number: int, of: int) -> str:
    """Return a percentage with three significant digits, because selections often keep very few events."""
    return f"{significant(100 * number / of)} %" if of else "-"


# --- tables -----------------------------------------------------------------------------------------------------------


class TableRow(NamedTuple):
    """A table as shown in the report."""

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
    """Return the tables of a job, in the order of its wagons."""
    rows = []
    for one in job.tables[:TABLES_SHOWN_MAX]:
        names = list(one.columns)
        more = f" and {len(names) - COLUMNS_SHOWN_MAX} more" if len(names) > COLUMNS_SHOWN_MAX else ""
        columns = f"{count(len(names))}: {', '.join(names[:COLUMNS_SHOWN_MAX])}{more}"
        merging = counted(one.pieces, "piece")
        if one.merge_stages:
            stages = counted(one.merge_stages, "stage")
            merging += f" in {stages}, {size(one.merge_bytes)} copied in {duration(one.merge_s)}"
        row = TableRow(
            one.wagon,
            one.key or "all of it",
            one.format,
            _place(one),
            count(one.rows),
            size(one.size_bytes),
            columns,
            merging,
            partial_note(job, one.wagon) or "",
        )
        rows.append(row)
    return rows


def table_sentences(job: JobRecord) -> list[str]:
    """Return a sentence for each table that a wagon returned, with the location of its files, for the terminal."""
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


# --- results reused from earlier runs ---------------------------------------------------------------------------------


def reuse_sentences(job: JobRecord) -> list[str]:
    """Return sentences on how many sub-jobs were reused, which wagons ran, and why some results could not be reused."""
    sentences = []
    ran = [one for one in job.wagons if one.subjobs_reused < job.subjobs_done]
    if any(one.subjobs_reused for one in job.wagons):
        taken = f"{count(job.subjobs_reused)} of {counted(job.subjobs, 'sub-job')} reused from earlier runs"
        times = [f"{one.name} in {count(job.subjobs_done - one.subjobs_reused)}" for one in ran]
        named = ", ".join(times[:NAMES_SHOWN_MAX])
        more = f" and {len(ran) - NAMES_SHOWN_MAX} more" if len(ran) > NAMES_SHOWN_MAX else ""
        sentences.append(f"{taken}; {f'wagons that ran: {named}{more}' if ran else 'nothing had to run'}")
    causes: dict[str, list[str]] = {}
    for one in ran:
        if one.rerun_cause:
            causes.setdefault(one.rerun_cause, []).append(one.name)
    for cause, names in list(causes.items())[:NAMES_SHOWN_MAX]:
        more = f" and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
        sentences.append(f"{', '.join(names[:NAMES_SHOWN_MAX])}{more} ran because {cause}")
    unknown = [one for one in job.wagons if one.not_reusable]
    sentences += [
        f"wagon {one.name} runs each time: its results cannot be reused, since {one.not_reusable}"
        for one in unknown[:NAMES_SHOWN_MAX]
    ]
    if len(unknown) > NAMES_SHOWN_MAX:
        sentences.append(f"results of {len(unknown) - NAMES_SHOWN_MAX} more wagons cannot be reused")
    return [*sentences, *job.reuse_notes]
