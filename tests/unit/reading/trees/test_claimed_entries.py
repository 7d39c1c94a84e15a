"""RNTuples that claim more entries than they have: an error, and no memory for what is not there."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot
import xxhash
from tests.sampled import long_but

ENTRIES = 12_347
FOOTER, PAGE_LIST = 2, 3
#: Reads the file with at most 4 GiB of address space.
PROGRAM = """
import resource, sys
import branchline

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
try:
    if sys.argv[2] == "arrays":
        branchline.open(sys.argv[1])["t"].arrays()
    else:
        list(branchline.iterate(f"{sys.argv[1]}:t"))
except branchline.BranchlineError as error:
    print(type(error).__name__, error)
"""


def envelopes(content: bytes | bytearray) -> Iterator[tuple[int, slice]]:
    """The type and the place of each envelope: its checksum is in its last eight bytes."""
    for start in range(len(content) - 16):
        (head,) = struct.unpack_from("<Q", content, start)
        kind, size = head & 0xFFFF, head >> 16
        if kind in (FOOTER, PAGE_LIST) and 16 < size <= len(content) - start:
            end = start + size
            if content[end - 8 : end] == checksum(content[start : end - 8]):
                yield kind, slice(start, end)


def checksum(payload: bytes | bytearray) -> bytes:
    return struct.pack("<Q", xxhash.xxh3_64_intdigest(bytes(payload)))


@pytest.mark.parametrize("claimed", long_but([1 << 24, 1 << 40, (1 << 56) - 1], [1 << 40]))
@pytest.mark.parametrize("call", ["arrays", "iterate"])
@pytest.mark.parametrize("kind", ["lists", "numbers"])
def test_entries_that_are_not_there_take_no_memory(kind: str, call: str, claimed: int, tmp_path: Path) -> None:
    path = tmp_path / "claims.root"
    lists = ak.unflatten(np.arange(2 * ENTRIES, dtype="f4"), np.full(ENTRIES, 2))
    with uproot.recreate(path) as file:
        file.mkrntuple("t", {"x": lists if kind == "lists" else np.arange(ENTRIES, dtype="f4")})
    content = bytearray(path.read_bytes())
    changed_kinds = set()
    for kind_found, place in list(envelopes(content)):
        changed = content[place].replace(struct.pack("<Q", ENTRIES), struct.pack("<Q", claimed))
        # The footer of the tree before its first entries stays as it is.
        if changed != content[place]:
            changed_kinds.add(kind_found)
            content[place] = changed[:-8] + checksum(changed[:-8])
    assert changed_kinds == {FOOTER, PAGE_LIST}
    path.write_bytes(content)
    command = [sys.executable, "-c", PROGRAM, str(path), call]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(("BadFileError", "MemoryLimitError")), ended.stdout
    assert "claims.root" in ended.stdout
