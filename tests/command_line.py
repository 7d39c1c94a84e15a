"""Run commands of `branchline` in the process of the test, and capture their output."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

from branchline.cli import run


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a command. ``output`` has both streams interleaved, as on a terminal."""

    exit_code: int
    output: str
    stdout: str
    stderr: str


class _Copied(io.StringIO):
    """A text stream that also copies everything to a second stream."""

    def __init__(self, other: io.StringIO) -> None:
        super().__init__()
        self._other = other

    def write(self, text: str) -> int:
        self._other.write(text)
        return super().write(text)


def run_command(words: Sequence[str]) -> Outcome:
    """Run a command line, which is given without the name of the program."""
    output = io.StringIO()
    stdout, stderr = _Copied(output), _Copied(output)
    with redirect_stdout(stdout), redirect_stderr(stderr):
        code = run([str(word) for word in words])
    return Outcome(code, output.getvalue(), stdout.getvalue(), stderr.getvalue())
