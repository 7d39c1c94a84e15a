"""The file of the reference job, which is the same on every machine, byte by byte, and its checksum."""

from __future__ import annotations

import hashlib
import json
import mmap
import struct
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from branchline.base.plain import from_plain, to_plain
from branchline.base.whole_files import write_whole
from branchline.errors import BranchlineError, OptionError
from branchline.lab.reference.frozen_events import TREE, as_written, clusters
from branchline.lab.reference.frozen_values import FrozenValues
from branchline.writing.merging.merge import merge
from branchline.writing.recreate.writable_file import create

#: Version of the reference job. It is increased whenever the events, their encoding or the analysis change, so that
#: times of different jobs are never compared.
REFERENCE_VERSION = 1
#: Default number of events, with which the job takes at least two seconds on a fast core: shorter samples vary more.
#: Maximum number of events, with which the file stays below the 2 GB at which its format changes.
EVENTS, EVENTS_MAX = 10_000_000, 30_000_000
#: Fast to decompress, and its output does not depend on the processor.
_CODEC = "zstd:1"
#: The date of everything in the file: 2026-01-01 00:00:00 as a TDatime.
_DATE = (2026 - 1995) << 26 | 1 << 22 | 1 << 17


@dataclass(frozen=True)
class FrozenFile:
    """A reference file: its number of events, size and checksum, and the digest of the values that the job finds."""

    events: int
    size_bytes: int = 0
    sha256: str = ""
    values: str = ""

    @property
    def name(self) -> str:
        """The name of the file at each storage element."""
        return f"branchline-reference-{REFERENCE_VERSION}-{self.events}.root"


#: The reference file with the default number of events.
KNOWN = FrozenFile(
    EVENTS,
    594_041_469,
    "9e5c4a28e9fcadd9579afdc9988bad00f7c04c6277b1f079fde03e76e861ca45",
    "22a95310ee8e94e009ac5ce5997a21d4caf8cba0a1135eb1388c3528732dfd7d",
)


class ReferenceFileError(BranchlineError):
    """The reference file that this installation writes is not the known one."""


def frozen_file(folder: Path, events: int = EVENTS) -> FrozenFile:
    """Return the description of the reference file with this number of events. Unless it is known, the file and its
    description are written to ``folder``.

    Raises OptionError for an invalid number of events.
    """
    if events == KNOWN.events:
        return KNOWN
    described = folder / f"{FrozenFile(events).name}.json"
    with suppress(OSError, ValueError):
        kept: FrozenFile = from_plain(FrozenFile, json.loads(described.read_text(encoding="utf-8")))
        return kept
    found = write_frozen(folder, events)
    write_whole(described, json.dumps(to_plain(found)).encode())
    return found


def write_frozen(folder: Path, events: int = EVENTS) -> FrozenFile:
    """Write the reference file to a folder and return its description. A complete file that is there is kept.

    Raises OptionError for an invalid number of events, or if the folder has another file with this name. Raises
    ReferenceFileError if the file would differ from the known one.
    """
    if not 1 <= events <= EVENTS_MAX:
        raise OptionError(f"the reference job can have 1 to {EVENTS_MAX} events, not {events}")
    folder.mkdir(parents=True, exist_ok=True)
    values = FrozenValues()
    path = folder / FrozenFile(events).name
    with tempfile.TemporaryDirectory(prefix=".branchline-reference-", dir=folder) as temporary:
        filled = Path(temporary) / "filled.root"
        with create(filled, compression=_CODEC) as file:
            tree = None
            for branches in clusters(events):
                values.add(branches)
                if tree is None:
                    tree = file.mktree(TREE, as_written(branches))
                else:
                    tree.extend(as_written(branches))
        # The name of the file is part of its content. Unlike the file that was filled, a merged file has no gaps with
        # remains of earlier states.
        own = Path(temporary) / path.name
        merge([filled], own, sync=False)
        _set_dates(own, hashlib.sha256(path.name.encode()).digest()[:16])
        found = FrozenFile(events, own.stat().st_size, sha256_of(own), values.digest)
        if events == KNOWN.events and found != KNOWN:
            what = "this installation of Branchline would write other bytes than those of the reference file"
            raise ReferenceFileError(what, hint="copy the file from a storage element that has it")
        if not path.exists():
            own.replace(path)
        elif sha256_of(path) != found.sha256:
            raise OptionError("another file has the name of the reference file", path=str(path), hint="remove it")
    return found


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _set_dates(path: Path, uuid: bytes) -> None:
    """Replace the times at which a file and its objects were written, and the UUID, which is derived from the time.

    The format is described in ROOT's documentation of TFile, TKey and TDirectoryFile.
    """
    date = struct.pack(">I", _DATE)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:

        def number(at: int, form: str = ">i") -> int:
            return int(struct.unpack_from(form, content, at)[0])

        begin, end, name_bytes = number(8), number(12), number(28)
        at = begin
        while at < end:
            content[at + 10 : at + 14] = date
            at += number(at)
        directory = begin + name_bytes
        content[directory + 2 : directory + 10] = 2 * date
        keys = number(directory + 26)
        at = keys + number(keys + 14, ">h")
        left, at = number(at), at + 4
        for _ in range(left):
            content[at + 10 : at + 14] = date
            at += number(at + 14, ">h")
        content[47:63] = content[directory + 32 : directory + 48] = uuid
