"""Results of earlier runs are reused: the same bits as without, and nothing runs that need not."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.sampled import long_but
from tests.unit.trains.wagons.conftest import run_in_chunks, write_file

from branchline.jobs.interruption import Interruption
from branchline.jobs.ledger import LEDGER_NAME
from branchline.reading.access import Access
from branchline.records.report.outcomes import reuse_sentences
from branchline.trains.plan import LoadedWagons, TrainRequest
from branchline.trains.reuse.changes import NEW_DATA
from branchline.trains.reuse.reuse import Reuse
from branchline.trains.reuse.stored_train import identities_of_modules
from branchline.trains.run_options import RunOptions
from branchline.trains.running.result import TrainResult
from branchline.trains.sums.digests import digest_of
from branchline.trains.wagons.wagons import load_wagons

SEEDS = range(int(os.environ.get("BRANCHLINE_REUSE_SEEDS", "6")))
WAGONS = """
import awkward as ak
import hist

CUT = {cut}


class Sums:
    {branches}

    def process(self, events):
        return {{"sum": float(ak.sum(events.px[events.px > CUT])), "count": len(events)}}


class Spectrum:
    def __init__(self, weight):
        self.weight = weight

    def process(self, events):
        if {late} and events.metadata["filename"].endswith("f1.root"):
            ak.sum(events.vertex)
        return hist.Hist.new.Reg(40, 0, 5, name="pt").Weight().fill(ak.flatten(events.pt), weight=self.weight)


