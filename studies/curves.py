"""Read times as a function of added latency: published, measured and forecast."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill

from docs.generate.tables import table

from branchline.base.palette import COLOURS
from branchline.base.plain import finite, from_plain, to_plain
from branchline.base.quantities import percent
from branchline.lab.studies.study_pictures import Series, lines
from studies.pictures import standalone
from studies.records import RECORDS, Machine

ADDED_MS = (0, 10, 25, 50, 100)
#: Seconds of LHCb's B2HHH (8.5 million events, 18 of 26 columns, zstd) over HTTP, CHEP 2019: medians of six passes in
#: chep19/result_read_http.lhcb+*ms~zstd.* of github.com/jblomer/iotools. 25 ms was not measured.
THEIRS: dict[str, dict[int, float]] = {
    "TTree": {0: 8.73, 10: 9.02, 50: 16.41, 100: 29.27},
    "RNTuple": {0: 7.67, 10: 9.10, 50: 21.54, 100: 41.53},
}
_NAME = "latency.json"
#: Maximum relative error of a good forecast.
_NEAR = 0.15


@dataclass(frozen=True)
class Pass:
    """A pass over a file: seconds, read calls, and bytes."""

    seconds: float
    calls: int
    bytes_read: int


@dataclass(frozen=True)
class Curve:
    """One kind of file and one reader: the passes at each of ADDED_MS, and the forecasts in seconds from the passes
    without added latency.
    """

    kind: str
    reader: str
    passes: list[list[Pass]]
    forecast_s: list[float]

    @property
    def seconds(self) -> list[float]:
        """The median of the passes at each latency."""
        return [statistics.median(one.seconds for one in some) for some in self.passes]


@dataclass(frozen=True)
class Curves:
    """All curves. ``file_bytes`` are the sizes of the files by kind. Readers read ``columns`` of each event."""

    machine: Machine
    events: int
    columns: int
    file_bytes: dict[str, int]
    curves: list[Curve] = field(default_factory=list)
    curves_version: int = 1


def read(kept: Path = RECORDS) -> Curves | None:
    """Return the stored curves; None if they were never measured."""
    path = kept / _NAME
    if not path.exists():
        return None
    found: Curves = from_plain(Curves, json.loads(path.read_text(encoding="utf-8")))
    return found


def write(found: Curves, kept: Path = RECORDS) -> None:
    kept.mkdir(parents=True, exist_ok=True)
    (kept / _NAME).write_text(json.dumps(finite(to_plain(found)), indent=1) + "\n", encoding="utf-8")


def section(found: Curves | None) -> str:
    """Return the section of the page with a table of published, measured and forecast times."""
    if found is None:
        return "\n## TTree and RNTuple over added latency\n\nNot measured yet.\n"
    rows = []
    for kind, theirs in THEIRS.items():
        rows.append([f"{kind}, ROOT of 2019", "published", *_cells([theirs.get(one) for one in ADDED_MS])])
        for curve in found.curves:
            if curve.kind == kind:
                name = f"{kind}, {curve.reader}"
                rows.append([name, "measured", *_cells([*curve.seconds])])
                rows.append([name, "forecast", *_cells([*curve.forecast_s])])
    errors = [
        abs(said / ours - 1)
        for curve in found.curves
        for said, ours in list(zip(curve.forecast_s, curve.seconds, strict=True))[1:]
    ]
    near = sum(1 for one in errors if one <= _NEAR)
    sizes = ", ".join(f"{bytes_ / 1e6:.0f} MB as {kind}" for kind, bytes_ in found.file_bytes.items())
    calls = " and ".join(f"{one.passes[0][0].calls} for the {one.kind}" for one in found.curves if one.reader == "ROOT")
    text = _TEXT.format(
        events=found.events,
        columns=found.columns,
        sizes=sizes,
        passes=len(found.curves[0].passes[0]) if found.curves else 0,
        calls=calls,
        load=f"{found.machine.load:.0f}",
        cores=found.machine.cores,
    )
    text = "\n\n".join(
        one if one.startswith("#") else fill(one, 118, break_on_hyphens=False) for one in text.strip().split("\n\n")
    )
    summary = (
        f"{near} of {len(errors)} forecasts are within {percent(_NEAR, 1.0)} of the measured time; the median error is "
        f"{percent(statistics.median(errors), 1.0)}, the largest {percent(max(errors), 1.0)}."
    )
    head = ["reader", "", *(f"{one} ms" for one in ADDED_MS)]
    return "\n".join(
        [
            "",
            text,
            "",
            summary,
            "",
            table(head, rows),
            "![Time relative to the time without added latency](latency.svg)",
            "",
        ]
    )


def picture(found: Curves) -> str:
    """Return a plot of the measured and published times, relative to the times without added latency, as SVG."""
    series = []
    for curve in found.curves:
        times = [one / curve.seconds[0] for one in curve.seconds]
        series.append(Series(f"{curve.kind}, {curve.reader}", times, COLOURS[len(series)]))
    for kind, theirs in THEIRS.items():
        known = [theirs.get(one) for one in ADDED_MS]
        times_or_none = [None if one is None else one / theirs[0] for one in known]
        series.append(Series(f"{kind}, ROOT of 2019 (published)", times_or_none, COLOURS[len(series)]))
    places = [str(one) for one in ADDED_MS]
    return standalone(lines("Time relative to the time without added latency", "", places, series, "added latency, ms"))


def _cells(seconds: list[float | None]) -> list[str]:
    """Return times, and their ratios to the time without added latency."""
    first = seconds[0] or 1.0
    return ["" if one is None else f"{one:.2f} s ({one / first:.2f})" for one in seconds]


_TEXT = """
## TTree and RNTuple with added latency

Published in 2019 (CHEP, raw values in `chep19` of github.com/jblomer/iotools): 18 of 26 columns of LHCb's B2HHH (8.5
million events, 1.1 GB) are read over HTTP. Here, `python -m studies.latency` reads {columns} of 26 columns of {events}
events, compressed with zstd ({sizes}), from an XRootD server through a proxy that adds the latency to each round trip.
ROOT reads with a TTreeCache of one cluster that knows its branches, and with asynchronous prefetching; `RNTupleReader`
reads with its cluster pool. Times are medians of {passes} passes that include opening the file. The {cores} cores were
shared with the server, the proxy and other programs (load {load}). Ratios to the time without added latency are in
brackets.

Forecasts use only the passes without added latency. For ROOT, the forecast is the time of these passes plus one round
trip per read call ({calls}) and two for opening. `RNTupleReader` counts only reads of pages, so that its forecast lacks
the reads of metadata. Forecasts for Branchline come from `branchline forecast URL --what-if rtt=...`.
"""
