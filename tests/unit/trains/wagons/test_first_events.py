"""--max-events and --max-files: the first of each dataset, the same ones every time, and said to be so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.trains.wagons.conftest import EVENTS_PER_FILE, FILES, run_in_chunks

import branchline
from branchline.errors import MissingFileError, OptionError
from branchline.records.report.job_summary import summary

SOURCE = """
class Runs:
    by_dataset = True

    def process(self, events):
        return {int(events.run[0]): len(events)}
"""


@pytest.fixture
def runs(tmp_path: Path) -> str:
    """A wagon that counts the events of each file, whose number is in ``run``."""
    path = tmp_path / "runs.py"
    path.write_text(SOURCE)
    return str(path)


@pytest.fixture
def two(folder: Path) -> dict[str, list[str]]:
    """Two datasets, of three files and of two."""
    paths = [str(folder / f"f{index}.root") for index in range(FILES)]
    return {"a": paths[:3], "b": paths[3:]}


def fileset(two: dict[str, list[str]]) -> Any:
    return {name: {"files": paths, "object_path": "events"} for name, paths in two.items()}


def test_the_first_events_of_each_dataset_are_read(runs: str, two: dict[str, list[str]]) -> None:
    result = run_in_chunks(runs, fileset(two), max_events=2000)
    assert result.outputs["Runs"] == {"a": {0: 1500, 1: 500}, "b": {3: 1500, 4: 500}}
    assert result.record.events == result.record.events_expected == 4000
    assert result.record.max_events == 2000
    assert result.exit_code == 0
    assert "Read: the first 2 000 events of each dataset, as requested." in summary(result.record)


def test_the_first_files_of_each_dataset_are_read(runs: str, two: dict[str, list[str]]) -> None:
    result = run_in_chunks(runs, fileset(two), max_files=1)
    assert result.outputs["Runs"] == {"a": {0: 1500}, "b": {3: 1500}}
    assert len(result.record.dataset) == 2
    both = run_in_chunks(runs, fileset(two), max_files=2, max_events=1600)
    assert both.outputs["Runs"] == {"a": {0: 1500, 1: 100}, "b": {3: 1500, 4: 100}}
    more = run_in_chunks(runs, fileset(two), max_files=9, max_events=10**9)
    assert more.record.events == FILES * EVENTS_PER_FILE


def test_the_same_events_for_any_number_of_workers(runs: str, two: dict[str, list[str]]) -> None:
    one = run_in_chunks(runs, fileset(two), max_events=2000)
    many = run_in_chunks(runs, fileset(two), max_events=2000, workers=2)
    assert many.outputs == one.outputs


def test_entry_ranges_of_a_list_count(runs: str, folder: Path) -> None:
    files = {str(folder / "f0.root"): {"object_path": "events", "steps": [[100, 200], [300, 400]]}}
    result = run_in_chunks(runs, {"a": {"files": files}}, max_events=150)
    assert result.record.events == 150
    assert [one.entries for one in result.record.files] == [EVENTS_PER_FILE]


def test_no_more_files_are_opened_than_are_needed(runs: str, two: dict[str, list[str]], tmp_path: Path) -> None:
    bad = tmp_path / "bad.root"
    bad.write_bytes(b"root" * 100)
    files = [*two["a"][:1], str(bad)]
    enough = run_in_chunks(runs, {"a": {"files": files, "object_path": "events"}}, max_events=1000)
    assert enough.record.events == 1000
    with pytest.raises(branchline.BadFileError):
        run_in_chunks(runs, {"a": {"files": files, "object_path": "events"}}, max_events=1501)


def test_files_that_are_skipped_are_named(runs: str, two: dict[str, list[str]], tmp_path: Path) -> None:
    files = [two["a"][0], str(tmp_path / "gone.root"), two["a"][1]]
    dataset = {"a": {"files": files, "object_path": "events"}}
    result = run_in_chunks(runs, dataset, max_events=2000, skip_bad_files=True)
    assert result.outputs["Runs"] == {"a": {0: 1500, 1: 500}}
    assert [one.path for one in result.record.skipped] == [str(tmp_path / "gone.root")]
    with pytest.raises(MissingFileError):
        run_in_chunks(runs, dataset, max_events=2000)


def test_kept_results_of_whole_files_serve(
    runs: str, two: dict[str, list[str]], tmp_path: Path, small_subjobs: None
) -> None:
    def run(**only: int) -> Any:
        return branchline.run(runs, fileset(two), tmp_path / "out", workers=0, pictures="none", step_size=400, **only)

    run()
    again = run(max_files=1)
    assert [one.not_reusable for one in again.record.wagons] == [""]
    assert again.record.subjobs_reused == again.record.subjobs == 2
    assert branchline.load(tmp_path / "out")["Runs"] == {"a": {0: 1500}, "b": {3: 1500}}
    assert branchline.load(tmp_path / "out").record.max_files == 1


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "3"])
def test_an_impossible_number_is_refused(runs: str, two: dict[str, list[str]], wrong: Any) -> None:
    with pytest.raises(OptionError):
        run_in_chunks(runs, fileset(two), max_events=wrong)
