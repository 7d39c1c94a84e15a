"""What a command says of its arguments and options in its signature: read by `quick`, handed to typer by `full`."""

from __future__ import annotations


class Argument:
    """An argument by its place: ``Annotated[Path, Argument(help=...)]``."""

    def __init__(self, *, help: str, metavar: str | None = None) -> None:  # noqa: A002 - as typer calls it
        self.help, self.metavar = help, metavar


class Option:
    """An option: ``Annotated[str, Option("--codec", help=...)]``; without a flag it is called as its parameter."""

    def __init__(
        self,
        *flags: str,
        help: str,  # noqa: A002 - as typer calls it
        min: float | None = None,  # noqa: A002 - as typer calls it
        metavar: str | None = None,
        panel: str | None = None,
    ) -> None:
        self.flags, self.help, self.min, self.metavar, self.panel = flags, help, min, metavar, panel
