"""Options of commands that run wagons: values of their parameters, and how much of the data they get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

from branchline.cli.parameters import Option

if TYPE_CHECKING:
    from branchline.trains.wagons.wagon_settings import Settings

_GROUP = "Parameters of wagons"


class Parameters(NamedTuple):
    """Values of parameters of wagons."""

    settings: Annotated[
        list[str] | None,
        Option("--set", metavar="WAGON.NAME=VALUE", help="Value of a parameter; may be repeated.", group=_GROUP),
    ] = None
    set_from: Annotated[
        str | None,
        Option("--set-from", metavar="FILE", help="TOML file with a table of values for each wagon.", group=_GROUP),
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
