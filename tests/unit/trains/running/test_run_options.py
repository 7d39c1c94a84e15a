"""The options of a run are defined once: the function, the command, the record and the reference have the same ones."""

from __future__ import annotations

import dataclasses
import inspect
import json
import pickle
from pathlib import Path
from typing import ForwardRef

import numpy as np
import pytest
import uproot
from tests.command_line import run_command

import branchline
from branchline.base.option_fields import option_of
from branchline.cli.command_list import command
from branchline.cli.parameters import filled
from branchline.cli.parser import parse
from branchline.cli.reference import reference
from branchline.records.sensors.record import JobRecord
from branchline.trains.run_options import _NOT_RECORDED, BatchSettings, RunOptions, RunSettings, TrainSettings

WAGON = "def total(events):\n    return {'sum': int(events.x.to_numpy().sum())}\n"


@pytest.fixture
def train(tmp_path: Path) -> tuple[str, str]:
    """A wagon and its data."""
    (tmp_path / "wagon.py").write_text(WAGON)
    with uproot.recreate(tmp_path / "data.root") as file:
        file["events"] = {"x": np.arange(100)}
    return f"{tmp_path}/wagon.py:total", f"{tmp_path}/data.root"


def test_type_checkers_know_each_option_with_its_type() -> None:
    typed = {
        name: one.__forward_arg__ if isinstance(one, ForwardRef) else one
        for name, one in RunSettings.__annotations__.items()
    }
    # The overloads of the function have the place of the run themselves: it decides what is returned.
    assert typed == {one.name: one.type for one in dataclasses.fields(RunOptions) if one.name != "on"}


def test_the_function_has_each_option_in_its_signature_and_its_description() -> None:
    parameters = inspect.signature(branchline.run).parameters
    for one in dataclasses.fields(RunOptions):
        assert parameters[one.name].default == one.default
        option = option_of(one)
        assert option is not None
        assert f"{one.name}: {option.description}" in (inspect.getdoc(branchline.run) or "").splitlines()
    assert list(parameters)[:4] == ["wagons", "dataset", "out", "batch"]


def test_the_description_has_no_words_of_the_command_line() -> None:
    described = [line for line in (inspect.getdoc(branchline.run) or "").splitlines() if ": " in line]
    assert [line for line in described if "--" in line or "may be repeated" in line or "commas" in line] == []
    assert any(line.startswith("reuse: Reuse the results") for line in described)


def test_the_command_and_the_reference_have_each_option() -> None:
    (described,) = (one for one in reference() if one.name == "run")
    flags = {flag: one.help for one in described.options for flag in one.flags}
    for one in dataclasses.fields(RunOptions):
        option = option_of(one)
        assert option is not None
        for flag in option.flags:
            assert flags[flag] == option.help


def test_a_command_gives_what_the_function_is_given(train: tuple[str, str], tmp_path: Path) -> None:
    wagon, data = train
    words = ["--step-size", "30", "--memory-limit", "64 MiB", "--max-events", "50", "--seed", "7", "-j", "1"]
    words += ["--allow-missing", "25%", "--branches", "x", "--skip-bad-files", "--no-reuse", "--pictures", "none"]
    done = run_command(["run", wagon, data, "-o", str(tmp_path / "command"), *words])
    assert done.exit_code == 0, done.output
    branchline.run(
        wagon,
        data,
        tmp_path / "function",
        step_size=30,
        memory_limit="64 MiB",
        max_events=50,
        seed=7,
        workers=1,
        allow_missing=0.25,
        branches=["x"],
        skip_bad_files=True,
        reuse=False,
        pictures="none",
    )
    records = [json.loads((tmp_path / name / "job.json").read_text()) for name in ("command", "function")]
    expected = {
        "workers": "1", "step_size": "30", "memory_limit": "67108864", "branches": "x", "skip_bad_files": "True",
        "allow_missing": "0.25", "max_events": "50", "seed": "7", "reuse": "False", "pictures": "none",
    }  # fmt: skip
    assert [one["options"] for one in records] == [expected, expected]
    assert JobRecord.from_dict(records[0]).options == expected


def test_options_that_nobody_gave_are_not_in_the_record(train: tuple[str, str]) -> None:
    assert branchline.run(*train, workers=0).record.options == {"workers": "0"}


def test_options_of_the_run_alone_are_in_the_record_too() -> None:
    options = RunOptions(
        tree="Events",
        companions={"a": "https://user:secret@host/b.root"},
        allow_partial=True,
        reuse=False,
        pictures="both",
        report_to="http://room.example?token=secret",
        command="branchline run",
        force=True,
    )
    recorded = options.recorded()
    assert "secret" not in recorded.pop("companions")
    assert recorded == {"tree": "Events", "allow_partial": "True", "reuse": "False", "pictures": "both"}
    assert RunOptions().recorded() == {}


def test_every_option_is_recorded_or_named_as_not_recorded() -> None:
    assert {one.name for one in dataclasses.fields(RunOptions)} > _NOT_RECORDED


def test_a_command_without_options_has_the_defaults(train: tuple[str, str], tmp_path: Path) -> None:
    wagon, data = train
    words = [wagon, data, "-o", str(tmp_path / "out")]
    given = filled(command("run").members, parse(command("run"), words))
    assert given["options"] == RunOptions()
    assert given["batch"] == BatchSettings()
    more = ["--batch-option=--time=5", "--batch-option=--x", "--companion", "b.root", "--tasks", "3"]
    given = filled(command("run").members, parse(command("run"), [*words, *more]))
    assert given["batch"] == BatchSettings(options=("--time=5", "--x"), tasks=3)
    assert given["options"] == RunOptions(companions=["b.root"])
    done = run_command(["run", *words, "-j", "1"])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(("words", "message"), [
    (["--allow-missing", "2"], "for --allow-missing: '2'"), (["--pictures", "png"], "not one of svg, both, none"),
    (["--on", "nowhere"], "nowhere"), (["--on", "dask=tcp://a:1", "-j", "2"], "has its own workers"),
])  # fmt: skip
def test_an_impossible_option_is_wrong_usage(
    train: tuple[str, str], tmp_path: Path, words: list[str], message: str
) -> None:
    done = run_command(["run", *train, "-o", str(tmp_path / "out"), *words])
    assert done.exit_code == 2
    assert message in done.output


def test_an_unknown_option_is_refused_as_python_does(train: tuple[str, str]) -> None:
    with pytest.raises(TypeError, match=r"run\(\) got an unexpected keyword argument 'worker'"):
        branchline.run(*train, worker=2)  # type: ignore[call-overload]


def test_what_is_stored_with_a_plan_has_no_functions() -> None:
    options = RunOptions(progress=lambda _: None, max_events=5, on="slurm")
    stored = options.for_plan()
    assert type(stored) is TrainSettings
    assert (stored.max_events, stored.on) == (5, None)
    assert pickle.loads(pickle.dumps(stored)) == stored
