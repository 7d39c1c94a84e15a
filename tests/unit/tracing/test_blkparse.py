"""The output of blkparse becomes a trace: reads of devices with their times, offsets and seeks."""

from __future__ import annotations

from pathlib import Path

import pytest

from branchline.errors import BadFileError, MissingFileError, TakenNameError
from branchline.tracing.blkparse import read_blkparse
from branchline.tracing.trace import read_trace
from branchline.tracing.trace_page import write_page
from branchline.tracing.trace_summary import Requests, summarise

#: As blkparse 1.2 writes it: queued, sent and completed reads, a write, a discard, and its statistics.
OUTPUT = """\
  8,0    3        1     0.000000000   697  Q   R 2048 + 8 [athena]
  8,0    3        2     0.000001829   697  G   R 2048 + 8 [athena]
  8,0    3        3     1.000000000   697  D   R 2048 + 8 [athena]
  8,0    3        4     1.004000000     0  C   R 2048 + 8 [0]
  8,0    3        5     1.010000000   697  D  RA 2056 + 256 [athena]
  8,0    1        1     1.020000000   698  D   W 9000 + 8 [kworker/u8:1]
  8,0    1        2     1.025000000   698  D   D 9000 + 8 [fstrim]
  8,0    3        6     1.030000000     0  C  RA 2056 + 256 [0]
 8,16    0        1     2.000000000   701  D  RM 0 + 8 [a [b] <script>]
  8,0    3        7     2.500000000   697  D   R 1024 + 8 [athena]
CPU0 (8,0):
 Reads Queued:           3,      136KiB  Writes Queued:           1,        4KiB
Total (8,0):
"""


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "reads.txt"
    path.write_text(OUTPUT, encoding="utf-8")
    return path


def test_reads_are_those_that_were_sent_to_a_device(text: Path, tmp_path: Path) -> None:
    trace = read_blkparse(text)
    found = Requests.of(trace)
    assert found.files == ["block device 8,0", "block device 8,16"]
    assert found.offset.tolist() == [2048 * 512, 2056 * 512, 0, 1024 * 512]
    assert found.got.tolist() == [4096, 131_072, 4096, 4096]
    assert found.sent.tolist() == [0, 10_000_000, 1_000_000_000, 1_500_000_000]
    # The last two were not completed before the recording ended.
    assert (found.last - found.sent).tolist() == [4_000_000, 20_000_000, 0, 0]
    # The second read continues the first; the last one goes back.
    assert found.jumps().tolist() == [0, 0, 0, (1024 - 2056 - 256) * 512]
    totals = summarise(trace).totals
    assert (totals.read_calls, totals.seeks, totals.seeks_back) == (4, 1, 1)
    assert (totals.distinct_bytes, totals.again_bytes) == (3 * 4096 + 131_072, 0)
    assert "4 reads among 8 events of blktrace" in trace.notes[0]
    trace.write(tmp_path / "t.parquet")
    again = read_trace(tmp_path / "t.parquet")
    assert Requests.of(again).sent.tolist() == found.sent.tolist()
    write_page(again, tmp_path / "t.html")
    page = (tmp_path / "t.html").read_text(encoding="utf-8")
    assert "block device 8,16" in page
    assert "<script>]" not in page


def test_a_recording_without_reads_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "writes.txt"
    path.write_text("  8,0    1        1     1.020000000   698  D   W 9000 + 8 [kworker]\n", encoding="utf-8")
    trace = read_blkparse(path)
    assert len(trace.rows) == 0
    write_page(trace, tmp_path / "t.html")


@pytest.mark.parametrize("content", [b"", b"no request\n", b"\x00\xff" * 50_000, b"9" * 100_000])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(BadFileError, match="no requests in the default format of blkparse"):
        read_blkparse(path)
    with pytest.raises(MissingFileError):
        read_blkparse(tmp_path / "none")


def test_failed_reads_are_left_out_and_counted(text: Path) -> None:
    text.write_text(OUTPUT.replace("RA 2056 + 256 [0]", "RA 2056 + 256 [-5]"), encoding="utf-8")
    trace = read_blkparse(text)
    assert Requests.of(trace).got.tolist() == [4096, 4096, 4096]
    assert "Left out: 1 failed read." in " ".join(trace.notes)


def test_events_without_sectors_are_counted(text: Path) -> None:
    scsi = "  8,0    3        8     2.600000000   697  D   R 36 (12 00 00 00 24 00) [smartd]\n"
    text.write_text(OUTPUT + 2 * scsi, encoding="utf-8")
    trace = read_blkparse(text)
    assert len(Requests.of(trace).got) == 4
    assert "Left out: 2 events without sectors." in " ".join(trace.notes)


def test_only_pages_are_replaced_by_pages(text: Path, tmp_path: Path) -> None:
    trace = read_blkparse(text)
    page = tmp_path / "page.html"
    for _ in range(2):
        write_page(trace, page)
    with pytest.raises(TakenNameError, match=r"reads\.txt exists and is not a page, so it is not replaced"):
        write_page(trace, text)
    assert text.read_text() == OUTPUT
    with pytest.raises(TakenNameError):
        write_page(trace, tmp_path)