class Needing:
    requires = ("sums",)

    def process(self, events):
        if {fails} == (events.metadata["filename"][-6], events.metadata["entrystart"] // 800):
            raise {error}("this wagon fails")
        return events.outputs["sums"]["sum"] * float(ak.sum(events.run) + {added})


sums, spectrum, needing = Sums(), Spectrum({weight}), Needing()
"""
SETTINGS: dict[str, Any] = {
    "cut": 0.1, "weight": 0.1, "added": 0.3, "fails": None, "late": False, "branches": "", "error": "ValueError",
}  # fmt: skip
NAMES = ("sums", "spectrum", "needing")


class Bench:
    """A folder with wagons and files, and runs over them with the ledger beside it."""

    def __init__(self, folder: Path, files: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        shutil.copytree(files, self.data)
        self.settings = dict(SETTINGS)

    def run(self, *, ledger: bool = True, reuse: bool = True, **settings: Any) -> TrainResult:
        wagons = self.folder / "wagons.py"
        wagons.write_text(WAGONS.format(**self.settings))
        path = self.folder / LEDGER_NAME if ledger else None
        return run_in_chunks(str(wagons), str(self.data), ledger=path, reuse=reuse, **settings)

    def compared(self, **settings: Any) -> TrainResult:
        """A run with the ledger, whose results are those of one without."""
        result, fresh = self.run(**settings), self.run(ledger=False, **settings)
        assert content_of(result) == content_of(fresh)
        return result


def content_of(result: TrainResult) -> dict[str, Any]:
    """All of a run that does not depend on what was reused."""
    record = result.record
    return {
        "outputs": {name: digest_of(output) for name, output in result.outputs.items()},
        "record": (record.status, record.events, record.events_expected, record.subjobs, record.step_entries),
        "done": record.subjobs_done,
        "wagons": [(one.name, one.events, one.chunks, one.status) for one in record.wagons],
        "faults": [one.error and one.error.message for one in record.wagons],
        "files": [(one.path, one.entries, one.events) for one in record.files],
        "skipped": record.skipped,
        "errors": [one.message for one in record.errors],
    }  # fmt: skip


def reused(result: TrainResult) -> dict[str, int]:
    return {one.name: one.subjobs_reused for one in result.record.wagons}


@pytest.fixture
def bench(folder: Path, tmp_path: Path, small_subjobs: None) -> Bench:
    return Bench(tmp_path, folder)


STEPS = pytest.mark.parametrize("step_size", [400, "10 kB"])


@STEPS
@pytest.mark.parametrize("branches", ["", 'branches = ["px"]'])
def test_a_second_run_reads_nothing_and_gives_the_same(bench: Bench, step_size: Any, branches: str) -> None:
    bench.settings["branches"] = branches
    first = bench.compared(step_size=step_size)
    assert first.record.subjobs_reused == 0
    second = bench.compared(step_size=step_size)
    assert second.record.subjobs_reused == second.record.subjobs == 5
    assert reused(second) == dict.fromkeys(NAMES, 5)
    assert [one.subjobs for one in second.record.files] == [0] * 5
    assert second.record.branches == []
    assert second.record.status == "finished"


@STEPS
@pytest.mark.parametrize("workers", [0, 2])
def test_only_the_wagon_that_changed_runs_and_its_branches_alone_are_read(
    bench: Bench, step_size: Any, workers: int
) -> None:
    bench.compared(step_size=step_size)
    bench.settings["weight"] = 0.2
    result = bench.compared(step_size=step_size, workers=workers)
    assert reused(result) == {"sums": 5, "spectrum": 0, "needing": 5}
    assert {one.name for one in result.record.branches} == {"pt"}
    assert all(one.seconds == 0 for one in result.record.wagons if one.name != "spectrum")


@pytest.mark.parametrize("workers", [0, 2])
def test_parts_without_entries_are_kept_too(bench: Bench, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", 2000)
    for other in sorted(bench.data.iterdir())[1:]:
        other.unlink()
    # Parts that end at baskets, as with a step in bytes, may be empty.
    step = "1 kB"
    parts = bench.compared(workers=workers, step_size=step).record.subjobs
    assert parts > 20
    bench.settings["weight"] = 0.2
    assert reused(bench.compared(workers=workers, step_size=step)) == {"sums": parts, "spectrum": 0, "needing": parts}
    assert bench.compared(workers=workers, step_size=step).record.subjobs_reused == parts


def test_a_changed_cut_runs_the_wagons_behind_it(bench: Bench) -> None:
    bench.compared()
    bench.settings["cut"] = 0.2
    assert reused(bench.compared()) == {"sums": 0, "spectrum": 5, "needing": 0}
    bench.settings["added"] = 0.4
    # A wagon that is required runs again, too.
    assert reused(bench.compared()) == {"sums": 0, "spectrum": 5, "needing": 0}
    bench.settings |= {"cut": 0.1, "added": 0.3}
    assert reused(bench.compared()) == dict.fromkeys(NAMES, 5)


def causes(result: TrainResult) -> dict[str, str]:
    return {one.name: one.rerun_cause for one in result.record.wagons}


def test_the_record_names_the_change_that_made_wagons_run_again(bench: Bench) -> None:
    assert causes(bench.run()) == dict.fromkeys(NAMES, "")
    assert causes(bench.run()) == dict.fromkeys(NAMES, "")
    bench.settings["cut"] = 0.2
    first = bench.run()
    assert causes(first) == {"sums": "wagons.CUT changed", "spectrum": "", "needing": "wagon sums changed"}
    assert "sums ran because wagons.CUT changed" in reuse_sentences(first.record)
    bench.settings |= {"weight": 0.2, "added": 0.4}
    assert causes(bench.run()) == {
        "sums": "needing ran, which requires it",
        "spectrum": "the parameters of spectrum changed",
        "needing": "wagons.Needing changed",
    }
    shutil.copy(min(bench.data.iterdir()), bench.data / "f9.root")
    assert causes(bench.run()) == dict.fromkeys(NAMES, NEW_DATA)
    assert causes(bench.run(step_size=300)) == dict.fromkeys(NAMES, "the number of events per chunk changed")
    assert causes(bench.run(step_size=200, reuse=False)) == dict.fromkeys(NAMES, "")


def test_a_module_that_changes_after_it_was_sent_to_workers_has_no_key(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "wagons.py").write_text(WAGONS.format(**SETTINGS))
    loaded, modules = load_wagons(str(tmp_path / "wagons.py"))
    plan = TrainRequest(loaded, str(bench.data), RunOptions(workers=0)).plan(LoadedWagons(tuple(loaded), ()))
    sent = identities_of_modules(loaded, modules)
    path = str(tmp_path / "wagons.py")
    assert list(sent) == [os.path.realpath(path)]
    reuse = Reuse(None, plan, takes=False)
    reuse.forget_changed(sent)
    assert reuse.unknown == {}
    reuse.forget_changed(dict.fromkeys(sent, "another identity"))
    assert reuse.unknown == dict.fromkeys(NAMES, f"{path} changed while the train started")
    assert all(reuse.keys[name].key is None for name in NAMES)


def test_new_files_alone_are_read(bench: Bench) -> None:
    bench.compared()
    write_file(bench.data / "f2b.root", 77)
    write_file(bench.data / "f9.root", 78)
    result = bench.compared()
    assert {one.path[-8:] for one in result.record.files if one.bytes_read > 0} >= {"f2b.root", "/f9.root"}
    assert result.record.subjobs_reused == 5
    assert result.record.subjobs == 7


def test_a_file_that_was_written_again_is_read_again(bench: Bench) -> None:
    bench.compared()
    path = bench.data / "f3.root"
    size = path.stat().st_size
    for seed in range(100, 200):
        write_file(path, seed)
        if path.stat().st_size == size:
            break
    result = bench.compared()
    assert result.record.subjobs_reused == 4


def test_other_chunks_are_other_results(bench: Bench) -> None:
    bench.compared()
    assert bench.compared(step_size=300).record.subjobs_reused == 0
    assert bench.compared(step_size=400).record.subjobs_reused == 5


def test_nothing_is_reused_where_that_is_wanted(bench: Bench) -> None:
    bench.compared()
    result = bench.run(reuse=False)
    assert reused(result) == dict.fromkeys(NAMES, 0)
    assert bench.compared().record.subjobs_reused == 5


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"is_traced": True}, "every request is recorded in a trace"),
        ({"access": Access(mode="plain")}, "access plain is only for comparisons"),
        ({"access": Access(mode="cache")}, "access cache is only for comparisons"),
        ({"access": Access(throttle="latency=1ms")}, "throttle is an experiment on reading"),
        ({"access": Access(fault="short,every=50,seed=4")}, "fault is an experiment on reading"),
        ({"access": Access(read_ahead="1 MiB")}, "read ahead is an experiment on reading"),
    ],
    ids=lambda value: value.partition(" is")[0] if isinstance(value, str) else "",
)
def test_a_run_that_is_made_for_its_reads_reads(bench: Bench, settings: dict[str, Any], reason: str) -> None:
    assert bench.run(**settings).record.reuse_notes == []  # nothing was kept yet
    result = bench.run(**settings)
    assert reused(result) == dict.fromkeys(NAMES, 0)
    assert [note for note in result.record.reuse_notes if reason in note], result.record.reuse_notes
    assert bench.compared().record.subjobs_reused == 5


def test_no_note_on_reuse_where_it_was_not_wanted(bench: Bench) -> None:
    bench.run()
    assert bench.run(reuse=False, is_traced=True).record.reuse_notes == []


def test_a_wagon_that_failed_goes_on_where_it_failed(bench: Bench) -> None:
    bench.settings["fails"] = ("2", 1)
    failed = bench.compared()
    assert failed.record.status == "partial"
    again = bench.compared()
    assert reused(again)["spectrum"] == 5
    assert reused(again)["needing"] == 2
    bench.settings["fails"] = None
    whole = bench.compared()
    assert whole.record.status == "finished"
    assert reused(whole)["spectrum"] == 5


def test_a_wagon_that_fails_while_the_others_are_reused_leaves_their_events(bench: Bench) -> None:
    bench.compared()
    bench.settings["fails"] = ("2", 0)
    result = bench.compared()
    assert result.record.events == 5 * 1500
    assert reused(result)["spectrum"] == 5


ONE_FAILS = """
class Counts:
    def process(self, events):
        return len(events)


class Fails:
    branches = ("px",)

    def process(self, events):
        if events.metadata["filename"].endswith("f1.root"):
            raise ValueError("not in this file")


counts, fails = Counts(), Fails()
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_entries_of_files_are_known_where_the_only_wagon_to_run_has_stopped(bench: Bench, workers: int) -> None:
    path = bench.folder / "one_fails.py"
    path.write_text(ONE_FAILS)
    # The next file is open before the last chunk of a file, here its only one, is processed.
    settings = {"workers": workers, "step_size": 5000, "ledger": bench.folder / LEDGER_NAME}
    first, again = [run_in_chunks(str(path), str(bench.data), **settings) for _ in range(2)]
    assert [one.entries for one in again.record.dataset] == [one.entries for one in first.record.dataset]
    assert (first.record.errors, again.record.errors) == ([], [])
    assert first.exit_code == again.exit_code == 3


def test_a_branch_that_is_touched_late_is_read_again(bench: Bench) -> None:
    bench.settings["late"] = True
    bench.compared()
    bench.settings["weight"] = 0.2
    result = bench.compared()
    assert {one.name for one in result.record.branches} == {"pt", "vertex"}


def test_a_ledger_that_cannot_be_used_stops_nothing(bench: Bench) -> None:
    (bench.folder / LEDGER_NAME).mkdir()
    result = bench.compared()
    assert result.record.status == "finished"
    assert "results are not cached" in result.record.reuse_notes[0]


def test_an_interrupted_run_goes_on(bench: Bench) -> None:
    # A wagon's own KeyboardInterrupt is a fault of that wagon.
    interrupt = "__import__('signal').raise_signal(2) or KeyboardInterrupt"
    bench.settings |= {"fails": ("2", 1), "error": f"({interrupt})"}
    with Interruption().installed() as interruption:
        stopped = bench.run(interruption=interruption)
    assert stopped.record.interrupted
    assert stopped.record.subjobs_done == 2
    bench.settings["fails"] = None
    result = bench.compared()
    assert reused(result) == {"sums": 0, "spectrum": 2, "needing": 0}
    assert result.record.status == "finished"


@pytest.mark.parametrize("seed", long_but(SEEDS, SEEDS[:3]))
def test_any_history_of_changes_gives_the_results_of_a_fresh_run(bench: Bench, seed: int) -> None:
    print("seed", seed)
    draw = random.Random(seed)
    settings: dict[str, Any] = {"step_size": draw.choice([400, 700, "10 kB", "30 kB"])}
    settings["skip_bad_files"] = draw.random() < 0.3
    changes: dict[str, Callable[[], Any]] = {
        "cut": lambda: bench.settings.update(cut=draw.choice([0.1, 0.2])),
        "weight": lambda: bench.settings.update(weight=draw.choice([0.1, 0.7])),
        "added": lambda: bench.settings.update(added=draw.choice([0.3, 0.9])),
        "fails": lambda: bench.settings.update(fails=draw.choice([None, None, (str(draw.randrange(5)), 1)])),
        "late": lambda: bench.settings.update(late=draw.random() < 0.5),
        "branches": lambda: bench.settings.update(branches=draw.choice(["", 'branches = ["px"]'])),
        "new": lambda: write_file(bench.data / f"f{draw.randrange(5)}{draw.choice('abc')}.root", draw.randrange(99)),
        "gone": lambda: sorted(bench.data.iterdir())[-1 if draw.random() < 0.5 else 0].unlink(),
        "step": lambda: settings.update(step_size=draw.choice([400, "30 kB"])),
        "nothing": lambda: None,
    }
    for _ in range(7):
        what = draw.choice(list(changes))
        print(what)
        changes[what]()
        bench.compared(**settings, reuse=draw.random() < 0.9)
