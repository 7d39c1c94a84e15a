"""A dataset is cut by its files and their sizes alone, without losing or doubling an entry."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from branchline.base.limits import (
    MB,
    SUBJOB_MAX_BYTES,
    SUBJOB_MAX_FILES,
    SUBJOB_MIN_BYTES,
    SUBJOBS_BETWEEN_FIXED_CUTS,
)
from branchline.jobs.subjob import WAIT
from branchline.reading.datasets.data_file import DataFile
from branchline.trains.subjobs.shares import cut, empty_parts, entry_range
from branchline.trains.subjobs.subjob_queue import SubJobQueue


def files_of(sizes_bytes: list[int | None]) -> list[DataFile]:
    # The name of the folder takes part in choosing where shares begin, so it is not that of the current one.
    return [DataFile(f"/data/f{index}.root", size_bytes=size) for index, size in enumerate(sizes_bytes)]


sizes = st.lists(st.one_of(st.none(), st.integers(0, 3 * MB), st.integers(0, 5000 * MB)), max_size=400)


@settings(deadline=None)
@given(sizes)
def test_every_file_is_there_once_in_order_and_large_ones_in_all_their_parts(sizes_bytes: list[int | None]) -> None:
    files = files_of(sizes_bytes)
    seen: list[DataFile] = []
    for share in cut(files):
        assert len(share.files) <= SUBJOB_MAX_FILES
        if share.parts > 1:
            assert len(share.files) == 1
        if share.part == 0:
            seen += share.files
        else:
            assert seen[-1] == share.files[0]
    assert seen == files


@settings(deadline=None)
@given(sizes)
def test_sub_jobs_keep_to_their_size(sizes_bytes: list[int | None]) -> None:
    for share in cut(files_of(sizes_bytes)):
        if len(share.files) > 1:
            assert sum(one.size_bytes or 0 for one in share.files) <= SUBJOB_MAX_BYTES
        size = share.files[0].size_bytes
        if share.parts > 1:
            assert size is not None
            assert size / share.parts <= SUBJOB_MAX_BYTES


def test_few_files_of_unknown_size_have_a_sub_job_each_and_many_share_one() -> None:
    def counts(files_count: int) -> list[int]:
        return [len(share.files) for share in cut(files_of([None] * files_count))]

    assert counts(20) == [1] * 20
    assert counts(127) == [1] * 127
    assert max(counts(256)) == 4
    assert 64 <= len(counts(256)) < 80
    assert max(counts(10_000)) == 16
    assert 625 <= len(counts(10_000)) < 780


@settings(deadline=None)
@given(st.integers(300, 3000), st.integers(0, 3000), st.sampled_from([None, 20_000, 400_000, 3 * MB, 40 * MB]))
def test_most_sub_jobs_stay_the_same_when_files_are_added(count: int, place: int, size_bytes: int | None) -> None:
    before = files_of([size_bytes] * count)
    place = min(place, count)
    added = [DataFile(f"new/f{index}.root", size_bytes=size_bytes) for index in range(3)]
    old = {share.files for share in cut(before)}
    new = [share.files for share in cut([*before[:place], *added, *before[place:]])]
    if _limit_bytes(before) != _limit_bytes([*before, *added]):
        return
    changed = [files for files in new if files not in old]
    assert len(changed) <= 3 + 16 * SUBJOBS_BETWEEN_FIXED_CUTS
    behind = [files for files in new if files not in old and set(files).isdisjoint(added)]
    assert len(behind) < 16 * SUBJOBS_BETWEEN_FIXED_CUTS


def _limit_bytes(files: list[DataFile]) -> int:
    return max(len(share.files) for share in cut(files))


@settings(deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(1, 50),
    st.integers(0, 10**6),
    st.lists(st.integers(0, 10**6)).map(sorted),
)
def test_parts_of_a_file_cover_its_entries_once(
    start: int, length: int, parts: int, entries_count: int, borders: list[int]
) -> None:
    size = parts * SUBJOB_MIN_BYTES
    file = DataFile("f.root", entry_start=start, entry_stop=start + length, size_bytes=size)
    shares = cut([file])
    ranges = [entry_range(share, entries_count, borders) for share in shares]
    assert ranges[0][0] == min(start, start + length, entries_count)
    assert ranges[-1][1] == max(ranges[0][0], min(start + length, entries_count))
    for before, after in pairwise(ranges):
        assert before[1] == after[0]
        assert before[1] in {*borders, ranges[0][0], ranges[-1][1]}
    empty = [part for part, (first, last) in enumerate(ranges) if first == last]
    assert empty_parts(shares[-1], entries_count, borders) == empty


def test_labels_name_files() -> None:
    small, large = files_of([MB, MB, MB]), files_of([100 * MB])
    assert cut(small)[0].label == "3 files from /data/f0.root to /data/f2.root"
    assert cut(small[:1])[0].label == "/data/f0.root"
    assert cut(large)[1].label == "part 2 of 13 of /data/f0.root"


def test_while_learning_only_one_sub_job_is_out() -> None:
    queue = SubJobQueue(cut(files_of([3 * MB] * 3)), ["named"], None, wagons_count=2)
    first = queue.draw()
    assert first.payload.learn
    assert first.payload.branches == ("named",)
    assert queue.draw() is WAIT
    queue.finished(0)
    second = queue.draw()
    assert (second.index, second.payload.learn) == (1, True)
    queue.learned(["named", "px"], 700)
    queue.missed(["pt", "px"])
    queue.stopped.add("spectra")
    third = queue.draw().payload
    assert (third.learn, third.branches, third.step, third.stopped) == (
        False,
        ("named", "px", "pt"),
        700,
        frozenset({"spectra"}),
    )
    assert queue.draw() is None
