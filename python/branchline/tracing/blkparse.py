"""Read the text output of blkparse, which shows the requests that reached a block device, as a trace.

blktrace records requests in the kernel; seekwatcher draws the same text. Recording needs root and a kernel with
CONFIG_BLK_DEV_IO_TRACE: `blktrace -d /dev/sda -o - | blkparse -i - > reads.txt`.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from branchline.base.quantities import NS_PER_S, counted
from branchline.base.texts import printable
from branchline.errors import BadFileError, MissingFileError, StorageError
from branchline.tracing.file_map import UNKNOWN
from branchline.tracing.trace import FILE, OK, PART, REQUEST, Codes, RowGroup, Trace, TracedJob

#: Size of a sector in the output of blkparse, on all devices.
SECTOR_BYTES = 512
#: Maximum number of characters of a line, which limits the memory for a file that is not text.
_LINE_MAX = 10_000
#: Device, processor, sequence number, seconds, process, action, kind of request, first sector, sectors, program: the
#: default format of blkparse(1) for the actions D (sent to the driver) and C (completed).
_LINE = re.compile(
    r"\s*(\d{1,5},\d{1,7})\s+\d+\s+\d+\s+(\d{1,9})\.(\d{9})\s+(\d{1,10})\s+([DC])\s+([A-Z]+)\s+(\d{1,16}) \+ (\d{1,9})"
    r" \[(.*)\]"
)
#: The begin of any line about these actions, such as a SCSI command without sectors.
_ACTION = re.compile(r"\s*\d{1,5},\d{1,7}\s+\d+\s+\d+\s+\d{1,9}\.\d{9}\s+\d{1,10}\s+[DC]\s")


def read_blkparse(path: Path) -> Trace:
    """Return the reads in the output of blkparse as a trace, in which each device is a file.

    A read begins when it is sent to the driver and ends when it is completed. Raises MissingFileError, StorageError,
    and BadFileError for a file without requests.
    """
    reads: list[_DeviceRead] = []
    pending: dict[tuple[str, int], _DeviceRead] = {}
    lines_count = failed_count = unknown_count = 0
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            while line := lines.readline(_LINE_MAX):
                found = _LINE.match(line)
                if found is None:
                    unknown_count += _ACTION.match(line) is not None
                    continue
                lines_count += 1
                device, whole, fraction, process, action, kind, sector, sectors, program = found.groups()
                if "R" not in kind or not int(sectors):
                    continue
                at_ns = int(whole) * NS_PER_S + int(fraction)
                if action == "D":
                    one = _DeviceRead(device, at_ns, int(process), int(sector), int(sectors), program)
                    reads.append(one)
                    pending[device, one.sector] = one
                elif (sent := pending.pop((device, int(sector)), None)) is not None:
                    sent.end_ns = max(at_ns, sent.begin_ns)
                    # The brackets of a completion contain its error number.
                    sent.is_failed = program not in ("0", "")
                    failed_count += sent.is_failed
    except FileNotFoundError:
        raise MissingFileError(f"no file found at {path}", path=str(path)) from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}", path=str(path)) from error
    if not lines_count:
        what = f"{path} has no requests in the default format of blkparse"
        raise BadFileError(what, path=str(path), hint="write it with: blkparse -i FILE > reads.txt")
    left_out = [
        *([counted(failed_count, "failed read")] if failed_count else []),
        *([counted(unknown_count, "event without sectors", "events without sectors")] if unknown_count else []),
    ]
    return _trace_of([one for one in reads if not one.is_failed], path, lines_count, left_out)


class _DeviceRead:
    """A read of a device. ``end_ns`` is the time of its completion, or of its start if that is unknown."""

    __slots__ = ("begin_ns", "device", "end_ns", "is_failed", "process", "program", "sector", "sectors")

    def __init__(self, device: str, begin_ns: int, process: int, sector: int, sectors: int, program: str) -> None:
        self.device = device
        self.begin_ns = self.end_ns = begin_ns
        self.process = process
        self.sector = sector
        self.sectors = sectors
        self.program = program
        self.is_failed = False


def _trace_of(reads: list[_DeviceRead], path: Path, lines_count: int, left_out: list[str]) -> Trace:
    reads.sort(key=lambda one: one.begin_ns)
    begin, end, process, sector, sectors = (
        np.array([getattr(one, name) for one in reads], "i8")
        for name in ("begin_ns", "end_ns", "process", "sector", "sectors")
    )
    devices, device = _codes([f"block device {one.device}" for one in reads])
    programs, program = _codes([printable(one.program) for one in reads])
    bytes_ = sectors * SECTOR_BYTES
    notes = (
        f"{counted(len(reads), 'read')} among {counted(lines_count, 'event')} of blktrace. Offsets are on the device: "
        "which files and branches they belong to is unknown. Reads that the page cache answered are not included.",
        *([f"Left out: {', '.join(left_out)}."] if left_out else []),
    )
    job = TracedJob(
        command=f"blkparse {path.name}",
        program="blktrace",
        wall_ns=int(max(end.max() - begin.min(), 0)) if len(reads) else 0,
        notes=notes,
    )
    if not reads:
        return Trace.of([], job)
    store = Codes(np.zeros(len(reads), "i8"), ["block devices"])
    begin_ns = begin - begin.min()
    requests = RowGroup(
        kind=REQUEST,
        request=np.arange(len(reads)),
        job=Codes(program, programs),
        process=process,
        thread=process,
        what=Codes(np.zeros(len(reads), "i8"), ["read"]),
        file=Codes(device, devices),
        offset=sector * SECTOR_BYTES,
        size_bytes=bytes_,
        got_bytes=bytes_,
        queued_ns=begin_ns,
        sent_ns=begin_ns,
        last_byte_ns=end - begin.min(),
        store=store,
        attempt=np.ones(len(reads), "i8"),
        outcome=Codes(np.zeros(len(reads), "i8"), [OK]),
    )
    parts = RowGroup(
        kind=PART,
        request=np.arange(len(reads)),
        file=Codes(device, devices),
        what=Codes(np.zeros(len(reads), "i8"), [UNKNOWN]),
        offset=sector * SECTOR_BYTES,
        size_bytes=bytes_,
    )
    return Trace.of([RowGroup(kind=FILE, file=devices), requests, parts], job)


def _codes(texts: list[str]) -> tuple[list[str], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return the distinct texts, and the index of each text among them."""
    found = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return list(found), np.array([found[one] for one in texts], "i8")
