"""Large results are folded by the workers of a pool: the result is the same, and nothing is lost or done again."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.clusters.conformance import digest, run
from tests.clusters.event_files import write_events
from tests.clusters.wagons import PLAIN, write_wagons
from tests.local_dask import local_cluster

from branchline.base.limits import FOLD_FAN_IN
from branchline.jobs.fold_tree import FoldTree

WORKERS = 2
# Twenty for each worker are handed over one by one at the end.
FILES, EVENTS_PER_FILE = 5 * FOLD_FAN_IN + WORKERS * FOLD_FAN_IN + 7, 40

# Each run of a wagon on a file prints a line, by one call: print() of two threads mixes their words.
PRINTING = """
import os

import numpy as np

FACTOR = 1.0


def pixels(name, events, factor, edge):
    os.write(1, f"ran {name} {events.metadata['filename']}\\n".encode())
    counts, _ = np.histogram(np.asarray(events.px), 50, (-edge, edge))
    return {"px": factor * counts, "events": len(events)}


class First:
    name = "first"

    def process(self, events):
        return pixels(self.name, events, FACTOR * 0.1, 4)


class Second:
    name = "second"

    def process(self, events):
        return pixels(self.name, events, 0.3, 3)
"""
DYING = (
    PLAIN
    + """
import os
import signal
from pathlib import Path


