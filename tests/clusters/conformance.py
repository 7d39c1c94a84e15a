"""What every place must do. Each check runs a train there and compares it with the same train in one process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import awkward as ak
import pyarrow.parquet
import pytest
import uproot
from tests.clusters.places import PlaceHere
from tests.clusters.wagons import CRASHING, FAILING, HUNGRY, KILLING, PLAIN, SLOW, STUCK, TABLES, TOGETHER, write_wagons

import branchline

EVENTS_PER_FILE = 1200
FILES = 8
EVENTS = FILES * EVENTS_PER_FILE
_EXPECTED: dict[Path, str] = {}


@dataclass(frozen=True)
class Case:
    """A place, the files to run over, and a folder for the wagons."""

    place: PlaceHere
    data: Path
    folder: Path

    def run(self, wagons: str, data: Path | None = None, **settings: Any) -> branchline.TrainResult:
        return run(wagons, data or self.data, **self.place.settings, **settings)

    def alone(self, wagons: str, data: Path | None = None, **settings: Any) -> branchline.TrainResult:
        return run(wagons, data or self.data, workers=0, **settings)

    @cached_property
    def expected(self) -> str:
        """The digest of the plain wagons' results, run alone in this process."""
        if self.data not in _EXPECTED:
            _EXPECTED[self.data] = digest(self.alone(write_wagons(self.folder / "expected", PLAIN)))
        return _EXPECTED[self.data]


def run(wagons: str, data: Path, out: Path | None = None, **settings: Any) -> branchline.TrainResult:
    from branchline.trains.plan import TrainRequest
    from branchline.trains.run import run_quietly
    from branchline.trains.run_options import RunOptions

    checked = RunOptions(**{"step_size": 400, "memory_limit": "256 MiB", **settings})
    return run_quietly(TrainRequest(wagons, str(data), checked), out)


def digest(result: branchline.TrainResult) -> str:
    """Every bit of the plain wagons' results, as text."""
    outputs = result.outputs
    assert None not in (outputs["spectra"], outputs["momenta"]), [one.traceback for one in result.record.errors]
    histogram = outputs["spectra"]["pt"].view(flow=True)
    bits = [histogram.tobytes().hex(), outputs["momenta"]["sum"].hex()]
    return json.dumps([bits, outputs["spectra"]["events"], outputs["momenta"]["events"]])


def the_result_is_the_same_bit_for_bit(case: Case) -> None:
    wagons = write_wagons(case.folder, PLAIN)
    result = case.run(wagons)
    assert result.errors == []
    assert digest(result) == case.expected
    assert result.record.events == EVENTS
    assert result.record.subjobs_done == result.record.subjobs == FILES
    assert sum(one.host != "" for one in result.record.worker_phases) == result.record.workers


def tables_have_the_rows_of_the_input_in_its_order(case: Case) -> None:
    wagons = write_wagons(case.folder, TABLES, VICTIM=0, MARK=case.folder / "mark")
    _check_tables(case, case.run(wagons, out=case.folder / "out"))


def a_killed_worker_leaves_no_rows_in_tables(case: Case) -> None:
    if not case.place.has_processes:
        pytest.skip("the process of the test would die")
    wagons = write_wagons(case.folder, TABLES, VICTIM="os.getpid()", MARK=case.folder / "mark")
    result = case.run(wagons, out=case.folder / "out")
    assert (case.folder / "mark").exists()
    _check_tables(case, result)


