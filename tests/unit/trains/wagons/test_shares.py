"""A dataset is cut by its files and their sizes alone, without losing or doubling an entry."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
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
from branchline.trains.subjobs.shares import (
    ChunkSizes,
    ReadSizes,
    Share,
    chunk_sizes,
    cut,
    empty_parts,
    entry_range,
    learning_entries,
    merge_parts,
    parts_count,
)
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
    shares = cut(files_of([3 * MB] * 3))
    queue = SubJobQueue(shares, ["named"], None, wagons_count=2)
    first = queue.draw()
    assert first.payload.learn
    assert first.payload.branches == ("named",)
    assert queue.draw() is WAIT
    queue.finished(0)
    second = queue.draw()
    assert (second.index, second.payload.learn) == (1, True)
    # No file is cut, so that the number of sub-jobs is known.
    assert not second.payload.is_provisional
    assert queue.is_learned_by(1)
    assert not queue.is_learned_by(0)
    queue.learned(["named", "px"], 700, shares)
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


def test_parts_that_follow_learning_are_those_of_the_branches_that_are_read() -> None:
    files = files_of([3 * MB, 80 * MB, 40 * MB])
    shares = cut(files)
    assert [(share.part, share.parts) for share in shares] == [
        (0, 1),
        *((part, 10) for part in range(10)),
        *((part, 5) for part in range(5)),
    ]
    queue = SubJobQueue(shares, [], None, wagons_count=1)
    # The first file has no entries: branches are learned on the first part of the second one.
    queue.draw()
    queue.finished(0)
    first = queue.draw()
    assert (first.index, first.payload.part, first.payload.parts) == (1, 0, 10)
    assert first.payload.is_provisional
    merged = merge_parts(shares, ChunkSizes(700, 30 * MB), first.index)
    assert [(share.part, share.parts) for share in merged] == [(0, 1), (0, 3), (1, 3), (2, 3), (0, 1)]
    assert parts_count(first.payload, ChunkSizes(700, 30 * MB)) == 3
    queue.learned(["px"], 700, merged)
    # Its worker was lost: it runs again with what was learned.
    queue.put_first(first)
    again = queue.draw().payload
    assert (again.parts, again.learned_step, again.is_provisional) == (3, 700, False)
    left = [queue.draw() for _ in range(3)]
    assert [(one.index, one.payload.files[0], one.payload.part) for one in left] == [
        (2, files[1], 1),
        (3, files[1], 2),
        (4, files[2], 0),
    ]
    assert queue.draw() is None


def test_a_file_stays_as_it_is_cut_where_one_of_its_parts_is_done() -> None:
    shares = cut(files_of([80 * MB, 40 * MB]))
    merged = merge_parts(shares, ChunkSizes(700, 30 * MB), first=2)
    assert [(share.part, share.parts) for share in merged] == [*((part, 10) for part in range(10)), (0, 1)]


@given(sizes, st.integers(0, 10**9))
def test_merged_parts_are_never_smaller_and_merging_again_changes_nothing(
    sizes_bytes: list[int | None], part_min_bytes: int
) -> None:
    shares, chunks = cut(files_of(sizes_bytes)), ChunkSizes(1, part_min_bytes)
    merged = merge_parts(shares, chunks)
    assert [share.files for share in merged if share.part == 0] == [share.files for share in shares if share.part == 0]
    assert [share for share in merged if share.parts == 1 and len(share.files) > 1] == [
        share for share in shares if len(share.files) > 1
    ]
    for share in merged:
        assert share.part < share.parts
        assert share.parts == 1 or (share.files[0].size_bytes or 0) >= 2 * part_min_bytes
    assert len(merged) <= len(shares)
    assert merge_parts(merged, chunks) == merged


#: A file of NanoAOD: 6 kB an event, of which wagons read 60 bytes.
NANO_EVENTS, NANO_EVENT_BYTES, READ_EVENT_BYTES = 400_000, 6000, 60
READ = ReadSizes(
    NANO_EVENTS, NANO_EVENTS * NANO_EVENT_BYTES, NANO_EVENTS * READ_EVENT_BYTES, 2 * NANO_EVENTS * READ_EVENT_BYTES
)


def merged_parts(read: ReadSizes, step_size: int | str | None, memory_limit_bytes: int = 2**30) -> list[Share]:
    shares = cut([DataFile("/data/f.root", size_bytes=read.file_bytes)], step_size)
    return merge_parts(shares, chunk_sizes(read, step_size, memory_limit_bytes))


def parts_of(step_size: int | str | None, memory_limit_bytes: int = 2**30) -> list[Share]:
    return merged_parts(READ, step_size, memory_limit_bytes)


def test_parts_follow_the_size_of_the_branches_that_are_read() -> None:
    assert len(cut([DataFile("/data/f.root", size_bytes=READ.file_bytes)])) == 300
    # 24 MB are read, less than two parts have.
    assert len(parts_of(None)) == 1
    # Of 240 MB a part has 32 MB, about 53 000 entries.
    many = replace(READ, compressed_bytes=10 * READ.compressed_bytes)
    assert len(merged_parts(many, None)) == 8
    # A chunk has fewer entries: its values take 100 MB.
    assert len(merged_parts(replace(many, plain_bytes=40 * READ.plain_bytes), None, 2**31)) == 20


def test_a_part_has_the_events_of_one_chunk_of_coffea_where_few_branches_are_read() -> None:
    """Of a published file of the AGC: 1.2 million events of 2.2 kB, of which 110 bytes are read."""
    events = 1_160_000
    read = ReadSizes(events, events * 2200, events * 110, events * 180)
    assert chunk_sizes(read, None, 2**30).part_min_bytes == 250_000 * 2200
    assert len(merged_parts(read, None)) == 5


def test_a_step_makes_parts_larger_as_well_as_smaller() -> None:
    assert len(parts_of(200_000)) == 2
    assert len(parts_of(100_000)) == 4
    assert len(parts_of(400_000)) == 1
    assert len(parts_of(10_000)) == 40
    assert len(parts_of("24 MB")) == 2
    assert len(parts_of("6 MB")) == 8
    # A chunk keeps to its part of the memory limit.
    assert len(parts_of("1 GB", 2**28)) == 3


@pytest.mark.parametrize(
    ("entries_count", "chunksize"), [(1000, 300), (100, 40), (140, 40), (10, 3), (5, 10), (0, 10), (99_999, 1000)]
)
def test_chunks_of_a_number_of_entries_are_those_of_coffea(entries_count: int, chunksize: int) -> None:
    from coffea.processor.executor import FileMeta

    theirs = FileMeta("d", "f", "t", {"numentries": entries_count, "uuid": b""}).chunks(chunksize, False)
    share = Share((DataFile("f.root"),), chunk_entries=chunksize)
    length = share.chunk_length(entries_count)
    assert length is not None
    assert (list(range(0, entries_count, length)) or [0]) == [one.entrystart for one in theirs]
    # Branches are learned on the first of them.
    assert learning_entries(share, entries_count) == length


@settings(deadline=None)
@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 60))
def test_parts_of_a_file_end_where_chunks_of_a_given_length_do(entries_count: int, chunksize: int, parts: int) -> None:
    share = Share((DataFile("f.root"),), parts=parts, chunk_entries=chunksize)
    length = share.chunk_length(entries_count)
    assert length is not None
    ranges = [entry_range(replace(share, part=part), entries_count, [7, 77, 777]) for part in range(parts)]
    assert ranges[0][0] == 0
    assert ranges[-1][1] == entries_count
    for (_, stop), (start, _) in pairwise(ranges):
        assert stop == start
        assert stop % length == 0 or stop == entries_count
