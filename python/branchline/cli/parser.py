"""The command-line parser: an argparse parser, configured with the parameters that commands declare."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from branchline.base import exit_codes
from branchline.base.option_fields import OPTIONS
from branchline.cli.command_list import GROUPS, SECTIONS, Command, command, names
from branchline.cli.parameters import GENERAL, CommandParameter

#: Maximum width of the help text, because long lines are hard to read.
WIDTH_MAX = 100
HELP_COLUMN = 28


class UsageError(Exception):
    """Raised for an invalid command line; ``command`` is the command whose help explains the usage."""

    def __init__(self, message: str, command: str = "") -> None:
        super().__init__(message)
        self.command = command


def parse(wanted: Command, words: Sequence[str]) -> dict[str, object]:
    """Return the values of all parameters of a command by key.

    Raises UsageError, and SystemExit after ``--help``.
    """
    parser = _Parser(wanted)
    groups: dict[str, argparse._ArgumentGroup] = {}
    # Options without a heading come first, general options last.
    order = sorted(wanted.parameters, key=lambda one: (bool(one.flags), one.group != OPTIONS, one.group == GENERAL))
    for one in order:
        if one.group not in groups:
            groups[one.group] = parser.add_argument_group(one.group)
        add_parameter(groups[one.group], one)
    groups[GENERAL].add_argument("-h", "--help", action="help", help="Print this help and exit.")
    if not words and (missing := [one for one in wanted.parameters if one.is_required]):
        # argparse would report the missing arguments only in a later attempt, after the missing options were given.
        named = [f"{one.flags[-1]} {one.metavar}" if one.flags else one.metavar for one in missing]
        raise UsageError(f"the following arguments are required: {', '.join(named)}", wanted.name)
    if any(one.kind == "rest" for one in wanted.parameters):
        found, unknown = parser.parse_known_args(list(words))
    else:
        found, unknown = parser.parse_known_intermixed_args(list(words))
    if unknown:
        flags = [flag for one in wanted.parameters for flag in one.flags]
        raise UsageError(
            f"{wanted.name} has no option or argument {unknown[0]!r}{_near(unknown[0], flags)}", wanted.name
        )
    values: dict[str, object] = vars(found)
    for one in wanted.parameters:
        if one.kind == "rest":
            # Some versions of argparse keep the ``--`` in front of the words of another program.
            given: list[str] = getattr(found, one.key)
            program = given[1:] if given[:1] == ["--"] else given
            if not program:
                raise UsageError(f"the following arguments are required: {one.metavar}", wanted.name)
            values[one.key] = program
    return values


def named_command(words: Sequence[str]) -> tuple[Command, Sequence[str]]:
    """Return the command at the start of a command line, and the remaining words.

    Raises UsageError for an unknown command.
    """
    known = names()
    # Two words are tried first, because both `forecast` and `forecast check` are commands.
    for length in (2, 1):
        name = " ".join(words[:length])
        if name in known:
            return command(name), words[length:]
    name, near = words[0], [*(one for one in known if " " not in one), *GROUPS]
    if words[0] in GROUPS:
        name = " ".join(words[:2])
        near = [one for one in known if one.startswith(f"{words[0]} ")]
    raise UsageError(f"unknown command {name!r}{_near(name, near)}", words[0] if words[0] in GROUPS else "")


def overview(group: str = "") -> str:
    """Return the help text that lists all commands, or those in a group."""
    head = f"branchline {group} COMMAND" if group else "branchline COMMAND"
    about = (
        GROUPS[group]
        if group
        else "Read ROOT files of particle physics once for all analyses that need the same events."
    )
    lines = [f"usage: {head} [OPTIONS] [ARGUMENTS]", "", *_wrapped(about)]
    for section, members in SECTIONS.items():
        some = [name for name in members if not group or name.startswith(f"{group} ")]
        if some:
            lines += ["", f"{section}:"]
            for name in some:
                lines += _wrapped(command(name).summary, f"  {name:15} ", " " * 18)
    lines += ["", *_wrapped(f"{head} --help explains a command, branchline --version prints the version.")]
    lines += ["", *_wrapped(f"Exit codes: {exit_codes.described()}")]
    return "\n".join(lines)


def _near(word: str, known: Sequence[str]) -> str:
    # Imported here since it is only needed for mistyped commands.
    import difflib

    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _width() -> int:
    # Imported here since it is only needed for the help.
    import shutil

    return min(WIDTH_MAX, shutil.get_terminal_size().columns - 2)


def _wrapped(text: str, first: str = "", later: str = "") -> list[str]:
    # Imported here since it is only needed for the help.
    import textwrap

    return textwrap.wrap(text, _width(), initial_indent=first, subsequent_indent=later, break_on_hyphens=False)


class _Parser(argparse.ArgumentParser):
    """The argparse parser of a command. The description and examples are only formatted when help is printed."""

    def __init__(self, wanted: Command) -> None:
        super().__init__(
            prog=f"branchline {wanted.name}",
            usage=wanted.usage.replace("%", "%%"),
            formatter_class=_formatter,
            allow_abbrev=False,
            add_help=False,
        )
        self._wanted = wanted

    def format_help(self) -> str:
        texts = ["\n".join(_wrapped(text)) for text in (self._wanted.summary, *self._wanted.details)]
        lines = [f"  {purpose}:\n    {line}" for purpose, line in self._wanted.examples]
        self.description, self.epilog = "\n\n".join(texts), "\n".join(["Examples:", *lines]) if lines else None
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, self.prog.removeprefix("branchline "))


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=HELP_COLUMN, width=_width())


def add_parameter(group: argparse._ActionsContainer, one: CommandParameter) -> argparse.Action:
    """Add a parameter to a parser, or to an argument group of a parser."""
    described = (
        one.help
        if one.is_required or one.kind == "flag" or one.default in (None, "")
        else f"{one.help.removesuffix('.')} (default: {one.default})."
    )
    text = described.replace("%", "%%")
    if one.flags and one.kind == "flag":
        return group.add_argument(*one.flags, dest=one.key, action="store_true", help=text)
    if one.kind == "rest":
        return group.add_argument(one.key, nargs=argparse.REMAINDER, metavar=one.metavar, help=text)
    kind = _converter(one)
    if not one.flags:
        many = "+" if one.is_required else "*"
        nargs = many if one.takes_many else None if one.is_required else "?"
        default = None if one.is_required else one.default
        return group.add_argument(one.key, nargs=nargs, default=default, type=kind, metavar=one.metavar, help=text)
    return group.add_argument(
        *one.flags,
        dest=one.key,
        action="append" if one.takes_many else "store",
        default=one.default,
        required=one.is_required,
        type=kind,
        metavar=one.metavar,
        help=text,
    )


def _converter(one: CommandParameter) -> Callable[[str], object]:
    """Return the function that converts an option's value; argparse reports its ArgumentTypeError with the option's
    name.
    """

    def converted(word: str) -> object:
        if one.kind == "choice":
            if word not in one.choices:
                raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(one.choices)}")
            return word
        if one.kind == "path":
            if not word:
                raise argparse.ArgumentTypeError("the path is empty")
            return Path(word)
        if one.kind in ("integer", "number"):
            kind = int if one.kind == "integer" else float
            minimum = one.minimum
            try:
                number = kind(word)
            except ValueError:
                what = "an integer" if kind is int else "a number"
                raise argparse.ArgumentTypeError(f"{word!r} is not {what}") from None
            if minimum is not None and not number >= minimum:
                raise argparse.ArgumentTypeError(f"{word!r} is less than {minimum}")
            return number
        if not one.flags and not word:
            raise argparse.ArgumentTypeError("the value is empty")
        return word

    return converted
