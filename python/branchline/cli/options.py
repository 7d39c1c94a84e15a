"""Options that several commands share: reading and tracing, wagon parameters, and trusted users."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypedDict

from branchline.base.option_fields import comma_separated
from branchline.cli.parameters import Option
from branchline.cli.printing import errors_printed, log
from branchline.reading.access import EXPERIMENTS_HELP, READING_OPTIONS, Access

if TYPE_CHECKING:
    from branchline.trains.wagons.wagon_settings import Settings

#: Heading in the help for the options that determine how entries are stored in an output file.
LAYOUT = "Layout of the output"
_PARAMETERS_GROUP = "Parameters of wagons"
Trace = Annotated[
    Path | None,
    Option("--trace", metavar="TRACE.parquet", help="Record every request in this file.", group=READING_OPTIONS),
]


class ReadingSettings(NamedTuple):
    """A command's read options: the options of Access, the experiments, and the trace."""

    chosen: Access
    experiment: Annotated[
        list[str] | None,
        Option("--experiment", metavar="NAME=VALUE", help=EXPERIMENTS_HELP, group=READING_OPTIONS),
    ] = None
    trace_to: Trace = None

    @property
    def access(self) -> Access:
        """The access configuration that the options describe. Raises OptionError for an unknown experiment."""
        return self.chosen.with_experiments(self.experiment or ())

    @property
    def is_traced(self) -> bool:
        """Whether a trace is recorded."""
        return self.trace_to is not None


@contextmanager
def requests_recorded(path: Path | None) -> Iterator[None]:
    """Record the reads in the ``with`` block in a trace, if a path is given, and print the command that shows the
    trace.
    """
    if path is None:
        yield
        return
    # Imported here since it is only needed for traces.
    from branchline.reading.locations import shown_command
    from branchline.tracing.recording import recording

    # Errors of the command are printed before the trace's path, because they may explain a short trace.
    with errors_printed(debug="--debug" in sys.argv):
        try:
            with recording(path, shown_command(["branchline", *sys.argv[1:]])):
                yield
        finally:
            if path.is_file():
                log(f"all requests are recorded in {path}; show them with: branchline trace show {path}")


class WagonValues(NamedTuple):
    """Options for values of wagon parameters."""

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
            help="TOML file with a table of values per wagon.",
            group=_PARAMETERS_GROUP,
        ),
    ] = None

    def checked(self) -> Settings:
        """Return the values from the settings file, overridden by those on the command line.

        Raises OptionError and MissingFileError.
        """
        # Imported late: it imports numpy.
        from branchline.trains.wagons.wagon_settings import settings_of_file, settings_of_texts

        of_file = () if self.set_from is None else settings_of_file(self.set_from)
        return of_file + settings_of_texts(self.settings or ())


class OutputFile(NamedTuple):
    """Options for the file that a command writes."""

    output: Annotated[Path, Option("--output", "-o", metavar="OUT", help="The file to write.")]
    force: Annotated[bool, Option("--force", help="Replace OUT if it exists.")] = False


ClusterEvents = Annotated[
    int | None,
    Option("--cluster-events", minimum=1, help="Write clusters of this many entries.", group=LAYOUT),
]
CLUSTER_BYTES_OPTION = Option(
    "--cluster-bytes", metavar="SIZE", help='Write clusters of about this compressed size: "30 MB".', group=LAYOUT
)


class KeptBranches(NamedTuple):
    """Options that select the branches of a tree to write."""

    branches: Annotated[
        str | None,
        Option("--branches", metavar="NAMES", help="Branches to keep: names and patterns, separated by commas."),
    ] = None
    drop: Annotated[
        str | None, Option("--drop", metavar="NAMES", help="Branches to leave out, with the syntax of --branches.")
    ] = None

    def names(self) -> BranchNames:
        """Return the names given for each option; None for an option that is not given."""
        return {"branches": comma_separated(self.branches), "drop": comma_separated(self.drop)}


class BranchNames(TypedDict):
    """The options of `KeptBranches`, as keyword arguments for Python functions."""

    branches: tuple[str, ...] | None
    drop: tuple[str, ...] | None


TrustUser = Annotated[
    list[str] | None,
    Option(
        "--trust-user",
        metavar="USER",
        help="Also load files of this user, although they can run code: for service accounts and batch slots; may be "
        "repeated.",
    ),
]
