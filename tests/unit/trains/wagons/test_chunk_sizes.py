"""Chunks follow the size of the branches that wagons read, and are the same wherever a train runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from tests.local_dask import local_cluster

import branchline
from branchline.records.sensors.record import JobRecord
from branchline.trains.sums.digests import digest_of

#: As many branches as the published file of NanoAOD has that others measured with, of which wagons read 15.
BRANCHES, READ = 947, 15
EVENTS = (9000, 0, 6000)


@pytest.fixture(scope="module")
def nano(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Files of many branches; the second has no events."""
    folder = tmp_path_factory.mktemp("nano")
    random = np.random.default_rng(12)
    paths = []
    for number, events in enumerate(EVENTS):
        counts = random.poisson(3, events)
        jets = {f"v{index}": random.normal(size=int(counts.sum())).astype("f4") for index in range(10)}
        columns: dict[str, Any] = {f"b{index}": random.normal(size=events) for index in range(BRANCHES - 11)}
        columns["Jet"] = ak.unflatten(ak.zip(jets), counts)
        paths.append(folder / f"f{number}.root")
        with branchline.recreate(paths[-1]) as file:
            file.mktree("Events", columns)
        with branchline.open(paths[-1]) as file:
            assert len(file["Events"].keys()) == BRANCHES
    return paths


class Sums:
    """Floating-point sums, which depend on how events are cut; and the borders of all chunks."""

    def process(self, events: Any) -> dict[str, Any]:
        meta = events.metadata
        total = sum(float(np.sum(np.asarray(events[f"b{index}"]) * 1e-3)) for index in range(READ - 2))
        return {
            "sum": total + float(ak.sum(events["Jet_v0"] * 0.1)),
            "chunks": [(Path(meta["filename"]).name, meta["entrystart"], meta["entrystop"])],
        }


def run(nano: list[Path], **settings: Any) -> tuple[dict[str, Any], JobRecord]:
    results = branchline.run(Sums(), [str(one) for one in nano], **settings)
    results.raise_error()
    assert results.record.events == sum(EVENTS)
    return results.outputs["Sums"], results.record


def chunks_of_coffea(chunksize: int, counts: Sequence[int] = EVENTS) -> list[tuple[str, int, int]]:
    from coffea.processor.executor import FileMeta

    found = []
    for number, events in enumerate(counts):
        meta = FileMeta("d", f"f{number}.root", "Events", {"numentries": events, "uuid": b""})
        found += [(one.filename, one.entrystart, one.entrystop) for one in meta.chunks(chunksize, False)]
    return [one for one in found if one[1] < one[2]]


def test_chunks_are_cut_by_what_is_read(nano: list[Path]) -> None:
    assert nano[0].stat().st_size > 3 * 16_000_000
    output, record = run(nano, workers=0)
    # By the size of the file, a chunk had 1000 events.
    assert output["chunks"] == [("f0.root", 0, 1000), ("f0.root", 1000, 9000), ("f2.root", 0, 6000)]
    assert record.subjobs <= 4


@pytest.mark.parametrize("chunksize", [700, 2000, 3500, 5000, 100_000])
def test_a_number_of_entries_is_the_chunksize_of_coffea(nano: list[Path], chunksize: int) -> None:
    output, record = run(nano, workers=0, step_size=chunksize)
    assert output["chunks"] == chunks_of_coffea(chunksize)
    assert record.wagons[0].chunks == len(output["chunks"])
    named, _ = run(nano, workers=0, step_size=chunksize, branches=[f"b{index}" for index in range(13)] + ["Jet_v0"])
    assert named["chunks"] == output["chunks"]
    assert digest_of(named) == digest_of(output)


def test_a_size_is_that_of_the_branches_that_are_read(nano: list[Path]) -> None:
    # 13 numbers of 8 bytes, and 3 of 4 bytes with a counter: some 125 bytes an event.
    chunks = {size: len(run(nano, workers=0, step_size=size)[0]["chunks"]) for size in ("100 kB", "300 kB", "100 MB")}
    assert chunks["100 MB"] == 3
    assert 5 <= chunks["300 kB"] <= 8
    assert 16 <= chunks["100 kB"] <= 24


@pytest.mark.parametrize("step_size", [None, 700, "200 kB"])
def test_results_are_the_same_bit_for_bit_anywhere(nano: list[Path], step_size: Any) -> None:
    output, record = run(nano, workers=0, step_size=step_size)
    for workers in (1, 2, 4):
        other, again = run(nano, workers=workers, step_size=step_size)
        assert digest_of(other) == digest_of(output)
        assert (again.subjobs, again.step_entries) == (record.subjobs, record.step_entries)


