"""What a traced program reads, as a subject of forecasts: its files, its branches, and how it reads them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from branchline.errors import OptionError
from branchline.lab.forecast.subject import Subject, subject_of
from branchline.reading.access import Access
from branchline.tracing.trace import read_trace
from branchline.tracing.trace_summary import summarise

#: A program whose reads of baskets are smaller takes them one by one.
ONE_BY_ONE_BYTES = 256_000


def is_trace(location: str) -> bool:
    """Whether a location is a trace, by its ending."""
    return location.endswith(".parquet")


def subject_of_trace(location: str, access: Access | None = None) -> Subject:
    """The files and branches that a traced program has read, and the access mode that reads most as it did.

    Raises OptionError for a trace without baskets, and what reading raises.
    """
    found = summarise(read_trace(Path(location)))
    # Baskets that only lie between others, or in the first bytes of a file, are not what the program wants.
    wanted = [row for row in found.branches if row.branch and row.read_bytes > row.unwanted_bytes]
    branches = tuple(dict.fromkeys(row.branch for row in wanted))
    trees = Counter(row.tree for row in found.branches if row.tree)
    files = [row.file for row in found.files if row.basket_read_calls]
    if not branches or not files:
        raise OptionError(f"{location}: no baskets were read", hint="give a trace in which files were found")
    totals = found.totals
    mean = totals.basket_read_bytes / max(1, totals.basket_read_calls)
    chosen = access or Access()
    if chosen.mode == Access().mode and mean < ONE_BY_ONE_BYTES:
        chosen = replace(chosen, mode="plain")
    [(tree, _)] = trees.most_common(1)
    subject = subject_of([f"{file}:{tree}" for file in files], branches, chosen)
    return replace(subject, name=location)
