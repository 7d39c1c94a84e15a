"""Wrong bytes made from real files: flips, cuts, splices and lying lengths, the same from the same seed.

`laid_open` first stores a file's tree and streamer infos without compression, so that changes reach what describes
the baskets and not only the codecs. Run as a program, `python -m tests.unit.reading.trees.mutations FOLDER SEED FIRST
STOP` reads the cases FIRST to STOP of the files in a folder, in bounded memory, and ends with a message at the first
one that gives anything but values or a BranchlineError.
"""

from __future__ import annotations

import faulthandler
import io
import resource
import struct
import sys
import traceback
from collections import Counter
from pathlib import Path

import awkward as ak
import numpy as np
import uproot

import branchline
from branchline.errors import BranchlineError
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream

# What a reader of small files may take beyond what Python and its modules have mapped.
MEMORY_BYTES = 3 << 30
CASE_SECONDS = 20
# Reading the branches of a case one by one stops after so many.
BRANCHES_MAX = 60
STEPS: tuple[int | str, ...] = ("1 MB", 16)
EXTREMES = (0, 1, 2, 3, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x40000000, 0x40000002)
# Positions in the header of a file below 2 GB.
END_AT, SEEK_INFO_AT, INFO_BYTES_AT = 12, 37, 41


def laid_open(content: bytes, path: Path) -> tuple[bytes, list[tuple[int, int]]]:
    """The same file with trees and streamer infos stored plain at its end; where those and the lists of keys are."""
    file = bytearray(content)
    regions = []
    with uproot.open(path) as opened:
        keys = [opened.key(name) for name, kind in opened.classnames().items() if kind in ("TTree", "TNtuple")]
        for key in keys:
            if key.fVersion > 1000:
                continue  # seeks of 64 bits
            head = content[key.fSeekKey : key.fSeekKey + 26]
            plain = key.get_uncompressed_chunk_cursor()[0].raw_data.tobytes()
            places = [at for at in occurrences(content, head) if at != key.fSeekKey]
            regions += [(at, at + key.fKeylen) for at in places]
            regions.append(append_plain(file, key.fSeekKey, key.fKeylen, plain, places))
        regions += lay_open_streamer_infos(file, content, opened.file)
    struct.pack_into(">i", file, END_AT, len(file))
    return bytes(file), regions


def occurrences(content: bytes, part: bytes) -> list[int]:
    found = []
    at = content.find(part)
    while at >= 0:
        found.append(at)
        at = content.find(part, at + 1)
    return found


def append_plain(file: bytearray, seek: int, key_size: int, plain: bytes, places: list[int]) -> tuple[int, int]:
    """Appends a record without compression and corrects the keys that lead to it."""
    start = len(file)
    file += file[seek : seek + key_size] + plain
    for at in [start, *places]:
        struct.pack_into(">i", file, at, key_size + len(plain))
        struct.pack_into(">i", file, at + 18, start)
    return start, len(file)


def lay_open_streamer_infos(file: bytearray, content: bytes, opened: uproot.ReadOnlyFile) -> list[tuple[int, int]]:
    seek = opened.fSeekInfo
    if seek == 0 or opened.fVersion >= 1_000_000:
        return []
    (key_size,) = struct.unpack_from(">h", content, seek + 14)
    (object_size,) = struct.unpack_from(">i", content, seek + 6)
    stored = opened.fNbytesInfo - key_size
    if object_size == stored:
        return [(seek, seek + opened.fNbytesInfo)]
    chunk = uproot.source.chunk.Chunk.wrap(None, np.frombuffer(content[seek + key_size :][:stored], "u1"))
    cursor = uproot.source.cursor.Cursor(0)
    plain = uproot.compression.decompress(chunk, cursor, {}, stored, object_size).raw_data.tobytes()
    start, stop = append_plain(file, seek, key_size, plain, [])
    struct.pack_into(">ii", file, SEEK_INFO_AT, start, stop - start)
    return [(start, stop)]


def mutated(content: bytes, regions: list[tuple[int, int]], random: np.random.Generator) -> tuple[bytes, str]:
    """One to four changes of a file, and what they were."""
    file = bytearray(content)
    times = int(random.choice([1, 1, 1, 2, 4]))
    done = [change(file, place(len(file), regions, random), random) for _ in range(times)]
    return bytes(file), ", ".join(done)


def place(size: int, regions: list[tuple[int, int]], random: np.random.Generator) -> int:
    """A position, three times of four in what describes the data."""
    if regions and random.random() < 0.75:
        start, stop = regions[int(random.integers(len(regions)))]
        return int(random.integers(start, max(start + 1, min(stop, size))))
    if random.random() < 0.1:
        return int(random.integers(min(size, 100)))
    return int(random.integers(size))


