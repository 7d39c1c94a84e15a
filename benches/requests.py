"""Counts the requests of a reader per file, by running a worker under strace."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benches.arms import Arm
from benches.worker import REPOSITORY
from branchline.tracing.descriptors import Follower, Read
from branchline.tracing.strace_lines import CALLS, OPTIONS, read_calls

PREFIX = "calls"


@dataclass(frozen=True)
class Counts:
    """Read calls to files, calls that do not continue the previous read of the same file (including its first one), and
    the bytes read.
    """

    calls: int
    seeks: int
    got_bytes: int

    @classmethod
    def of(cls, reads: Sequence[Read]) -> Counts:
        """Return the counts of the calls to one file."""
        ordered = sorted((read for read in reads if read.name != "mmap"), key=lambda read: read.begin_ns)
        if not ordered:
            return cls(0, 0, 0)
        jumps = sum(after.offset != (before.offset or 0) + before.got_bytes for before, after in pairwise(ordered))
        return cls(len(ordered), 1 + jumps, sum(read.got_bytes for read in ordered))

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.calls + other.calls, self.seeks + other.seeks, self.got_bytes + other.got_bytes)


def counted(arm: Arm, setup: dict[str, Any], requests: list[dict[str, Any]]) -> list[Counts]:
    """Count the requests of a worker for several passes, which must read different files. Raises RuntimeError if one
    fails.
    """
    with tempfile.TemporaryDirectory(prefix="branchline-requests-") as name:
        folder = Path(name)
        lines = [{"arm": asdict(arm), "setup": setup}, *requests]
        (folder / "requests").write_text("".join(json.dumps(line) + "\n" for line in lines))
        calls = folder / "calls"
        calls.mkdir()
        worker = [sys.executable, "-m", "benches.worker"]
        strace = ["strace", *OPTIONS, "--seccomp-bpf", f"--trace={','.join(CALLS)}", "-o", str(calls / PREFIX), "--"]
        with (folder / "requests").open() as asked, (folder / "answers").open("w") as answers:
            subprocess.run([*strace, *worker], cwd=REPOSITORY, stdin=asked, stdout=answers, check=True)
        for line in (folder / "answers").read_text().splitlines():
            if "error" in (answer := json.loads(line)):
                raise RuntimeError(f"{arm.key}: {answer['error']}")
        reads: dict[str, list[Read]] = {}
        for read in Follower().follow(read_calls(calls, PREFIX)).reads:
            reads.setdefault(read.path, []).append(read)
    nothing = Counts(0, 0, 0)
    found = [sum((Counts.of(reads.get(path, [])) for path in one["files"]), nothing) for one in requests]
    if any(one.calls == 0 for one in found):
        raise RuntimeError(f"{arm.key}: strace saw no read calls; memory-mapped files and io_uring are not supported")
    return found
