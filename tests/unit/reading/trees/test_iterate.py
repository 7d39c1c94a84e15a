"""Reading in steps: one file or many, steps of entries or bytes, any number of workers, always the same values."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.unit.reading.trees.conftest import Sample

import branchline
from branchline.reading.sources import SkippedSource
from branchline.reading.trees.tree_steps import Report

STEPS: list[Any] = [1, 7, 40, np.int64(33), 1000, "100 B", "1 kB", "3 kB", "1 TB", "0.5 KiB"]


def assert_equal(parts: list[ak.Array], wanted: ak.Array) -> None:
    whole = ak.concatenate(parts)
    assert ak.array_equal(whole, wanted[whole.fields])


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("step", STEPS)
def test_steps_of_any_size_by_any_workers_give_the_same_values(sample: Sample, step: Any, workers: int) -> None:
    parts = list(branchline.iterate(sample.location, step_size=step, workers=workers))
    assert_equal(parts, sample.values)
    if not isinstance(step, str):
        assert [len(part) for part in parts] == [min(step, 100 - start) for start in range(0, 100, int(step))]


def test_steps_of_bytes_end_where_clusters_do(sample: Sample) -> None:
    tree = branchline.open(sample.location)
    plain = sum(branch.plain_bytes for branch in tree.values()) / 100
    sizes = [len(part) for part in tree.iterate(step_size=f"{int(41 * plain)} B")]
    assert sizes == [40, 25, 35]
    assert all(len(part) * plain < 21 * plain for part in tree.iterate(step_size=f"{int(20 * plain)} B"))


@pytest.mark.parametrize("library", ["ak", "np", "arrow", "pd"])
def test_every_library_comes_in_steps(sample: Sample, library: Any) -> None:
    tree = branchline.open(sample.location)
    numbers = []
    for part in tree.iterate(["number", "hits"], step_size=30, library=library):
        numbers += [int(number) for number in np.asarray(part["number"])]
        assert len(part["hits"]) == len(part["number"])
    assert numbers == sample.values.number.tolist()


@pytest.mark.parametrize("limits", [(10, 90), (-30, None), (0, 0), (50, 20), (99, 500)])
def test_a_range_of_entries_comes_in_steps(sample: Sample, limits: tuple[Any, Any]) -> None:
    tree = branchline.open(sample.location)
    parts = list(tree.iterate(step_size=7, entry_start=limits[0], entry_stop=limits[1]))
    start, stop, _ = slice(*limits).indices(100)
    assert sum(len(part) for part in parts) == max(stop - start, 0)
    if parts:
        assert_equal(parts, sample.values[start:stop])


def test_a_report_says_where_each_step_comes_from(samples: list[Sample]) -> None:
    locations = [one.location for one in samples]
    seen = []
    for arrays, report in branchline.iterate(locations, step_size=30, report=True):
        assert isinstance(report, Report)
        assert len(arrays) == report.tree_entry_stop - report.tree_entry_start == report.stop - report.start
        seen.append((Path(report.file_path).name, report.tree_path, report.tree_entry_start, report.start, report.stop))
    assert seen == [
        ("part0.root", "events", 0, 0, 30),
        ("part0.root", "events", 30, 30, 50),
        ("part2.root", "events", 0, 50, 80),
        ("part2.root", "events", 30, 80, 110),
        ("part2.root", "events", 60, 110, 116),
    ]


def test_files_are_given_in_many_ways(samples: list[Sample]) -> None:
    folder = samples[0].path.parent
    wanted = ak.concatenate([one.values for one in samples])
    ways: list[Any] = [
        [one.location for one in samples],
        [one.path for one in samples],
        [branchline.open(one.location) for one in samples],
        {one.path: one.tree for one in samples},
        {str(folder / "part*.root"): "events"},
        f"{folder}/part*.root:events",
        f"{folder}/part?.root",
        folder / "*.root",
        [f"{folder}/part[01].root:events", samples[2].path],
        f"file://{samples[0].path}",
    ]
    for way in ways:
        entries = wanted if way != ways[-1] else samples[0].values
        assert_equal(list(branchline.iterate(way)), entries)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_files_are_joined_in_their_order(samples: list[Sample], workers: int) -> None:
    locations = [one.location for one in [*samples, samples[0]]]
    wanted = ak.concatenate([one.values for one in [*samples, samples[0]]])
    read = branchline.concatenate(locations, workers=workers)
    assert ak.array_equal(read, wanted[read.fields])
    only = branchline.concatenate(locations, ["energy", "hits"], library="np")
    assert only["energy"].tolist() == wanted.energy.tolist()
    assert [list(one) for one in only["hits"]] == wanted.hits.tolist()
    frame = branchline.concatenate(locations, "number", library="pd")
    assert frame.index.tolist() == list(range(len(wanted)))


def test_memory_of_any_size_gives_the_same_values(samples: list[Sample]) -> None:
    locations = [one.location for one in samples]
    wanted = ak.concatenate([one.values for one in samples])
    for limit in ("200 kB", "1 MiB", "1 GiB"):
        assert_equal(list(branchline.iterate(locations, memory_limit=limit, workers=2)), wanted)


def test_braces_name_the_files_that_uproot_reads(samples: list[Sample], tmp_path: Path) -> None:
    for number, one in enumerate(samples[:3]):
        shutil.copy(one.path, tmp_path / f"x_{number}.root")
    for names in ("x_{2,0}.root", "x_{1,[02]}.root", "{x,x}_{0,1}.root"):
        wanted = uproot.concatenate(f"{tmp_path}/{names}:{samples[0].tree}", ["number"])
        assert ak.array_equal(branchline.concatenate(f"{tmp_path}/{names}:{samples[0].tree}", ["number"]), wanted)
        assert ak.array_equal(branchline.concatenate({f"{tmp_path}/{names}": samples[0].tree}, ["number"]), wanted)


def test_a_pattern_that_matches_nothing_is_told(tmp_path: Path) -> None:
    with pytest.raises(branchline.DatasetError, match=r"no file matches") as caught:
        branchline.iterate(f"{tmp_path}/none*.root:events")
    assert str(tmp_path) in str(caught.value)
    with pytest.raises(branchline.DatasetError, match="no files"):
        branchline.iterate([])


@pytest.mark.parametrize(
    "wrong",
    [
        {"step_size": 0},
        {"step_size": -1},
        {"step_size": "0 MB"},
        {"step_size": "much"},
        {"step_size": 2.5},
        {"memory_limit": 0},
        {"memory_limit": -1},
        {"memory_limit": "all"},
        {"workers": 0},
        {"workers": -2},
    ],
)
def test_a_setting_that_makes_no_sense_is_told(sample: Sample, wrong: dict[str, Any]) -> None:
    with pytest.raises(branchline.BranchlineError, match=r"\w+"):
        next(branchline.iterate(sample.location, **wrong))


def test_bad_files_are_skipped_with_a_warning_and_named(samples: list[Sample], tmp_path: Path) -> None:
    folder = tmp_path / "some"
    folder.mkdir()
    for one in samples:
        shutil.copy(one.path, folder)
    (folder / "part1.root").write_bytes(b"")
    os.truncate(folder / "part0.root", 1000)
    skipped: list[SkippedSource] = []
    with pytest.warns(UserWarning, match=r"part\d\.root was skipped") as warned:
        parts = list(branchline.iterate(f"{folder}/*.root", skip_bad_files=True, skipped=skipped))
    assert_equal(parts, samples[2].values)
    assert [Path(one.path).name for one in skipped] == ["part0.root", "part1.root"]
    assert len(warned) == 2
    with warnings.catch_warnings(), pytest.raises(branchline.BadFileError, match="part0"):
        list(branchline.iterate(f"{folder}/*.root"))


def test_a_file_is_told_when_it_is_skipped_for_nobody_may_ask_for_the_last(
    samples: list[Sample], tmp_path: Path
) -> None:
    (tmp_path / "empty.root").write_bytes(b"")
    files = [tmp_path / "empty.root", *(one.path for one in samples)]
    skipped: list[SkippedSource] = []
    steps = branchline.iterate(files, skip_bad_files=True, skipped=skipped)
    with pytest.warns(UserWarning, match=r"empty\.root was skipped"):
        next(steps)
    assert [Path(one.path).name for one in skipped] == ["empty.root"]
