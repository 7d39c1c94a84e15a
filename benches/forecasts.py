"""`python -m benches forecasts`: compares forecasts with measurements.

No point is forecast from a measurement of itself. The rates come from a read in the default mode over a link without
delay. The forecasts are for other links and modes, and some of them for other layouts and codecs.
"""

from __future__ import annotations

import math
import multiprocessing
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from benches.conditions import machine_lines
from benches.forecast_data import CODECS, FEW, KINDS, LAYOUTS, TREE, files_of
from benches.forecast_link import round_trip_seen
from benches.link_reader import measured
from benches.links import link
from benches.places import served
from benches.tables import table
from branchline.lab.forecast.conditions import MERGED_BYTES, Conditions
from branchline.lab.forecast.forecasting import WhatIf, what_if
from branchline.lab.forecast.rates import try_codec
from branchline.lab.forecast.subject import Subject, subject_of
from branchline.reading.access import MODES

ROUND_TRIPS_MS = (0, 1, 5, 20, 60, 100)
MB_PER_S = (1, 5, 20, 100)
#: Number of passes per point, and durations in seconds above which a point gets fewer passes or is skipped.
PASSES, LONG_S, LONGEST_S = 3, 4.0, 90.0
#: Longest round trip for plain reads of all branches, which take minutes on slower links.
PLAIN_MS_MAX = 5
GOAL, NINETY = 0.15, 0.9
MB = 1e6
WORST = 12
ITSELF = "itself"
#: Codecs that are forecast from zlib files.
TRIED = {"zstd": "zstd:5", "lz4": "lz4:4"}


@dataclass(frozen=True)
class Point:
    """A read to forecast, and the read from which it is forecast: of the same files, or of files that are to be
    converted.
    """

    kind: str
    layout: str
    codec: str
    few: bool
    mode: str
    round_trip_ms: int
    mb_per_s: int
    source: str = ITSELF

    @property
    def branches(self) -> tuple[str, ...] | None:
        return FEW if self.few else None


@dataclass(frozen=True)
class Row:
    """A point with its forecast seconds, their interval, and the measured seconds."""

    point: Point
    said_s: float
    low_s: float
    high_s: float
    passes_s: tuple[float, ...]
    said_bytes: float
    measured_bytes: float
    round_trip_seen_ms: float

    @property
    def measured_s(self) -> float:
        return statistics.median(self.passes_s)

    @property
    def error(self) -> float:
        """The error relative to the measured time."""
        return self.said_s / self.measured_s - 1

    @property
    def is_held(self) -> bool:
        return self.low_s <= self.measured_s <= self.high_s

    @property
    def noise(self) -> float:
        """Half the difference between the passes, relative to their median; 0 for one pass."""
        return (max(self.passes_s) - min(self.passes_s)) / 2 / self.measured_s


def points(count: int, seed: int) -> list[Point]:
    """Draw this many points, balanced between kinds of data, layouts, codecs, access modes and links."""
    chance = Random(seed)
    sets = [(kind, layout, codec, few) for kind in KINDS for layout in LAYOUTS for codec in CODECS for few in (0, 1)]
    ways: list[tuple[str, int, int]] = []
    found: list[Point] = []
    while len(found) < count:
        if len(found) % len(sets) == 0:
            chance.shuffle(sets)
        kind, layout, codec, few = sets[len(found) % len(sets)]
        if not ways:
            ways = [(mode, ms, rate) for mode in MODES for ms in ROUND_TRIPS_MS for rate in MB_PER_S]
            chance.shuffle(ways)
        mode, ms, rate = ways.pop()
        if mode == "plain" and not few and ms > PLAIN_MS_MAX:
            continue
        found.append(Point(kind, layout, codec, bool(few), mode, ms, rate, _source(len(found), layout, codec)))
    return found


def _source(number: int, layout: str, codec: str) -> str:
    """Return the layout and codec to forecast from: small files for every other merged file, zlib for every other set
    of small files.
    """
    if layout == "merged" and number % 2:
        return "small files"
    if layout == "small files" and codec in TRIED and number % 2:
        return "zlib"
    return ITSELF