def _check_tables(case: Case, result: branchline.TrainResult) -> None:
    """All events once, in the order of the files, as uproot and Arrow read them."""
    assert result.errors == []
    assert digest(result) == case.expected
    every = ak.concatenate([uproot.open(case.data / f"f{index}.root")["events"].arrays() for index in range(FILES)])
    wanted = every[every.px > 0]
    skim = result.outputs["skim"]
    assert skim["events"] == len(wanted)
    for key, tree in (("tree", "Events"), ("ntuple", "ntuple")):
        rows = uproot.open(skim[key].path)[tree].arrays()
        assert skim[key].rows == len(wanted)
        assert all(ak.to_list(rows[name]) == ak.to_list(wanted[name]) for name in ("px", "run", "pt"))
    table = pyarrow.parquet.read_table(skim["parquet"].path)
    assert table["pt"].to_pylist() == ak.to_list(ak.flatten(wanted.pt))
    assert [one.pieces for one in result.record.tables] == [FILES] * 3
    assert not list((case.folder / "out").glob(".pieces-*"))


def a_failing_wagon_is_stopped_alone(case: Case) -> None:
    wagons = write_wagons(case.folder, FAILING)
    result = case.run(wagons)
    assert digest(result) == case.expected
    assert result.outputs["fails"] == 3 * EVENTS_PER_FILE
    error = _wagon(result, "fails").error
    assert error is not None
    assert "a mistake of the wagon" in error.message
    assert (error.path or "").endswith("f3.root")
    assert result.exit_code == 3


def a_wagon_that_kills_its_process_is_stopped_alone(case: Case) -> None:
    if not case.place.has_processes:
        pytest.skip("the process of the test would die")
    wagons = write_wagons(case.folder, CRASHING)
    result = case.run(wagons)
    assert digest(result) == case.expected
    error = _wagon(result, "crashes").error
    assert error is not None
    assert "SIGSEGV" in error.message
    assert (error.path or "").endswith("f3.root")
    assert result.outputs["crashes"] == 3 * EVENTS_PER_FILE
    assert "wagon crashes in" in result.record.workers_lost[0].doing
    assert result.exit_code == 3


def a_killed_worker_costs_nothing(case: Case) -> None:
    if not case.place.has_processes:
        pytest.skip("the process of the test would die")
    _survives(case, "os.getpid()")


def a_killed_worker_of_the_pool_costs_nothing(case: Case) -> None:
    if not case.place.revives:
        pytest.skip("it is this process, or a pool that is broken then")
    _survives(case, "os.getppid()")


def _survives(case: Case, victim: str) -> None:
    wagons = write_wagons(case.folder, KILLING, VICTIM=victim, MARK=case.folder / "mark")
    result = case.run(wagons)
    assert result.errors == []
    assert digest(result) == case.expected
    assert result.outputs["kills"] == EVENTS
    assert (case.folder / "mark").exists()
    [lost] = result.record.workers_lost
    assert any("f3.root" in one for one in lost.subjobs)
    assert result.exit_code == 0


def a_subjob_that_goes_on_ending_its_process_is_set_aside(case: Case) -> None:
    if not case.place.has_processes:
        pytest.skip("the process of the test would die")
    wagons = write_wagons(case.folder / "wagons", TOGETHER)
    others = case.folder / "data"
    shutil.copytree(case.data, others, ignore=shutil.ignore_patterns("f3.root"))
    expected = digest(case.alone(write_wagons(case.folder / "plain", PLAIN), others))
    result = case.run(wagons)
    _is_named(case, result)
    assert digest(result) == expected
    assert result.record.events == EVENTS - EVENTS_PER_FILE
    assert result.exit_code == 1
    assert "f3.root, all entries" in result.errors[0]
    assert "ended with exit code 9" in result.errors[0]
    # It may be missing where so much may.
    allowed = case.run(wagons, allow_missing=1 / FILES)
    _is_named(case, allowed)
    assert digest(allowed) == expected
    assert allowed.record.errors == []
    assert allowed.exit_code == 3


def _is_named(case: Case, result: branchline.TrainResult) -> None:
    [missing] = result.record.missing
    [file] = missing.files
    assert (file.path, file.entry_start, file.entry_stop) == (str(case.data / "f3.root"), 0, None)
    assert "exit code 9" in missing.cause
    assert missing.doing.startswith("wagon crashes in ")
    assert [one.path for one in result.record.skipped] == [file.path]
    assert [one.error for one in result.record.wagons] == [None] * 4


