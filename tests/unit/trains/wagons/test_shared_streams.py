"""Sub-jobs that one stream reads give what they give one by one, and what is recorded of them belongs to each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import pytest
import uproot
from tests.unit.trains.wagons.conftest import run_in_chunks, write_file

from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.trains.running.result import TrainResult
from branchline.trains.subjobs.shares import Share
from branchline.trains.subjobs.subjob_queue import SubJobQueue
from branchline.trains.worker.open_trees import StreamPart, parts_of

# So many requests at a time are asked for ahead only where files are far away, or where somebody says so.
FAR = Access(requests_in_flight=4)
FILES = 12
Run = Callable[..., TrainResult]


class Sums:
    name = "sums"

    def process(self, events: Any) -> dict[str, Any]:
        histogram = hist.Hist.new.Reg(40, -3, 3).Weight().fill(events.px, weight=0.1)
        return {"px": histogram, "sum": float(ak.sum(events.px)), "runs": ak.to_list(events.run[:1])}


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files that are a sub-job each."""
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(FILES):
        write_file(folder / f"f{number:02}.root", number)
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", (folder / "f00.root").stat().st_size)
    return folder


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how many sub-jobs each stream that serves several of them is."""
    counts: list[int] = []

    def counted(stream: ChunkStream, stops: list[list[int | None]]) -> list[StreamPart]:
        counts.append(len(stops))
        return parts_of(stream, stops)

    monkeypatch.setattr("branchline.trains.worker.train_worker.parts_of", counted)
    return counts


def run(folder: Path, access: Access, wagons: Any = None, **settings: Any) -> TrainResult:
    return run_in_chunks(wagons or [Sums()], str(folder), access=access, **settings)


def numbers_of(result: TrainResult) -> dict[str, Any]:
    """What a job says of its files and branches, but for times and calls."""
    job = result.job
    of_files = ("path", "events", "entries", "bytes_asked", "plain_bytes", "subjobs", "codec")
    of_branches = ("name", "baskets", "compressed_bytes", "plain_bytes", "codec")
    return {
        "files": [{name: one[name] for name in of_files} for one in job["files"]],
        "branches": [{name: one[name] for name in of_branches} for one in job["branches"]],
        "skipped": job["skipped"],
        "subjobs": (job["subjobs"], job["subjobs_done"]),
        "events": (job["events"], job["status"]),
        "misses": job["misses"],
    }


@pytest.mark.parametrize("branches", [None, ["px", "run"]])
def test_results_and_records_are_the_same(many: Path, opened: list[int], branches: list[str] | None) -> None:
    one_by_one = run(many, Access(), branches=branches)
    assert opened == []
    together = run(many, FAR, branches=branches)
    # What is learned is learned on the first.
    assert opened == [FILES - 1 if branches is None else FILES]
    assert together.outputs == one_by_one.outputs
    assert numbers_of(together) == numbers_of(one_by_one)
    assert together.job["subjobs"] == FILES


def test_workers_share_what_is_left(many: Path) -> None:
    assert run(many, FAR, workers=2).outputs == run(many, Access()).outputs


def test_files_that_are_skipped_belong_to_their_sub_jobs(many: Path, opened: list[int]) -> None:
    (many / "f03.root").write_bytes((many / "f03.root").read_bytes()[:2000])
    (many / "f11.root").write_bytes(b"no file of ROOT's")
    with uproot.recreate(many / "f05.root") as file:
        file.mktree("events", {"px": "float64", "run": "int32"})
    one_by_one = run(many, Access(), skip_bad_files=True)
    together = run(many, FAR, skip_bad_files=True)
    assert sum(opened) >= FILES - 3
    assert together.outputs == one_by_one.outputs
    assert numbers_of(together) == numbers_of(one_by_one)
    assert len(together.job["skipped"]) == 2


def test_a_file_that_cannot_be_read_ends_the_job_with_what_was_before_it(many: Path, opened: list[int]) -> None:
    (many / "f08.root").write_bytes((many / "f08.root").read_bytes()[:2000])
    results = [run(many, access) for access in (Access(), FAR)]
    assert opened == [FILES - 1]
    assert [result.job["subjobs_done"] for result in results] == [8, 8]
    assert [result.job["errors"][0]["message"] for result in results] == [results[0].job["errors"][0]["message"]] * 2
    assert results[0].outputs == results[1].outputs


def test_wagons_that_fail_leave_the_rest_of_a_stream(many: Path, opened: list[int]) -> None:
    class Fails:
        name = "fails"

        def process(self, events: Any) -> dict[str, Any]:
            if events.run[0] == 4:
                raise ValueError("not this run")
            return {"events": len(events)}

    alone = [run(many, access, [Fails()]).job for access in (Access(), FAR)]
    assert opened == [FILES - 1]
    ends = [(one["status"], one["events"], one["wagons"][0]["events"], one["wagons"][0]["error"]) for one in alone]
    assert ends[0] == ends[1]
    near_and_far = [run(many, access, [Fails(), Sums()]) for access in (Access(), FAR)]
    assert near_and_far[0].outputs["sums"] == near_and_far[1].outputs["sums"]


def test_parts_that_are_left_early_leave_their_chunks_to_nobody(many: Path) -> None:
    paths = sorted(map(str, many.iterdir()))[:4]
    sources = [
        Source(path, "events", entry_stop=stop) for path, stop in zip(paths, (None, None, None, 700), strict=True)
    ]
    first, second = parts_of(ChunkStream(sources, ["run"], step_size=500), [[None, None], [None, 700]])
    assert len(next(first)) == 500
    first.close()
    chunks = [(one.source_index, one.entry_start, one.entry_stop, int(one.array("run")[0])) for one in second]
    assert chunks == [(0, 0, 500, 2), (0, 500, 1000, 2), (0, 1000, 1500, 2), (1, 0, 500, 3), (1, 500, 700, 3)]
    second.close()
    assert [one.source_index for one in second.records().files] == [2, 3]
    assert sum(one.entries for one in second.records().files) == 2200


def test_the_last_shares_are_not_taken_several_at_a_time() -> None:
    def takes(count: int, workers: int, size_bytes: int = 4_000_000) -> list[int]:
        shares = [Share((DataFile(f"f{number}", "events", size_bytes=size_bytes),)) for number in range(count)]
        queue = SubJobQueue(shares, ["px"], 100, wagons_count=1, workers_count=workers)
        drawn = [queue.draw() for _ in shares]
        return [one.payload.together for one in drawn]  # type: ignore[union-attr]

    assert takes(100, 2)[0] == 16
    assert takes(100, 2)[-8:] == [2, 1, 1, 1, 1, 1, 1, 1]
    assert takes(20, 1) == [*[16] * 5, *range(15, 0, -1)]
    assert takes(100, 1, 200_000_000) == [1] * 100
    learning = SubJobQueue([Share((DataFile("f", "events"),))] * 9, [], None, wagons_count=1)
    assert learning.draw().payload.together == 1  # type: ignore[union-attr]