class Places:
    """The files of all points, on a server."""

    def __init__(self, cache: Path, port: int, paths: dict[str, list[str]]) -> None:
        self.cache, self.port, self.paths = cache, port, paths

    def subject(self, point: Point) -> tuple[Subject, Conditions]:
        """Return the subject of a forecast, read over a link without delay, and the changes to forecast."""
        layout = "small files" if point.source == "small files" else point.layout
        codec = "zlib" if point.source == "zlib" else point.codec
        with link(self.port, "latency=0ms") as base:
            urls = [f"{base}/{name}" for name in self.paths[set_name(point.kind, layout, codec)]]
            # Use a new process, like a job: the first read of a process takes longer.
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
                subject = replace(process.submit(subject_of, urls, point.branches).result(), threads=1)
        conditions = Conditions(mode=point.mode)
        if point.source == "small files":
            conditions = replace(conditions, merged_bytes=MERGED_BYTES)
        return subject, conditions if codec == point.codec else replace(conditions, codec=TRIED[point.codec])

    def read(self, point: Point) -> Iterator[tuple[dict[str, Any], float]]:
        """Yield the result of each pass over a point's files, which runs in a new process, and the seconds of a round
        trip measured before the pass.
        """
        throttle = f"latency={point.round_trip_ms}ms,bandwidth={point.mb_per_s}MB/s"
        branches = None if point.branches is None else list(point.branches)
        names = self.paths[set_name(point.kind, point.layout, point.codec)]
        for _ in range(PASSES):
            seen_s = round_trip_seen(throttle)
            with link(self.port, throttle) as base:
                request = {"files": [f"{base}/{name}" for name in names], "tree": TREE, "branches": branches}
                how = {"mode": point.mode, "threads": 1}
                done = measured({"reader": "branchline", "how": how, **request}, LONGEST_S)
            if done is None:
                return
            yield done, seen_s
            if done["seconds"] > LONG_S:
                return

    def row(self, point: Point) -> Row | None:
        """Return the row of a point, or None if its read took too long."""
        subject, conditions = self.subject(point)
        done = list(self.read(point))
        if not done:
            return None
        seen_s = statistics.median(seen for _, seen in done)
        conditions = replace(conditions, round_trip_s=seen_s, bytes_per_second=point.mb_per_s * MB)
        then = self._forecast(point, subject, conditions).then
        return Row(
            point,
            *(then.wall_s.value, then.wall_s.low, then.wall_s.high),
            passes_s=tuple(one["seconds"] for one, _ in done),
            said_bytes=then.bytes_read.value,
            measured_bytes=done[0][0]["bytes"],
            round_trip_seen_ms=seen_s * 1e3,
        )

    def _forecast(self, point: Point, subject: Subject, conditions: Conditions) -> WhatIf:
        if conditions.codec is None:
            return what_if(subject, conditions)
        # The codec is tried on local files.
        local = files_of(self.cache, point.kind, point.layout, "zlib", print)
        tried = subject_of([str(path) for path in local], point.branches)
        return what_if(subject, conditions, try_codec(conditions.codec, tried.files, tried.laid, tried.branches))


def set_name(kind: str, layout: str, codec: str) -> str:
    return f"{kind}-{codec}-{layout.replace(' ', '-')}"


def rows_of(cache: Path, count: int, seed: int, progress: Callable[[str], None]) -> list[Row]:
    """Measure and forecast all points."""
    wanted = points(count, seed)
    files: dict[str, Path] = {}
    paths: dict[str, list[str]] = {}
    for one in wanted:
        layouts = {one.layout, "small files" if one.source == "small files" else one.layout}
        for layout in layouts:
            for codec in {one.codec, "zlib" if one.source == "zlib" else one.codec}:
                name = set_name(one.kind, layout, codec)
                made = files_of(cache, one.kind, layout, codec, progress)
                paths[name] = [f"{name}/{number}.root" for number in range(len(made))]
                files |= dict(zip(paths[name], made, strict=True))
    found = []
    with served(files) as place:
        places = Places(cache, place.port, paths)
        for number, one in enumerate(wanted):
            progress(f"forecasts: point {number + 1} of {count}")
            row = places.row(one)
            if row is not None:
                found.append(row)
    return found


