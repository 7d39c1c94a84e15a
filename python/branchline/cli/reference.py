"""The command-line reference as data: every command with its arguments, options, defaults and examples.

The documentation is generated from the result of ``reference()``: dataclasses, which ``dataclasses.asdict`` converts to
data for JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from branchline.cli.command_list import Command, command, names
from branchline.cli.parameters import GENERAL, CommandParameter


@dataclass(frozen=True)
class ParameterHelp:
    """The help of an argument (no ``flags``) or an option.

    ``metavar`` is empty for a flag. ``default`` is a string or None. ``group`` is the heading in the help: "Arguments",
    "Options", "General" or a heading of the command's own.
    """

    flags: tuple[str, ...]
    metavar: str
    help: str
    default: str | None
    choices: tuple[str, ...]
    is_required: bool
    is_repeatable: bool
    group: str


@dataclass(frozen=True)
class Example:
    """An example: a command line and its purpose."""

    text: str
    line: str


@dataclass(frozen=True)
class CommandHelp:
    """The help of a command.

    ``section`` is the command's heading in the list of commands; ``details`` are the paragraphs after the summary.
    """

    name: str
    section: str
    usage: str
    summary: str
    details: tuple[str, ...]
    arguments: tuple[ParameterHelp, ...]
    options: tuple[ParameterHelp, ...]
    examples: tuple[Example, ...]


HELP = ParameterHelp(("-h", "--help"), "", "Print this help and exit.", None, (), False, False, GENERAL)


def reference() -> tuple[CommandHelp, ...]:
    """Return every command, in the order of ``branchline --help``.

    >>> [one.name for one in reference()][:2]
    ['run', 'test']
    """
    return tuple(_command_help(command(name)) for name in names())


def _command_help(one: Command) -> CommandHelp:
    parameters = [_parameter_help(parameter) for parameter in one.parameters]
    return CommandHelp(
        name=one.name,
        section=one.section,
        usage=one.usage,
        summary=one.summary,
        details=tuple(one.details),
        arguments=tuple(parameter for parameter in parameters if not parameter.flags),
        options=(*(parameter for parameter in parameters if parameter.flags), HELP),
        examples=tuple(Example(*example) for example in one.examples),
    )


def _parameter_help(one: CommandParameter) -> ParameterHelp:
    has_default = isinstance(one.default, str | int | float | Path) and not isinstance(one.default, bool)
    return ParameterHelp(
        flags=one.flags,
        metavar=one.metavar,
        help=one.help,
        default=str(one.default) if has_default and not one.is_required else None,
        choices=one.choices,
        is_required=one.is_required,
        is_repeatable=one.takes_many,
        group=one.group,
    )