@pytest.mark.long
def test_results_are_the_same_bit_for_bit_on_dask(nano: list[Path]) -> None:
    with local_cluster(2, threads_per_worker=1, dashboard_address=":0") as cluster:
        for step_size in (None, 700):
            output, _ = run(nano, workers=0, step_size=step_size)
            other, _ = run(nano, on=cluster, step_size=step_size)
            assert digest_of(other) == digest_of(output)


class ReadsMoreLater(Sums):
    """Touches branches that it did not touch in the first file."""

    name = "Sums"

    def process(self, events: Any) -> dict[str, Any]:
        output = super().process(events)
        if events.metadata["filename"].endswith("f2.root"):
            output["sum"] += sum(float(np.sum(np.asarray(events[f"b{index}"]))) for index in range(20, 220))
        return output


def test_a_branch_that_is_read_later_moves_no_border(nano: list[Path]) -> None:
    results = [
        branchline.run(ReadsMoreLater(), [str(one) for one in nano], workers=workers, memory_limit="64 MiB")
        for workers in (0, 2)
    ]
    assert [one.exit_code for one in results] == [0, 0]
    assert results[0].outputs["Sums"]["chunks"] == run(nano, workers=0)[0]["chunks"]
    assert len({digest_of(one.outputs["Sums"]) for one in results}) == 1


WAGON = """
def total(events):
    return {"sum": float((events["b1"] * 1e-3).to_numpy().sum()), "chunks": [events.metadata["entrystart"]]}
"""


@pytest.mark.parametrize("step_size", [None, 2000])
def test_parts_that_were_made_larger_are_reused(nano: list[Path], tmp_path: Path, step_size: Any) -> None:
    (tmp_path / "wagon.py").write_text(WAGON)
    results = [
        branchline.run(
            f"{tmp_path}/wagon.py:total",
            [str(one) for one in nano],
            tmp_path / "out",
            workers=workers,
            step_size=step_size,
        )
        for workers in (2, 0)
    ]
    first, again = (one.record for one in results)
    assert 0 == first.subjobs_reused < again.subjobs_reused == again.subjobs == first.subjobs
    assert digest_of(results[1].outputs["total"]) == digest_of(results[0].outputs["total"])


class DiesOnce(Sums):
    """Ends its process the first time that it sees a chunk that begins at the entry ``begin`` of a file."""

    name = "Sums"

    def __init__(self, begin: int, marker: Path) -> None:
        self.begin, self.marker = begin, marker

    def process(self, events: Any) -> dict[str, Any]:
        if events.metadata["entrystart"] == self.begin and not self.marker.exists():
            self.marker.touch()
            os._exit(7)
        return super().process(events)


@pytest.mark.parametrize("begin", [0, 1000])
def test_a_worker_that_is_lost_while_branches_are_learned_or_after_changes_nothing(
    nano: list[Path], tmp_path: Path, begin: int
) -> None:
    result = branchline.run(DiesOnce(begin, tmp_path / "died"), [str(one) for one in nano], workers=2)
    result.raise_error()
    assert len(result.record.workers_lost) == 1
    assert result.record.events == sum(EVENTS)
    assert digest_of(result.outputs["Sums"]) == digest_of(run(nano, workers=0)[0])


class Small:
    """A floating-point sum of one branch, and the borders of all chunks."""

    def process(self, events: Any) -> dict[str, Any]:
        meta = events.metadata
        chunk = (Path(meta["filename"]).name, meta["entrystart"], meta["entrystop"])
        return {"sum": float(np.sum(np.asarray(events["x"]) * 1e-3)), "chunks": [chunk]}


@pytest.mark.parametrize("step_size", [None, "1 kB", 300, 1000, 5000])
def test_files_that_are_not_cut_are_one_sub_job(tmp_path: Path, step_size: Any) -> None:
    """Branches are learned at the beginning of the sub-job, not in one of its own."""
    counts = (0, 3400, 1300, 0, 2100)
    for number, events in enumerate(counts):
        with branchline.recreate(tmp_path / f"f{number}.root") as file:
            file.mktree("Events", {"x": np.random.default_rng(number).normal(size=events)})
    results = [
        branchline.run(Small(), f"{tmp_path}/*.root", workers=workers, step_size=step_size) for workers in (0, 2)
    ]
    output = results[0].outputs["Small"]
    assert [one.record.subjobs for one in results] == [1, 1]
    assert [one.record.events for one in results] == [sum(counts)] * 2
    assert digest_of(results[1].outputs["Small"]) == digest_of(output)
    if isinstance(step_size, int):
        assert output["chunks"] == chunks_of_coffea(step_size, counts)
    else:
        assert output["chunks"][0] == ("f1.root", 0, 1000)
