"""The forecast of a train, against the train itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.dataset import Dataset
from branchline.trains.testing.cost_forecast import _events_in, _output, forecast


class Fixed:
    name = "fixed"

    def process(self, events: Any) -> dict[str, Any]:
        return {"counts": np.bincount(np.asarray(events.run), minlength=100)}


class Grows:
    name = "grows"
    requires = ("fixed",)

    def process(self, events: Any) -> list[float]:
        assert events.outputs["fixed"]["counts"].sum() == len(events)
        return [float(value) for value in events.px]


class Fails:
    name = "fails"

    def process(self, events: Any) -> None:
        raise OverflowError("too much")


def test_each_wagon_is_tried_alone_on_a_sample(folder: Path) -> None:
    outcome = forecast([Grows(), Fixed(), Fails()], str(folder), workers=2)
    wagons = {wagon.name: wagon for wagon in outcome.wagons}
    assert outcome.failed
    assert wagons["fixed"].branches == ("run",)
    assert set(wagons["grows"].branches) == {"px", "run"}
    assert wagons["fixed"].error is None
    assert wagons["fixed"].events == 3 * 1500
    assert wagons["fails"].error is not None
    assert wagons["fails"].error.type == "OverflowError"
    assert outcome.events == pytest.approx(5 * 1500, rel=0.02)
    assert outcome.seconds > 0
    assert outcome.memory_bytes > 2 * 10**7


def test_outputs_that_grow_are_extrapolated_and_others_are_not(folder: Path) -> None:
    fixed, grows = sorted(forecast([Grows(), Fixed()], str(folder)).wagons, key=lambda one: one.name)
    assert (fixed.name, grows.name) == ("fixed", "grows")
    assert grows.output_grows
    # A float is pickled in nine bytes.
    assert grows.output_bytes_forecast == pytest.approx(9 * 5 * 1500, rel=0.1)
    assert not fixed.output_grows
    assert fixed.output_bytes_forecast == fixed.output_bytes


def test_sizes_are_extrapolated_from_the_last_and_the_first() -> None:
    assert _output([(100, 1000), (200, 1001)], 10**6) == (1001, 1001, False)
    assert _output([(100, 1000), (200, 2000)], 1000) == (2000, 10000, True)
    assert _output([(100, 1000)], 1000) == (1000, 1000, False)
    assert _output([], 1000) == (0, 0, False)


def test_events_are_extrapolated_by_bytes() -> None:
    files = [DataFile(f"f{index}.root", size_bytes=size) for index, size in enumerate((100, 200, 300, 400))]
    events, how = _events_in(Dataset(files), {"f0.root": 10, "f2.root": 30})
    assert events == 100
    assert "2 of 4 files" in how
    assert _events_in(Dataset(files[:1]), {"f0.root": 10})[0] == 10


class Settings:
    """What wagons of one file may share by mistake."""

    scale = 1.0


class Overwrites:
    """Changes what others use too."""

    name = "overwrites"

    def process(self, events: Any) -> int:
        Settings.scale = 2.0
        return len(events)


class AddsUp:
    def __init__(self, name: str) -> None:
        self.name = name

    def process(self, events: Any) -> float:
        return float(np.sum(np.asarray(events.px))) * Settings.scale


class Harmless:
    name = "harmless"

    def process(self, events: Any) -> dict[str, Any]:
        events.metadata["note"] = "mine"
        return {"run": set(np.unique(np.asarray(events.run)).tolist()), "px": np.asarray(events.px)[:3].copy()}


class Draws:
    name = "draws"

    def process(self, events: Any) -> float:
        return float(np.random.default_rng().normal())


def test_a_wagon_that_changes_what_others_see_is_named(folder: Path) -> None:
    outcome = forecast([Harmless(), Overwrites(), AddsUp("first"), AddsUp("second")], str(folder / "f0.root"))
    assert outcome.failed
    assert [(one.wagon, one.changed_by) for one in outcome.differences] == [
        ("first", ("overwrites",)),
        ("second", ("overwrites",)),
    ]
    assert "wagon first" in outcome.differences[0].sentence()
    assert "overwrites" in outcome.differences[0].sentence()


def test_wagons_that_leave_each_other_alone_do_not_differ(folder: Path) -> None:
    outcome = forecast([Harmless(), Fixed(), Grows(), AddsUp("sum")], str(folder))
    assert outcome.differences == ()
    assert not outcome.failed


def test_a_result_that_differs_each_time_blames_nobody(folder: Path) -> None:
    [difference] = forecast([Fixed(), Draws()], str(folder / "f0.root")).differences
    assert (difference.wagon, difference.changed_by, difference.is_repeatable) == ("draws", (), False)
    assert "random" in difference.sentence()