class Dying:
    name = "dying"

    def process(self, events):
        # The first time in the middle of neighbours, of which the process holds some.
        if int(events.run[0]) in (47, 70) and not Path("FOLDER", f"{events.run[0]}").exists():
            Path("FOLDER", f"{events.run[0]}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return len(events)
"""
)
FAILING = (
    PLAIN
    + """

class Failing:
    name = "failing"

    def process(self, events):
        if int(events.run[0]) == 55:
            raise ValueError("not here")
        return 0.1 * len(events)
"""
)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    write_events(folder, FILES, EVENTS_PER_FILE)
    # Names in the order of their numbers.
    for one in list(folder.iterdir()):
        one.rename(folder / f"f{int(one.stem[1:]):03}.root")
    return folder


@pytest.fixture(autouse=True)
def all_results_are_large(small_subjobs: None, many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.jobs.pools.pooled_workers.FOLD_AFAR_MIN_BYTES", 1)
    largest_bytes = max(one.stat().st_size for one in many.iterdir())
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", largest_bytes)


@pytest.fixture(params=["threads", "dask"])
def pool(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "threads":
        with ThreadPoolExecutor(WORKERS) as executor:
            yield executor
        return
    settings: dict[str, Any] = {"dashboard_address": "127.0.0.1:0", "local_directory": str(tmp_path / "dask")}
    with local_cluster(WORKERS, threads_per_worker=1, **settings) as cluster:
        yield cluster


def folded_on_workers(out: Path) -> set[str]:
    """The labels of neighbours whose results came as one, by the ledger."""
    with sqlite3.connect(f"file:{out / 'ledger.sqlite'}?mode=ro", uri=True) as ledger:
        labels = {label for (label,) in ledger.execute("SELECT DISTINCT label FROM results")}
    ledger.close()
    return {one for one in labels if one.startswith("sub-jobs ")}


def whole_nodes(labels: set[str]) -> int:
    spans = [[int(word) for word in one.split() if word.isdigit()] for one in labels]
    return sum(last - first + 1 == FOLD_FAN_IN and first % FOLD_FAN_IN == 0 for first, last in spans)


def test_results_of_neighbours_come_as_one_and_are_the_same(pool: Any, many: Path, tmp_path: Path) -> None:
    wagons, out = write_wagons(tmp_path / "wagons", PLAIN), tmp_path / "out"
    alone = run(wagons, many, workers=0)
    result = run(wagons, many, out, on=pool)
    assert result.errors == []
    assert digest(result) == digest(alone)
    assert (result.record.events, result.record.subjobs_done) == (FILES * EVENTS_PER_FILE, FILES)
    assert [one.path for one in result.record.files] == [one.path for one in alone.record.files]
    # Each result is counted in one place, that of the worker or here.
    stages = [(one.stage, one.results, one.nodes) for one in result.record.merge_stages]
    tree = FoldTree(FILES)
    assert stages == [
        (stage, sum(len(tree.parts_of(node)) for node in tree.nodes(stage)), len(list(tree.nodes(stage))))
        for stage in range(1, tree.stages + 1)
    ]
    # The first neighbours may come alone, since the size of their results is learned on them.
    assert whole_nodes(folded_on_workers(out)) >= 3
    for again in ({"on": pool}, {"workers": 1}):
        reused = run(wagons, many, out, **again)
        assert digest(reused) == digest(alone)
        assert (reused.record.subjobs_reused, reused.record.events) == (FILES, FILES * EVENTS_PER_FILE)


# What Dask's workers print goes where its processes were started.
@pytest.mark.parametrize("pool", ["threads"], indirect=True)
def test_after_a_change_of_one_wagon_that_wagon_alone_runs(
    capfd: pytest.CaptureFixture[str], pool: Any, many: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"

    def ran() -> dict[str, int]:
        """On how many files each wagon ran; on the first one perhaps twice, to learn its branches."""
        words = [line.split() for line in capfd.readouterr().out.splitlines()]
        names = [name for name, _ in {(word[1], word[2]) for word in words if word[:1] == ["ran"]}]
        return {name: names.count(name) for name in set(names)}

    first = run(write_wagons(tmp_path / "wagons", PRINTING), many, out, on=pool)
    assert ran() == {"first": FILES, "second": FILES}
    assert [one.not_reusable for one in first.record.wagons] == ["", ""]
    assert folded_on_workers(out)
    changed = PRINTING.replace("FACTOR = 1.0", "FACTOR = 2.0")
    second = run(write_wagons(tmp_path / "wagons", changed), many, out, on=pool)
    assert ran() == {"first": FILES}
    assert second.errors == []
    assert (second.outputs["first"]["px"] == 2 * first.outputs["first"]["px"]).all()
    assert second.outputs["second"]["px"].tobytes() == first.outputs["second"]["px"].tobytes()
    assert [one.events for one in second.record.wagons] == [FILES * EVENTS_PER_FILE] * 2
    assert second.record.events == FILES * EVENTS_PER_FILE
    # And then all of it is there: what came as one, and what came alone.
    third = run(write_wagons(tmp_path / "wagons", changed), many, out, workers=1)
    assert ran() == {}
    assert third.outputs["first"]["px"].tobytes() == second.outputs["first"]["px"].tobytes()


def test_results_that_die_with_their_process_are_made_again(pool: Any, many: Path, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    alone = run(write_wagons(tmp_path / "plain", PLAIN), many, workers=0)
    result = run(write_wagons(tmp_path / "wagons", DYING, FOLDER=marks), many, tmp_path / "out", on=pool)
    assert len(list(marks.iterdir())) == 2
    assert result.errors == []
    assert digest(result) == digest(alone)
    assert result.outputs["dying"] == result.record.events == FILES * EVENTS_PER_FILE
    assert result.record.workers_lost
    assert folded_on_workers(tmp_path / "out")


def test_a_wagon_that_fails_among_neighbours_has_its_sum_from_before(pool: Any, many: Path, tmp_path: Path) -> None:
    wagons = write_wagons(tmp_path / "wagons", FAILING)
    alone = run(wagons, many, workers=0)
    result = run(wagons, many, tmp_path / "out", on=pool)
    assert digest(result) == digest(alone)
    assert result.outputs["failing"] == alone.outputs["failing"]
    faults = [one.error for one in result.record.wagons if one.error is not None]
    assert [Path(one.path or "").name for one in faults] == ["f055.root"]


def test_a_bad_file_among_neighbours_costs_itself_alone(pool: Any, many: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for one in many.iterdir():
        (data / one.name).hardlink_to(one)
    size_bytes = (data / "f052.root").stat().st_size
    (data / "f052.root").unlink()
    (data / "f052.root").write_bytes(b"this is no ROOT file".ljust(size_bytes))
    wagons = write_wagons(tmp_path / "wagons", PLAIN)
    alone = run(wagons, data, workers=0, allow_missing=0.02)
    result = run(wagons, data, tmp_path / "out", on=pool, allow_missing=0.02)
    assert result.record.missing
    assert result.record.subjobs_done == FILES - 1
    assert digest(result) == digest(alone)


@pytest.mark.parametrize("pool", ["threads"], indirect=True)
def test_what_came_before_an_error_among_neighbours_is_not_done_again(pool: Any, many: Path, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    shutil.copytree(many, data)
    bad = data / "f052.root"
    content, status = bad.read_bytes(), bad.stat()
    wagons = write_wagons(tmp_path / "wagons", PLAIN)
    alone = run(wagons, data, workers=0)

    def write(content: bytes) -> None:
        """As if it was never another one: it is told by its size and its time."""
        bad.write_bytes(content)
        os.utime(bad, ns=(status.st_atime_ns, status.st_mtime_ns))

    write(b"this is no ROOT file".ljust(len(content)))
    stopped = run(wagons, data, out, on=pool)
    assert [Path(one.path or "").name for one in stopped.record.errors] == ["f052.root"]
    assert "sub-jobs 40 to 51" in folded_on_workers(out)
    write(content)
    whole = run(wagons, data, out, workers=1)
    assert digest(whole) == digest(alone)
    assert whole.record.subjobs_reused == stopped.record.subjobs_done > 12
