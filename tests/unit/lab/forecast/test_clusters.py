"""Clusters that are too small or too large: it is said, with what others would be read like."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
from tests.unit.lab.forecast.test_advice import FAR, NEAR, subject_of
from tests.unit.lab.forecast.test_planned_requests import write
from tests.unit.records.report.conftest import make_job

from branchline.lab.advice.advise import advise as advised
from branchline.lab.advice.advise import do
from branchline.lab.advice.proposals import cluster_proposals
from branchline.lab.forecast.changed_layout import clusters_of, with_clusters_of
from branchline.lab.forecast.conditions import conditions_of
from branchline.lab.forecast.laid_file import LaidFile, laid_file
from branchline.lab.forecast.planned_requests import PlanRequest, planned
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.records.diagnosis.job_advice import advise_job, seconds_unpacked_once, unpacked_times
from branchline.records.sensors.record import JobRecord
from branchline.writing.merging.merge import merge

NAMES = ("x", "y")


def laid(path: Path, names: tuple[str, ...] = NAMES) -> LaidFile:
    return laid_file(DataFile(str(path), "events"), names)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An RNTuple of clusters of a hundred entries."""
    return write(tmp_path_factory.mktemp("clusters") / "tiny.root", [100] * 300, ntuple=True)


@pytest.fixture(scope="module")
def one_cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A TTree with one basket for each branch, of 1.2 MB or more."""
    path = tmp_path_factory.mktemp("clusters") / "one.root"
    return write(path, [160_000])


def test_larger_clusters_are_requested_as_they_were_thought(tiny: Path, tmp_path: Path) -> None:
    merge([str(tiny)], tmp_path / "large.root", cluster_bytes="300 kB")
    written, thought = laid(tmp_path / "large.root"), with_clusters_of(laid(tiny), 300_000)
    assert thought.entries == written.entries
    assert clusters_of(thought) == pytest.approx(clusters_of(written), abs=2)
    assert thought.wanted_bytes == pytest.approx(laid(tiny).wanted_bytes, rel=0.01)
    request = PlanRequest(access=Access(mode="plain"), is_named=True)
    now, said, real = (planned(one, request) for one in (laid(tiny), thought, written))
    assert real.requests < now.requests / 5
    assert said.requests == pytest.approx(real.requests, abs=6)


def test_smaller_clusters_cut_baskets(one_cluster: Path, tmp_path: Path) -> None:
    merge([str(one_cluster)], tmp_path / "small.root", cluster_bytes="600 kB")
    written, thought = laid(tmp_path / "small.root"), with_clusters_of(laid(one_cluster), 600_000)
    assert clusters_of(laid(one_cluster)) == 1
    assert clusters_of(thought) == pytest.approx(clusters_of(written), abs=2)
    assert thought.wanted_bytes == pytest.approx(written.wanted_bytes, rel=0.02)
    for own in thought.extents:
        assert [row[2] for row in own[1:]] == [row[3] for row in own[:-1]]
        assert own[-1][3] == thought.entries


def test_tiny_clusters_of_an_rntuple_are_to_be_larger_near_and_far(tiny: Path, tmp_path: Path) -> None:
    near, far = (subject_of([tiny], rates, Access(mode="plain")) for rates in (NEAR, FAR))
    (proposal,) = cluster_proposals(near)
    assert (proposal.id, proposal.whom) == ("layout-clusters", "data manager")
    assert proposal.words.endswith("-o clusters.root --cluster-bytes '30 MB' --verify")
    assert "300 clusters have 100 entries each" in proposal.what
    # A reader without a plan asks for each page.
    (first, *_) = [one for one in advised(far) if one.advice.id == "layout-clusters"]
    assert first.advice.gain.value > 0.5
    (better,) = do(first, near.files, tmp_path / "better")
    assert laid_file(better, NAMES).entries == 30_000
    # In large clusters nothing is wrong any more.
    assert list(cluster_proposals(subject_of([Path(better.path)], NEAR))) == []


def test_a_ttree_whose_baskets_end_with_its_clusters_is_to_have_larger_ones(tmp_path: Path) -> None:
    path = tmp_path / "flushed.root"
    with uproot.recreate(path) as file:
        file.mktree("events", {"x": "f8", "y": "i1"})
        for number in range(200):
            file["events"].extend({"x": np.arange(50.0) / 7, "y": np.full(50, number % 100, "i1")})
    (proposal,) = cluster_proposals(subject_of([path], NEAR))
    assert "half of the baskets have less than" in proposal.what
    assert proposal.change.cluster_bytes == 30_000_000


def test_of_small_pages_in_large_clusters_nothing_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "small.root", [200], ntuple=True)
    assert list(cluster_proposals(subject_of([path], NEAR))) == []
    file = laid(write(tmp_path / "tiny.root", [50] * 20, ntuple=True))
    wide = replace(subject_of([path], NEAR), laid=(replace(file, size_bytes=20 * 40_000_000),))
    assert list(cluster_proposals(wide)) == []


def test_clusters_for_which_memory_has_no_room_are_to_be_smaller(one_cluster: Path) -> None:
    # What is read near, in memory that holds no basket of each branch, is read once for each chunk.
    scarce = subject_of([one_cluster], NEAR, memory_limit_bytes=16 << 20)
    (proposal,) = cluster_proposals(scarce)
    assert "2 branches have baskets of up to" in proposal.what
    assert list(cluster_proposals(replace(scarce, memory_limit_bytes=2**30))) == []


def record(*, idle: float = 0.4, **changes: Any) -> JobRecord:
    """A job of two workers over one file in sixteen parts, all of which one worker had."""
    busy = {"decompress": 0.5, "wagons": 0.1, "start": 0.0}
    job = make_job(files_count=1, wall_s=10.0, phases={"decompress": 0.3, "wagons": 0.1, "idle": idle})
    rows = [
        {**job["worker_phases"][0], "worker": 0, "idle": 0.0},
        {**job["worker_phases"][0], "worker": 1, "idle": 9.9},
    ]
    for name, part in busy.items():
        rows[0][name], rows[1][name] = 10 * part, 0.0
    rows[0]["decompress"] = 8.5
    job["files"][0] |= {"subjobs": 16, "wall_s": 9.5, "size_bytes": 100, "compressed_bytes": 400, **changes}
    return JobRecord.from_dict({**job, "workers": 2, "worker_phases": rows})


def test_a_file_that_no_two_workers_can_share_is_to_have_more_clusters() -> None:
    job = record()
    (first, *others) = advise_job(job)
    assert first.id == "layout-clusters"
    assert "each basket is unpacked 4 times" in first.what
    assert "16 sub-jobs should have shared" in first.what
    # That branches were learned, or that one file was long, is no reason: no worker could have had a part of it.
    assert not {"branches", "balance"} & {one.id for one in others}
    assert unpacked_times(job, {job.files[0].path: 100}) == pytest.approx(4.0)
    # A quarter of 8.5 s of unpacking, and the wagons, by two workers.
    assert seconds_unpacked_once(job, {job.files[0].path: 100}) == pytest.approx((8.5 / 4 + 1.0) / 2, rel=0.05)


def test_files_that_are_unpacked_once_or_shared_are_left_as_they_are() -> None:
    shared = record(idle=0.01, compressed_bytes=100)
    assert "layout-clusters" not in [one.id for one in advise_job(shared)]
    whole = record(subjobs=1, compressed_bytes=100)
    assert "layout-clusters" not in [one.id for one in advise_job(whole)]


def test_clusters_are_a_condition_of_a_forecast() -> None:
    found = conditions_of(["clusters=30MB"])
    assert found.cluster_bytes == 30_000_000
    assert found.changes_layout
    assert "cluster_bytes=30000000" in found.words()
