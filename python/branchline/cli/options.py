"""Options shared by several commands: reading and tracing, wagon parameters, and trusted users."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from branchline.cli.parameters import Option
from branchline.cli.printing import errors_printed, log
from branchline.reading.access import READING_OPTIONS, Access

if TYPE_CHECKING:
    from branchline.trains.wagons.wagon_settings import Settings

_PARAMETERS_GROUP = "Parameters of wagons"
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


class Parameters(NamedTuple):
    """Values of parameters of wagons."""

    settings: Annotated[
        list[str] | None,
        Option(
            "--set", metavar="WAGON.NAME=VALUE", help="Value of a parameter; may be repeated.", group=_PARAMETERS_GROUP
        ),
    ] = None
    set_from: Annotated[
        str | None,
        Option(
            "--set-from",
            metavar="FILE",
            help="TOML file with a table of values for each wagon.",
            group=_PARAMETERS_GROUP,
        ),
    ] = None

    def checked(self) -> Settings:
        """Those of the file, then those of the command line, which count more. Raises OptionError, MissingFileError."""
        # Imported late: it imports numpy.
        from branchline.trains.wagons.wagon_settings import settings_of_file, settings_of_texts

        of_file = () if self.set_from is None else settings_of_file(self.set_from)
        return of_file + settings_of_texts(self.settings or ())


class FirstOnly(NamedTuple):
    """How much of each dataset is read."""

    max_events: Annotated[
        int | None, Option("--max-events", minimum=1, metavar="N", help="Read only the first N events of each dataset.")
    ] = None
    max_files: Annotated[
        int | None, Option("--max-files", minimum=1, metavar="N", help="Read only the first N files of each dataset.")
    ] = None


TrustUser = Annotated[
    list[str] | None,
    Option(
        "--trust-user",
        metavar="USER",
        help="Also load files of this user, which runs code from them: for service accounts and batch slots; may be "
        "repeated.",
    ),
]