def subjobs_that_fail_at_the_same_place_are_one_group(case: Case) -> None:
    others = case.folder / "data"
    shutil.copytree(case.data, others)
    for name in ("f1.root", "f2.root"):
        (others / name).write_bytes(b"this is no ROOT file".ljust((others / name).stat().st_size))
    result = case.run(write_wagons(case.folder / "wagons", PLAIN), others, allow_missing=0.5)
    assert result.exit_code == 3, result.errors
    [group] = result.record.failures
    assert group.subjobs == [one.index for one in result.record.missing]
    assert group.files == [str(others / "f1.root"), str(others / "f2.root")]
    assert "f1.root" in group.message
    assert "BadFileError" in group.example
    assert "Traceback" in group.example


def a_subjob_that_runs_out_of_memory_comes_back_with_less(case: Case) -> None:
    if not case.place.has_processes:
        pytest.skip("a process is what is left when memory is gone")
    wagons = write_wagons(case.folder, HUNGRY, MARK=case.folder / "mark", LARGEST_CHUNK=1000)
    result = case.run(wagons)
    # The same chunks, so the same bits.
    assert result.errors == []
    assert digest(result) == case.expected
    assert result.outputs["hungry"] == EVENTS
    [lost] = result.record.workers_lost
    assert "ran out of memory" in lost.how
    assert "wagon hungry in" in lost.doing
    [retry] = result.record.memory_retries
    assert retry.subjob.endswith("f3.root")
    assert (retry.chunk_divisor, retry.inexact) == (1, [])


def a_subjob_whose_chunks_are_too_large_comes_back_with_smaller_ones(case: Case) -> None:
    if not case.place.has_processes:
        pytest.skip("a process is what is left when memory is gone")
    wagons = write_wagons(case.folder, HUNGRY, MARK=case.folder / "mark", LARGEST_CHUNK=150)
    result = case.run(wagons)
    assert result.errors == []
    assert result.outputs["hungry"] == result.outputs["momenta"]["events"] == EVENTS
    [retry] = result.record.memory_retries
    # Whole numbers are the same; of others it is said that they may not be, to the last bit.
    assert (retry.chunk_divisor, retry.inexact) == (4, ["spectra", "momenta"])
    expected = json.loads(case.expected)
    assert result.outputs["momenta"]["sum"] == pytest.approx(float.fromhex(expected[0][1]), rel=1e-12)
    assert result.exit_code == 0


def a_slow_subjob_at_the_end_runs_twice_and_counts_once(case: Case) -> None:
    if not case.place.has_processes:
        pytest.skip("there is no second worker")
    wagons = write_wagons(case.folder, STUCK, MARK=case.folder / "mark")
    begin_s = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("branchline.jobs.stragglers.TAIL_MIN_S", 0.5)
        result = case.run(wagons)
    assert time.monotonic() - begin_s < 120
    assert result.errors == []
    assert digest(result) == case.expected
    assert result.outputs["stuck"] == result.record.events == EVENTS
    repeated = {one.subjob: one for one in result.record.repeated}
    assert any("f3.root" in one for one in repeated)
    for one in repeated.values():
        assert "while the median is" in one.why
        assert one.kept != one.dropped
    assert result.exit_code == 0
    # The worker that was stuck is free again.
    assert case.run(write_wagons(case.folder / "plain", PLAIN)).record.events == EVENTS


def a_bad_file_is_skipped_and_named(case: Case) -> None:
    bad = case.folder / "data"
    shutil.copytree(case.data, bad)
    (bad / "f2.root").write_bytes(b"root" + bytes(2000))
    wagons = write_wagons(case.folder / "wagons", PLAIN)
    result = case.run(wagons, bad, skip_bad_files=True)
    assert digest(result) == digest(case.alone(wagons, bad, skip_bad_files=True))
    [skipped] = result.record.skipped
    assert skipped.path.endswith("f2.root")
    refused = case.run(wagons, bad)
    assert refused.exit_code == 1
    assert "f2.root" in refused.errors[0]


