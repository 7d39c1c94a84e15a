"""Pictures of studies say what they leave out, and their texts can be read."""

from __future__ import annotations

import itertools
import re

from branchline.base.palette import COLOURS
from branchline.lab.studies.study_pictures import SERIES_MAX, IntervalRow, Series, intervals, lines


def test_lines_that_are_not_drawn_are_counted() -> None:
    many = [Series(f"arm {number}", [1.0, 2.0], COLOURS[0]) for number in range(SERIES_MAX + 3)]
    picture = lines("Throughput", "MB/s", ["1", "2"], many, "jobs")
    assert picture.unit == f"MB/s; {SERIES_MAX} of {SERIES_MAX + 3} lines are drawn"
    assert len(picture.keys) == SERIES_MAX
    assert lines("Throughput", "MB/s", ["1", "2"], many[:SERIES_MAX], "jobs").unit == "MB/s"


def test_ratios_at_the_axis_do_not_touch() -> None:
    for low, high in ((0.31, 0.61), (0.98, 1.02), (0.9, 3.4), (0.02, 40.0)):
        svg = intervals("Beside the baseline", "times", [IntervalRow("arm", low, low, high)]).svg
        places = sorted(
            float(one) for one in re.findall(r'class="tick" x="([0-9.]*)" y="[0-9.]*" text-anchor="mid', svg)
        )
        assert len(places) > 1
        assert min(second - first for first, second in itertools.pairwise(places)) >= 30
        assert ">1</text>" in svg


def test_arms_with_long_names_that_end_differently_have_different_labels() -> None:
    names = [f"storage root://storage.element.of.an.institute.example.org//data, jobs {jobs}" for jobs in (1, 8)]
    svg = intervals("Beside the baseline", "times", [IntervalRow(name, 1.0, 0.9, 1.1) for name in names]).svg
    assert "data, jobs 1</text>" in svg
    assert "data, jobs 8</text>" in svg
