"""The options of every command that reads files: `branchline.Access`, and the record of all requests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

from branchline.cli.parameters import Option
from branchline.cli.printing import errors_printed, log
from branchline.reading.access import READING_OPTIONS, Access

Trace = Annotated[
    Path | None,
    Option("--trace", metavar="TRACE.parquet", help="Record every request in this file.", group=READING_OPTIONS),
]


class ReadingSettings(NamedTuple):
    """How a command reads. The help lists the fields of Access under two headings: reading, and experiments."""

    access: Access
    trace_to: Trace = None

    @property
    def is_traced(self) -> bool:
        """Whether a trace is recorded."""
        return self.trace_to is not None


@contextmanager
def requests_recorded(path: Path | None) -> Iterator[None]:
    """Records what is read inside in a trace, if a path is given, and prints how to look at it."""
    if path is None:
        yield
        return
    # Imported here since only traces need it.
    from branchline.reading.locations import shown_command
    from branchline.tracing.recording import recording

    # The command's errors are printed first: they may be why the trace is short.
    with errors_printed(debug="--debug" in sys.argv):
        try:
            with recording(path, shown_command(["branchline", *sys.argv[1:]])):
                yield
        finally:
            if path.is_file():
                log(f"every request is recorded in {path}: branchline trace show {path}")
