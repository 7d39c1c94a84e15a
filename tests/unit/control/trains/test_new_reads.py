"""What a resumed train has read since its reads were taken."""

from __future__ import annotations

from branchline.control.trains.room_reports import TrainReads
from branchline.records.sensors.record import FileRecord, JobRecord, SiteReading


def reads(**subjobs: int) -> TrainReads:
    """A hundred bytes and two seconds for each sub-job of a file."""
    files = [
        FileRecord(path, "local", subjobs=count, bytes_read=100 * count, wall_s=2.0 * count, size_bytes=1000)
        for path, count in subjobs.items()
    ]
    total = sum(subjobs.values())
    return TrainReads(files, [SiteReading("here", "local", "host", total, 100 * total, 0, 2.0 * total, 1.0 * total)])


def test_files_read_for_the_first_time_are_new() -> None:
    assert reads(a=1, b=2).since(TrainReads()) == reads(a=1, b=2)


def test_a_file_that_was_read_further_counts_with_the_rest() -> None:
    new = reads(a=1, b=3, c=1).since(reads(a=1, b=1))
    assert new == reads(b=2, c=1)


def test_nothing_new_is_nothing() -> None:
    assert reads(a=1).since(reads(a=1)) == TrainReads()


def test_a_record_that_does_not_contain_what_was_read_before_is_new_as_a_whole() -> None:
    assert reads(a=1).since(reads(a=2)) == reads(a=1)


def test_files_whose_results_were_reused_were_not_read() -> None:
    record = JobRecord(files=[FileRecord("old", subjobs_reused=2), FileRecord("empty"), FileRecord("new", subjobs=1)])
    assert [one.path for one in TrainReads.of(record).files] == ["empty", "new"]
