"""Files that are only thought of are requested as those that are really written."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.lab.forecast.test_planned_requests import write

from branchline.lab.forecast.changed_layout import in_order_of_entries, merged, with_larger_baskets, with_other_sizes
from branchline.lab.forecast.laid_file import LaidFile, laid_file
from branchline.lab.forecast.planned_requests import PlanRequest, planned
from branchline.lab.forecast.rates import try_codec
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.writing.merging.merge import merge

NAMES = ("x", "z")


@pytest.fixture(scope="module")
def small_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("small")
    return [write(folder / f"{number}.root", [4000] * 6) for number in range(12)]


def laid(path: Path) -> LaidFile:
    return laid_file(DataFile(str(path), "events"), NAMES)


def request_of(mode: str) -> PlanRequest:
    return PlanRequest(access=Access(mode=mode), is_named=True)


@pytest.mark.parametrize("mode", ["plain", "cache", "planned", "prefetch"])
def test_a_merge_is_requested_as_it_was_thought(small_files: list[Path], tmp_path: Path, mode: str) -> None:
    merge([str(path) for path in small_files], tmp_path / "merged.root", order="offset")
    real = planned(laid(tmp_path / "merged.root"), request_of(mode))
    (thought,) = merged([laid(path) for path in small_files], 10**9)
    said = planned(thought, request_of(mode))
    assert abs(said.requests - real.requests) <= 2
    assert said.bytes_read == pytest.approx(real.bytes_read, rel=0.06)


def test_files_are_merged_up_to_a_size(small_files: list[Path]) -> None:
    files = [laid(path) for path in small_files]
    three = merged(files, 4 * files[0].size_bytes + 1000)
    assert len(three) == 3
    assert sum(one.entries for one in three) == sum(one.entries for one in files)
    assert merged(files, 1) == files


def test_entries_in_order_never_lead_back(small_files: list[Path]) -> None:
    (whole,) = merged([laid(path) for path in small_files], 10**9)
    ordered = in_order_of_entries(whole)
    rows = sorted((row[2], branch, row[0]) for branch, own in enumerate(ordered.extents) for row in own)
    assert [at for _, _, at in rows] == sorted(at for _, _, at in rows)
    assert ordered.wanted_bytes == whole.wanted_bytes


def test_larger_baskets_are_fewer_requests_of_a_plain_reader(small_files: list[Path]) -> None:
    file = laid(small_files[0])
    larger = with_larger_baskets(file, 10**6)
    assert [len(own) for own in file.extents] == [6, 6]
    assert [len(own) for own in larger.extents] == [1, 1]
    plans = [planned(one, request_of("plain")) for one in (file, larger)]
    assert plans[0].calls_for("baskets") == 12
    assert plans[1].calls_for("baskets") == 2


def test_another_codec_is_measured(small_files: list[Path]) -> None:
    files = [DataFile(str(path), "events") for path in small_files]
    other = try_codec("none", files, [laid(path) for path in small_files], NAMES)
    assert (other.codec, other.size_factor > 1) == ("none", True)
    file = laid(small_files[0])
    changed = with_other_sizes(file, 2.0, "none")
    assert changed.wanted_bytes == 2 * file.wanted_bytes
    assert changed.size_bytes > 1.9 * file.size_bytes - 2 * file.metadata_bytes
