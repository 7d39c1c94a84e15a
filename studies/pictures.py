"""Plots of a study for its page, as SVG files."""

from __future__ import annotations

from collections.abc import Callable

from branchline.base.palette import COLOURS
from branchline.lab.studies.study_pictures import SERIES_MAX, IntervalRow, Series, StudyPicture, intervals, lines
from branchline.lab.studies.study_result import ArmResult, StudyResult

_ROWS_MAX = 24
#: Minimum number of levels of jobs for a plot against the number of jobs.
_LEVELS_MIN = 2
_STYLE = (
    "<style>text{font:12px sans-serif;fill:#333}.axis{font-size:13px}.grid{stroke:#ddd;fill:none}"
    ".zero{stroke:#333;fill:none}.span{stroke:#3f90da;stroke-width:3;fill:none}.dot{fill:#bd1f01}"
    ".curve{fill:none;stroke-width:2}</style>"
)
_KEY_HEIGHT = 18


def pictures_of(result: StudyResult) -> list[tuple[str, str]]:
    """Return titles and SVG: throughput and CPU efficiency against the number of jobs, and ratios to the baseline."""
    made = []
    numbers = sorted({int(one.levels["jobs"]) for one in result.arms if one.levels.get("jobs", "").isdigit()})
    if len(numbers) >= _LEVELS_MIN:
        jobs = [str(one) for one in numbers]
        made.append(_against_jobs(result, "Throughput of all jobs, MB/s", jobs, _megabytes))
        made.append(_against_jobs(result, "CPU efficiency, %", jobs, _efficiency))
    ratios = [
        IntervalRow(one.name, one.time.value, one.time.low, one.time.high)
        for one in result.arms
        if one.time is not None
    ]
    if ratios:
        unit = "times the baseline's time (left is faster)"
        made.append(intervals("Time relative to the baseline", unit, ratios[:_ROWS_MAX]))
    return [(one.title, standalone(one)) for one in made]


def _megabytes(one: ArmResult) -> float | None:
    return None if one.bytes_per_s is None else one.bytes_per_s / 1e6


def _efficiency(one: ArmResult) -> float | None:
    return None if one.efficiency is None else 100 * one.efficiency


def _against_jobs(
    result: StudyResult, title: str, jobs: list[str], value: Callable[[ArmResult], float | None]
) -> StudyPicture:
    rows: dict[str, dict[str, ArmResult]] = {}
    for one in result.arms:
        others = ", ".join(level for name, level in one.levels.items() if name != "jobs")
        rows.setdefault(others or "all", {})[one.levels["jobs"]] = one
    series = [
        Series(name, [value(arms[one]) if one in arms else None for one in jobs], COLOURS[number % len(COLOURS)])
        for number, (name, arms) in enumerate(rows.items())
    ]
    return lines(title, "", jobs, series[:SERIES_MAX], "jobs at once")


def standalone(picture: StudyPicture) -> str:
    """Return a plot as an SVG file with a white background, its title above and its legend below."""
    svg = str(picture.svg)
    head, _, inner = svg.partition(">")
    width, height = (float(one) for one in head.partition('viewBox="0 0 ')[2].partition('"')[0].split())
    keys = "".join(
        f'<rect x="70" y="{height + 4 + _KEY_HEIGHT * row:.0f}" width="14" height="10" fill="{colour}"/>'
        f'<text x="90" y="{height + 13 + _KEY_HEIGHT * row:.0f}">{_escaped(name)}</text>'
        for row, (name, colour, _) in enumerate(picture.keys)
    )
    total = height + _KEY_HEIGHT * len(picture.keys) + 30
    inner = inner.removesuffix("</svg>")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 -22 {width:.0f} {total:.0f}" width="{width:.0f}">'
        f'{_STYLE}<rect y="-22" width="100%" height="{total:.0f}" fill="#fff"/>'
        f'<text x="64" y="-6" style="font-weight:bold">{_escaped(picture.title)}</text>{inner}{keys}</svg>\n'
    )


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