def sub_jobs_lie_at_one_storage_element(case: Case) -> None:
    """Of files at two elements, some at both: the records say what each site read where, and the result is the same."""
    here, there = case.folder / "here", case.folder / "there"
    for folder in (here, there):
        shutil.copytree(case.data, folder)
    paths = [[str(folder / f"f{index}.root") for folder in (here, there)] for index in range(FILES)]
    files: list[list[str]] = [own if index % 3 else own[:1] for index, own in enumerate(paths)]
    path = case.folder / "files.json"
    path.write_text(json.dumps({"events": {"files": files, "sites": {str(here): "HERE", str(there): "THERE"}}}))
    wagons = write_wagons(case.folder / "wagons", PLAIN)
    result = case.run(wagons, path)
    assert result.errors == []
    assert digest(result) == digest(case.alone(wagons, path)) == case.expected
    assert sum(one.files for one in result.record.sites) >= FILES
    assert {one.storage_element for one in result.record.sites} <= {str(here), str(there)}
    assert {one.nearness for one in result.record.sites} == {"elsewhere"}
    read = sum(one.bytes_read for one in result.record.files)
    assert sum(one.bytes_read for one in result.record.sites) == read > 0


def ctrl_c_keeps_what_is_done(case: Case) -> None:
    marks = case.folder / "marks"
    marks.mkdir()
    wagons = write_wagons(case.folder / "wagons", SLOW, FOLDER=marks, PAUSE_S=0.3)
    with when(lambda: len(list(marks.iterdir())) >= 6, lambda: os.kill(os.getpid(), signal.SIGINT)):
        result = case.run(wagons)
    assert result.record.interrupted
    assert result.exit_code == 130
    assert 0 < result.record.events < EVENTS
    assert result.outputs["slow"] == result.outputs["momenta"]["events"] == result.record.events
    # Nothing goes on in the place, which takes other work.
    again = case.run(write_wagons(case.folder / "plain", PLAIN))
    assert again.record.events == EVENTS
    count = len(list(marks.iterdir()))
    time.sleep(0.5)
    assert len(list(marks.iterdir())) == count


class when:  # noqa: N801 - reads as a word of the checks
    """Does something in another thread as soon as it is time, while the block runs."""

    def __init__(self, is_time: Callable[[], bool], action: Callable[[], object]) -> None:
        self._is_time = is_time
        self._action = action
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._is_over.wait(0.02):
            if self._is_time():
                self._action()
                return

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        self._thread.join()


def _wagon(result: branchline.TrainResult, name: str) -> Any:
    return next(one for one in result.record.wagons if one.name == name)


CHECKS: list[Callable[[Case], None]] = [
    the_result_is_the_same_bit_for_bit,
    tables_have_the_rows_of_the_input_in_its_order,
    a_killed_worker_leaves_no_rows_in_tables,
    a_failing_wagon_is_stopped_alone,
    a_wagon_that_kills_its_process_is_stopped_alone,
    a_killed_worker_costs_nothing,
    a_killed_worker_of_the_pool_costs_nothing,
    a_subjob_that_goes_on_ending_its_process_is_set_aside,
    subjobs_that_fail_at_the_same_place_are_one_group,
    a_subjob_that_runs_out_of_memory_comes_back_with_less,
    a_subjob_whose_chunks_are_too_large_comes_back_with_smaller_ones,
    a_slow_subjob_at_the_end_runs_twice_and_counts_once,
    a_bad_file_is_skipped_and_named,
    sub_jobs_lie_at_one_storage_element,
    ctrl_c_keeps_what_is_done,
]