def change(file: bytearray, at: int, random: np.random.Generator) -> str:
    kind = str(random.choice(["flip", "byte", "word", "word", "word", "short", "splice", "fill", "cut", "insert"]))
    at = min(at, max(len(file) - 8, 0))
    if kind == "flip":
        file[at] ^= 1 << int(random.integers(8))
    elif kind == "byte":
        file[at] = int(random.integers(256))
    elif kind == "word":
        value = int(random.choice(EXTREMES)) if random.random() < 0.7 else int(random.integers(1 << 16))
        struct.pack_into(">I", file, at, value)
    elif kind == "short":
        struct.pack_into(">H", file, at, int(random.choice(EXTREMES)) & 0xFFFF)
    elif kind == "splice":
        size = int(random.integers(1, 64))
        source = int(random.integers(len(file)))
        part = file[source : source + size]
        file[at : at + len(part)] = part
    elif kind == "fill":
        size = int(random.integers(1, 32))
        file[at : at + size] = bytes([int(random.choice([0, 0xFF]))]) * len(file[at : at + size])
    elif kind == "cut":
        size = int(random.integers(1, 16)) if random.random() < 0.8 else len(file)
        del file[at + 1 : at + 1 + size]
    else:
        file[at:at] = random.bytes(int(random.integers(1, 8)))
    return f"{kind} at {at}"


class Files:
    """The files of a folder, each with the places of what describes it."""

    def __init__(self, folder: Path) -> None:
        self._files = [(path, *laid_open(path.read_bytes(), path)) for path in sorted(folder.glob("*.root"))]

    def case(self, seed: int, number: int) -> tuple[bytes, str]:
        """The bytes of a case, and a line about it."""
        random = np.random.default_rng([seed, number])
        path, content, regions = self._files[number % len(self._files)]
        wrong, done = mutated(content, regions, random)
        return wrong, f"case {number} of seed {seed}: {path.name}, {done}"


def count(error: BranchlineError, outcomes: Counter[str]) -> None:
    """Counts an error by its class; wrong bytes must never cause an internal error."""
    if type(error) is BranchlineError or "internal error in Branchline" in str(error):
        raise AssertionError(str(error)) from error
    outcomes[type(error).__name__] += 1


def check_value(array: ak.Array, entries: int, what: str) -> None:
    assert len(array) == entries, f"{what}: {len(array)} entries, not {entries}"
    problem = ak.validity_error(array)
    assert problem == "", f"{what}: {problem}"


def read_all(path: Path, step_size: int | str, outcomes: Counter[str]) -> None:
    """Reads all readable branches of all trees, together and, where that fails, one by one."""
    file = branchline.open(path)
    file.keys()
    for name in file.trees():
        try:
            # A directory may have the same name.
            tree = file.tree(name)
            tree.show(stream=io.StringIO())
            readable = [branch.path for branch in tree.values() if branch.readable]
        except BranchlineError as error:
            count(error, outcomes)
            continue
        try:
            with ChunkStream([Source(str(path), name)], None, step_size=step_size, memory_limit="64 MB") as stream:
                for chunk in stream:
                    for one in chunk.branches:
                        check_value(chunk.array(one), len(chunk), one)
            outcomes["values"] += 1
            continue
        except BranchlineError as error:
            count(error, outcomes)
        for one in readable[:BRANCHES_MAX]:
            try:
                stop = min(tree[one].entries_count, 1_000_000)
                check_value(tree[one].array(entry_stop=stop), min(stop, tree.entries_count), one)
                outcomes["values"] += 1
            except BranchlineError as error:
                count(error, outcomes)


def limit_memory() -> None:
    """Lets the program map only so much more than it has now."""
    mapped_pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = mapped_pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main(folder: Path, seed: int, first: int, stop: int) -> None:
    files = Files(folder)
    limit_memory()
    faulthandler.enable()
    outcomes: Counter[str] = Counter()
    path = folder / f"case-{first}.bytes"
    for number in range(first, stop):
        wrong, about = files.case(seed, number)
        path.write_bytes(wrong)
        print(about, file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(CASE_SECONDS, exit=True)
        try:
            read_all(path, STEPS[number % len(STEPS)], outcomes)
        except BranchlineError as error:
            count(error, outcomes)
        except BaseException:  # noqa: BLE001 - a panic is none of Exception
            traceback.print_exc()
            sys.exit(1)
    print(dict(outcomes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:5]))
