"""A value of a wrong type for a setting gives a sentence on what to give, and nothing is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy
import pytest

import branchline
from branchline.errors import DatasetError, OptionError
from branchline.trains.run_options import TrainSettings

run: Any = branchline.run


class Counts:
    """A wagon."""

    def process(self, events: Any) -> int:
        return len(events)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("workers", "4", "invalid number of workers: '4'"),
        ("workers", 1.5, "invalid number of workers: 1.5"),
        ("workers", -1, "invalid number of workers: -1"),
        ("branches", "px", r"branches cannot be 'px' \(give a list"),
        ("branches", 5, "branches cannot be 5"),
        ("branches", [5], r"branches cannot be \[5\]"),
        ("step_size", 1.5, "1.5 is not a size"),
        ("memory_limit", [], r"\[\] is not a size"),
        ("worker_timeout", "x", "invalid worker_timeout: 'x'"),
        ("worker_timeout", None, "invalid worker_timeout: None"),
        ("worker_timeout", float("nan"), "invalid worker_timeout: nan"),
        ("worker_timeout", float("inf"), "invalid worker_timeout: inf"),
        ("allow_missing", "x", "invalid allow_missing: 'x'"),
        ("allow_missing", 2, "invalid allow_missing: 2"),
        ("tree", 5, "the tree of a dataset cannot be 5"),
        ("out", 5, "the directory of results cannot be 5"),
        ("pictures", "png", r"pictures cannot be 'png' \(give svg, both or none\)"),
        ("progress", 5, "progress cannot be 5"),
        ("batch", branchline.BatchSettings(), "batch is only for"),
    ],
)
def test_a_wrong_setting_is_refused(tmp_path: Path, setting: str, value: object, message: str) -> None:
    with pytest.raises((OptionError, DatasetError), match=message):
        run([Counts()], str(tmp_path / "nowhere.root"), **{"out": tmp_path / "out", setting: value})
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("settings", [{"tasks": "x"}, {"tasks": 1.5}, {"tasks": 0}, {"options": "--x"}, {"options": 5}])
def test_wrong_settings_of_batch_systems_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        branchline.BatchSettings(**settings)


def test_options_of_batch_systems_may_be_a_list() -> None:
    assert branchline.BatchSettings(options=cast("Any", ["--x"])).options == ("--x",)


def test_numbers_of_numpy_are_numbers() -> None:
    settings = TrainSettings(workers=cast("Any", numpy.int64(2)), step_size=cast("Any", numpy.int32(100)))
    assert (settings.workers, settings.step_size) == (2, 100)
    assert branchline.BatchSettings(tasks=cast("Any", numpy.int64(3))).tasks == 3


@pytest.mark.parametrize("out", [5, None])
def test_a_submitted_train_is_in_a_directory(out: Any) -> None:
    with pytest.raises(OptionError, match="directory"):
        branchline.SubmittedTrain(out)


def test_a_forecast_is_for_a_number_of_workers(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="invalid number of workers: 'x'"):
        branchline.forecast([Counts()], str(tmp_path / "nowhere.root"), workers=cast("Any", "x"))


@pytest.mark.parametrize(
    "content",
    [
        {"files": ["a.root"], "metadata": 5},
        {"files": ["a.root"], "metadata": [1]},
        {"files": {"a.root": {"replicas": "b.root"}}},
        {"files": {"a.root": {"replicas": [5]}}},
        {"files": {"a.root": {"replicas": 5}}},
    ],
)
def test_a_fileset_with_values_of_wrong_types_is_refused(content: dict[str, Any]) -> None:
    with pytest.raises(DatasetError):
        branchline.Dataset.of({"name": content})


@pytest.mark.parametrize("files", [5, [5], ["a.root"]])
def test_a_dataset_is_made_of_files(files: Any) -> None:
    with pytest.raises(DatasetError, match=r"Dataset\.of"):
        branchline.Dataset(files)
