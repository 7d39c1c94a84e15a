"""Rows of files: each is there once and in its order, whether it waits, is in a file of its day, or in a joined one."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet
import pytest
from tests.unit.control.batches import batch, identity, read

from branchline.control.history.compaction import StoppedError, join_files, write_waiting
from branchline.control.reports.readings import FileGroup, Period
from branchline.control.room import ControlRoom
from branchline.control.room_errors import DatabaseError
from branchline.errors import OptionError
from branchline.records.sending.message import JobIdentity, ReportBatch
from branchline.records.sensors.record import FileRecord, SiteReading

HERE, FAR = "root://se.example", "root://far.org"
TODAY = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
YESTERDAY = TODAY - timedelta(days=1)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ControlRoom]:
    room = ControlRoom(tmp_path / "room")
    yield room
    room.close()


def sent(room: ControlRoom, who: JobIdentity, number: int, *names: str, element: str = HERE) -> None:
    """A batch with files of these names, an hour after the one before."""
    reads = [read(name, element, 100, 2.0) for name in names]
    assert room.take(batch(who, number, *reads, after_s=number * 3600.0))


def names(room: ControlRoom, who: JobIdentity, first: int = 0, count: int = 500) -> list[str]:
    return [one.path for one in room.files(who.job, first, count).files]


def listed(room: ControlRoom) -> list[Path]:
    return sorted((room.folder / "history").glob("date=*/*.parquet"))


def write_all(room: ControlRoom) -> None:
    while write_waiting(room._history):
        pass


def join_all(room: ControlRoom) -> None:
    while join_files(room._history, TODAY.date().isoformat(), lambda: None):
        pass


def test_a_row_is_the_record_that_was_sent(room: ControlRoom) -> None:
    who = identity(begin=YESTERDAY)
    record = FileRecord(
        "root://se.example//a b.root", HERE, "xrootd", "node1", "w3", 2, 1, 10**12, None, 7, 1.5, "zstd", 5, 6, None,
        ["slow"], "example", "root://far.org//a.root", ["root://c: no answer", "root://d: refused"],
        bytes_read=11, cached_bytes=12, read_calls=13, fetch_s=0.25, baskets=14, compressed_bytes=15, plain_bytes=16,
        decompress_s=0.5, decode_s=0.75, bytes_asked=17,
    )  # fmt: skip
    room.take(ReportBatch(who, "job", 0, YESTERDAY.isoformat(), None, [record, FileRecord("b.root")]))
    expected = [record, FileRecord("b.root")]
    assert room.files(who.job).files == expected
    room.upkeep.tidy()
    assert room.files(who.job).files == expected
    [file] = listed(room)
    assert file.parent.name == f"date={YESTERDAY.date().isoformat()}"
    assert pyarrow.parquet.read_table(file).column("job").to_pylist() == [who.job] * 2


def test_pages_are_the_same_before_and_after_files_are_written_and_joined(room: ControlRoom) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    jobs = {index: identity(f"job{index}", begin=YESTERDAY - timedelta(hours=9)) for index in range(3)}
    expected: dict[int, dict[tuple[str, int], list[str]]] = {index: {} for index in jobs}
    numbers = dict.fromkeys(jobs, 0)
    for step in range(60):
        index = chance.randrange(3)
        number = numbers[index]
        numbers[index] += 1
        paths = [f"{index}-{number}-{count}" for count in range(chance.randrange(1, 4))]
        sent(room, jobs[index], number, *paths)
        day = (YESTERDAY - timedelta(hours=9 - number)).date().isoformat()
        expected[index][day, step] = paths
        if chance.random() < 0.5:
            assert write_waiting(room._history)
        if chance.random() < 0.2:
            join_files(room._history, TODAY.date().isoformat(), lambda: None)
    for _ in range(2):
        for index, who in jobs.items():
            every = [name for key in sorted(expected[index]) for name in expected[index][key]]
            assert names(room, who) == every
            assert room.files(who.job).total == len(every)
            for first in range(0, len(every), 7):
                assert names(room, who, first, 7) == every[first : first + 7]
        write_all(room)
        join_all(room)


def test_many_small_files_of_a_day_become_few(room: ControlRoom) -> None:
    who = identity(begin=YESTERDAY.replace(hour=0))
    for number in range(23):
        sent(room, who, number, f"f{number}")
        write_all(room)
    assert len(listed(room)) == 23
    join_all(room)
    assert len(listed(room)) == 1
    assert names(room, who) == [f"f{number}" for number in range(23)]


def test_files_of_this_day_are_joined_by_ten(room: ControlRoom) -> None:
    begin = datetime.now(UTC) - timedelta(seconds=1)
    who = identity(begin=begin)
    for number in range(12):
        room.take(replace(batch(who, number, read(f"f{number}", HERE, 100, 1.0)), made=begin.isoformat()))
        write_all(room)
    join_files(room._history, begin.date().isoformat(), lambda: None)
    assert len(listed(room)) == 3
    assert names(room, who) == [f"f{number}" for number in range(12)]


def test_files_that_are_not_listed_are_removed_at_the_start_and_others_stay(tmp_path: Path) -> None:
    room = ControlRoom(tmp_path)
    who = identity(begin=YESTERDAY)
    sent(room, who, 0, "a", "b")
    write_all(room)
    [file] = listed(room)
    room.close()
    remains = [file.with_name("0" * 32 + ".parquet"), file.with_name(".writing-" + "1" * 32 + ".parquet")]
    for one in remains:
        one.write_bytes(file.read_bytes())
    theirs = file.with_name("notes.parquet")
    theirs.write_text("of a user")
    again = ControlRoom(tmp_path)
    assert names(again, who) == ["a", "b"]
    assert not any(one.exists() for one in remains)
    assert theirs.exists()
    again.close()


def test_a_file_is_not_removed_while_it_is_read(room: ControlRoom) -> None:
    who = identity(begin=YESTERDAY.replace(hour=0))
    for number in range(10):
        sent(room, who, number, f"f{number}")
        write_all(room)
    old = listed(room)
    with room._history.held():
        join_all(room)
        assert all(one.exists() for one in old)
        assert len(names(room, who)) == 10
    assert not any(one.exists() for one in old)
    assert len(listed(room)) == 1


def test_what_is_begun_when_the_room_closes_is_as_if_it_had_not(room: ControlRoom) -> None:
    who = identity(begin=YESTERDAY.replace(hour=0))
    for number in range(10):
        sent(room, who, number, f"f{number}")
        write_all(room)
    old = listed(room)

    def stop() -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        join_files(room._history, TODAY.date().isoformat(), stop)
    assert listed(room) == old
    assert not list((room.folder / "history").glob("date=*/.writing*"))


def test_a_file_that_is_gone_is_an_error_that_names_it(room: ControlRoom) -> None:
    who = identity(begin=YESTERDAY)
    sent(room, who, 0, "a")
    write_all(room)
    [file] = listed(room)
    file.write_bytes(b"damaged")
    with pytest.raises(DatabaseError, match=file.name):
        room.files(who.job)
    file.unlink()
    with pytest.raises(DatabaseError, match=file.name):
        room.file_groups(["site"], Period())


def test_a_file_of_an_earlier_version_is_read_and_joined(room: ControlRoom) -> None:
    who = identity(begin=YESTERDAY.replace(hour=0))
    for number in range(10):
        sent(room, who, number, f"f{number}")
        write_all(room)
    for path in listed(room)[::2]:
        table = pyarrow.parquet.read_table(path, partitioning=None)
        pyarrow.parquet.write_table(table.drop_columns(["replicas_failed", "open_s", "late_reads"]), path)
    before = room.files(who.job)
    assert [one.late_reads for one in before.files] == [0] * 10
    groups = room.file_groups(["site"], Period())
    join_all(room)
    assert (room.files(who.job), room.file_groups(["site"], Period())) == (before, groups)


def test_groups_are_the_sums_of_the_rows(room: ControlRoom) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    rows: list[tuple[str, FileRecord]] = []
    for index in range(6):
        begin = YESTERDAY - timedelta(days=chance.randrange(3))
        who = identity(f"job{index}", begin=begin)
        files = [
            FileRecord(
                f"f{count}", chance.choice([HERE, FAR]), site=chance.choice(["a", "b"]), host=chance.choice(["n", "m"]),
                bytes_read=chance.randrange(100), wall_s=float(chance.randrange(9)),
                replicas_failed=["x"] * chance.randrange(3),
            )
            for count in range(20)
        ]  # fmt: skip
        room.take(ReportBatch(who, "job", 0, begin.isoformat(), None, files))
        rows += [(begin.isoformat(), one) for one in files]
        if index % 2:
            write_waiting(room._history)
    for period in (Period(), Period(since=(YESTERDAY - timedelta(days=1)).isoformat()), Period(until="2020")):
        there = [one for made, one in rows if made >= period.since and (not period.until or made < period.until)]
        found = room.file_groups(["site", "storage_element"], period)
        assert {(one.site, one.storage_element) for one in found} == {(one.site, one.storage_element) for one in there}
        for group in found:
            own = [one for one in there if (one.site, one.storage_element) == (group.site, group.storage_element)]
            assert group == FileGroup(
                group.site,
                group.storage_element,
                files=len(own),
                failures=sum(len(one.replicas_failed) for one in own),
                bytes_read=sum(one.bytes_read for one in own),
                wall_s=sum(one.wall_s for one in own),
            )
    with pytest.raises(OptionError, match="cannot group files"):
        room.file_groups(["path"], Period())


def test_readers_and_upkeep_work_at_the_same_time(room: ControlRoom) -> None:
    who = identity(begin=YESTERDAY.replace(hour=0))
    ended = threading.Event()
    wrong: list[str] = []

    def look() -> None:
        seen = 0
        while not ended.is_set():
            page = room.files(who.job)
            if [one.path for one in page.files] != [f"f{number}" for number in range(page.total)] or page.total < seen:
                wrong.append(str(page))
            seen = page.total

    readers = [threading.Thread(target=look) for _ in range(3)]
    for one in readers:
        one.start()
    for number in range(24):
        sent(room, who, number, f"f{number}")
        write_waiting(room._history)
        join_files(room._history, TODAY.date().isoformat(), lambda: None)
    ended.set()
    for one in readers:
        one.join(30)
    assert not wrong


def test_long_texts_of_rows_are_cut(room: ControlRoom) -> None:
    who = identity(begin=YESTERDAY)
    record = FileRecord("p" * 9000, "e" * 900, remarks=["\0" * 9000] * 50)
    site = SiteReading("s" * 900, "e" * 900)
    room.take(ReportBatch(who, "job", 0, YESTERDAY.isoformat(), None, [record], [site]))
    [kept] = room.files(who.job).files
    assert (len(kept.path), len(kept.storage_element), len(kept.remarks)) == (4096, 200, 10)
    assert set(kept.remarks[0]) == {"\N{REPLACEMENT CHARACTER}"}