def figures(rows: Sequence[Row]) -> list[str]:
    """Return the cells for these points: their number, errors, coverage, error in bytes, and noise of the passes."""
    errors = sorted(abs(one.error) for one in rows)
    near = sum(one <= GOAL for one in errors) / len(errors)
    held = sum(one.is_held for one in rows) / len(rows)
    ninety = errors[min(len(errors) - 1, math.ceil(NINETY * len(errors)) - 1)]
    bias = statistics.median(one.error for one in rows)
    bytes_ = statistics.median(abs(one.said_bytes / max(1, one.measured_bytes) - 1) for one in rows)
    noise = statistics.median(one.noise for one in rows)
    texts = [f"{100 * one:.1f}" for one in (statistics.median(errors), ninety, bias)]
    return [str(len(rows)), *texts, f"{near:.0%}", f"{held:.0%}", f"{100 * bytes_:.2f}", f"{100 * noise:.1f}"]


HEAD = ["points", "median error %", "9 of 10 below %", "bias %", "within 15 %", "in the interval", "bytes %", "noise %"]


def kinds_table(rows: Sequence[Row]) -> str:
    lines = [["all", *figures(rows)]]
    words: dict[str, Callable[[Row], str]] = {
        "access": lambda row: row.point.mode,
        "layout": lambda row: row.point.layout,
        "codec": lambda row: row.point.codec,
        "data": lambda row: row.point.kind,
        "branches": lambda row: str(len(FEW)) if row.point.few else "all",
        "round trip": lambda row: f"{row.point.round_trip_ms} ms",
        "bandwidth": lambda row: f"{row.point.mb_per_s} MB/s",
        "forecast from": lambda row: row.point.source,
    }
    for name, word in words.items():
        values = dict.fromkeys(word(row) for row in sorted(rows, key=lambda one: _order(one.point)))
        lines += [[f"{name}: {value}", *figures([row for row in rows if word(row) == value])] for value in values]
    return table(["", *HEAD], lines)


def _order(point: Point) -> tuple[int, ...]:
    return (point.round_trip_ms, point.mb_per_s, LAYOUTS.index(point.layout), CODECS.index(point.codec))


def worst_table(rows: Sequence[Row]) -> str:
    lines = []
    for row in sorted(rows, key=lambda one: -abs(one.error))[:WORST]:
        point = row.point
        what = f"{point.kind}, {point.layout}, {point.codec}, {'few' if point.few else 'all'} branches"
        way = f"{point.mode}, {point.round_trip_ms} ms, {point.mb_per_s} MB/s"
        passes = " ".join(f"{one:.2f}" for one in row.passes_s)
        lines.append([what, way, point.source, f"{row.said_s:.2f}", passes, f"{100 * row.error:+.0f}"])
    return table(["read", "link", "from", "forecast s", "measured s", "error %"], lines)


def forecasts_page(
    cache: Path, count: int, seed: int, progress: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Measure, forecast, and return the page and its rows."""
    rows = rows_of(cache, count, seed, progress)
    lines = ["# Forecasts compared with measurements", "", *machine_lines(PASSES), ""]
    lines += [
        f"{len(rows)} reads, drawn with seed {seed} from five access modes, four layouts, four codecs, two kinds of",
        "data, all and few branches, round trips of 0 to 100 ms and 1 to 100 MB/s, through a proxy to a local XRootD",
        "server. Each is forecast from a preceding read in the default mode without delay. Some forecasts start from",
        "other files with the same events: small files to be merged, or zlib files to be recompressed. The forecast",
        "gets the round trip of a ping through the proxy, and the bandwidth that the proxy is set to.",
        "The noise is half the difference between the shortest and longest pass.",
        "",
        kinds_table(rows),
        "",
        f"## The {min(WORST, len(rows))} largest errors",
        "",
        worst_table(rows),
    ]
    return "\n".join(lines) + "\n", [asdict(one) | {"error": one.error, "is_held": one.is_held} for one in rows]
