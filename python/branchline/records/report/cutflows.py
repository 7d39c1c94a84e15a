"""The report's cutflows: for each that a wagon returned, the events after each cut, and what part each keeps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from branchline.base.quantities import count, significant, weights_column
from branchline.records.sensors.record import CutflowRecord, JobRecord


class CutRow(NamedTuple):
    """One cut: how many events pass it and all before it, as parts of those before and of all, and their weights."""

    name: str
    events: str
    of_last: str
    of_all: str
    weight: str


class CutflowTable(NamedTuple):
    """One cutflow: the wagon that returned it, where in what it returned, and its cuts in their order."""

    wagon: str
    name: str
    rows: list[CutRow]


def cutflow_tables(job: JobRecord) -> list[CutflowTable]:
    """Return the cutflows of all wagons, in their order."""
    return [
        CutflowTable(wagon.name, flow.name, list(_rows(flow)))
        for wagon in job.wagons
        for flow in wagon.cutflows
        if flow.cuts
    ]


def left_out_sentences(job: JobRecord) -> list[str]:
    """Return a sentence for each wagon of whose cutflows the record has only the first."""
    return [
        f"job.json and the report have {count(len(wagon.cutflows))} of the "
        f"{count(len(wagon.cutflows) + wagon.cutflows_left_out)} cutflows of {wagon.name}; its results have all of them"
        for wagon in job.wagons
        if wagon.cutflows_left_out
    ]


def _rows(flow: CutflowRecord) -> Iterator[CutRow]:
    first = last = flow.cuts[0].events
    column = weights_column([math.nan if cut.weight is None else cut.weight for cut in flow.cuts])
    for cut, weight in zip(flow.cuts, column, strict=True):
        yield CutRow(cut.name, count(cut.events), _part(cut.events, last), _part(cut.events, first), weight)
        last = cut.events


def _part(number: int, of: int) -> str:
    """Three digits: few events of many are what a selection looks for."""
    return f"{significant(100 * number / of)} %" if of else "-"
