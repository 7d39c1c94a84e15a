"""The command line as typer has it, which explains what may be written and what is wrong with what was."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any, get_args, get_origin

import typer

from branchline.cli.commands import COMMANDS, GROUPS, found
from branchline.cli.options import Argument, Option
from branchline.cli.versions import version


def application(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The command line with these commands."""
    app = typer.Typer(
        name="branchline",
        epilog="Exit codes: 0 all is well; 1 an error; 2 wrong usage; 3 finished, but a wagon failed or files were "
        "skipped; 130 interrupted, what was finished is kept.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for name in names:
        if name in GROUPS:
            app.add_typer(_group_for_typer(found(name)))
        else:
            app.command(name)(for_typer(found(name)))
    return app


def _version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


def _options(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Reads ROOT files of collision events once, for every analysis step, and says where the time went."""


def for_typer(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with what typer wants to know of its options in their places."""

    @functools.wraps(command)
    def called(**given: Any) -> Any:
        return command(**given)

    parameters = [
        one.replace(annotation=_for_typer(one.annotation), kind=inspect.Parameter.KEYWORD_ONLY)
        for one in inspect.signature(command, eval_str=True).parameters.values()
    ]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called


def _for_typer(annotation: Any) -> Any:
    if get_origin(annotation) is not Annotated:
        return annotation
    wanted, about = get_args(annotation)
    if isinstance(about, Argument):
        return Annotated[wanted, typer.Argument(help=about.help, metavar=about.metavar)]
    if isinstance(about, Option):
        option = typer.Option(
            *about.flags, help=about.help, min=about.min, metavar=about.metavar, rich_help_panel=about.panel
        )
        return Annotated[wanted, option]
    return annotation


def _group_for_typer(group: typer.Typer) -> typer.Typer:
    """The same of all commands of a group."""
    for one in group.registered_commands:
        if one.callback is not None:
            one.callback = for_typer(one.callback)
    return group
