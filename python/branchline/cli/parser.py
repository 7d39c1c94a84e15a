"""The parser of command lines: argparse, set up from the parameters that commands declare."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from branchline.cli.command_list import GROUPS, SECTIONS, Command, command, names
from branchline.cli.parameters import GENERAL, OPTIONS, Parameter

EXIT_CODES = (
    "Exit codes: 0 success; 1 an error; 2 wrong usage; 3 finished, but a wagon failed or files were skipped; "
    "130 interrupted, finished parts are kept."
)
#: Wider lines are hard to read.
WIDTH_MAX = 100
HELP_COLUMN = 28


class UsageError(Exception):
    """A command line that cannot be understood; ``command`` is the one whose help explains it."""

    def __init__(self, message: str, command: str = "") -> None:
        super().__init__(message)
        self.command = command


def parse(wanted: Command, words: Sequence[str]) -> dict[str, Any]:
    """The values of all parameters of a command by their keys. Raises UsageError, and SystemExit after ``--help``."""
    parser = _parser(wanted)
    if not words and (missing := [one for one in wanted.parameters if one.is_required]):
        # argparse would name the options alone, and the arguments after these are given.
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
    values = vars(found)
    for one in wanted.parameters:
        if one.kind == "rest":
            values[one.key] = _rest(values[one.key], one, wanted.name)
    return values


def _rest(words: list[str], one: Parameter, name: str) -> list[str]:
    """The words of another program, without the ``--`` before them, which some versions of argparse leave there."""
    program = words[1:] if words[:1] == ["--"] else words
    if not program:
        raise UsageError(f"the following arguments are required: {one.metavar}", name)
    return program


def named_command(words: Sequence[str]) -> tuple[Command, Sequence[str]]:
    """The command that a command line begins with, and the words after it. Raises UsageError if there is none."""
    known = names()
    # Two words first: `forecast` is a command, and so is `forecast check`.
    for length in (2, 1):
        name = " ".join(words[:length])
        if name in known:
            return command(name), words[length:]
    name, near = words[0], [*(one for one in known if " " not in one), *GROUPS]
    if words[0] in GROUPS:
        name = " ".join(words[:2])
        near = [one for one in known if one.startswith(f"{words[0]} ")]
    raise UsageError(f"there is no command {name!r}{_near(name, near)}", words[0] if words[0] in GROUPS else "")


def overview(group: str = "") -> str:
    """The help of all commands, or of those of a group."""
    head = f"branchline {group} COMMAND" if group else "branchline COMMAND"
    about = (
        GROUPS[group]
        if group
        else "Reads ROOT files of particle physics, once for all analyses that want the same events."
    )
    lines = [f"usage: {head} [OPTIONS] [ARGUMENTS]", "", *_wrapped(about)]
    for section, members in SECTIONS.items():
        some = [name for name in members if not group or name.startswith(f"{group} ")]
        if some:
            lines += ["", f"{section}:"]
            for name in some:
                lines += _wrapped(command(name).summary, f"  {name:15} ", " " * 18)
    lines += ["", *_wrapped(f"{head} --help explains a command, branchline --version prints the version.")]
    lines += ["", *_wrapped(EXIT_CODES)]
    return "\n".join(lines)


def _near(word: str, known: Sequence[str]) -> str:
    # Imported here since only mistakes need it.
    import difflib

    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _width() -> int:
    # Imported here since only help needs it.
    import shutil

    return min(WIDTH_MAX, shutil.get_terminal_size().columns - 2)


def _wrapped(text: str, first: str = "", later: str = "") -> list[str]:
    # Imported here since only help needs it.
    import textwrap

    return textwrap.wrap(text, _width(), initial_indent=first, subsequent_indent=later, break_on_hyphens=False)


class _Parser(argparse.ArgumentParser):
    """The parser of a command, whose texts are laid out when help is printed."""

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
        self.description, self.epilog = "\n\n".join(texts), _examples(self._wanted)
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, self.prog.removeprefix("branchline "))


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=HELP_COLUMN, width=_width())


def _parser(wanted: Command) -> argparse.ArgumentParser:
    parser = _Parser(wanted)
    groups: dict[str, Any] = {}
    # Options without a heading come first, those of every command last.
    order = sorted(wanted.parameters, key=lambda one: (bool(one.flags), one.group != OPTIONS, one.group == GENERAL))
    for one in order:
        if one.group not in groups:
            groups[one.group] = parser.add_argument_group(one.group)
        _add(groups[one.group], one)
    groups[GENERAL].add_argument("-h", "--help", action="help", help="Print this help and exit.")
    return parser


def _examples(wanted: Command) -> str | None:
    if not wanted.examples:
        return None
    lines = [f"  {purpose}:\n    {line}" for purpose, line in wanted.examples]
    return "\n".join(["Examples:", *lines])


def _add(group: Any, one: Parameter) -> None:
    text = _with_default(one).replace("%", "%%")
    if one.flags and one.kind == "flag":
        group.add_argument(*one.flags, dest=one.key, action="store_true", help=text)
        return
    known: dict[str, Any] = {"metavar": one.metavar, "help": text}
    if one.kind == "rest":
        group.add_argument(one.key, nargs=argparse.REMAINDER, **known)
        return
    known["type"] = _converter(one)
    if not one.flags:
        many = "+" if one.is_required else "*"
        nargs = many if one.takes_many else None if one.is_required else "?"
        group.add_argument(one.key, nargs=nargs, default=None if one.is_required else one.default, **known)
        return
    if one.takes_many:
        known["action"] = "append"
    group.add_argument(*one.flags, dest=one.key, default=one.default, required=one.is_required, **known)


def _with_default(one: Parameter) -> str:
    """The help of a parameter, with the default if it has one."""
    if one.is_required or one.kind == "flag" or one.default in (None, ""):
        return one.help
    return f"{one.help.removesuffix('.')} (default: {one.default})."


def _converter(one: Parameter) -> Callable[[str], Any]:
    """What makes a value of a word; argparse reports its ArgumentTypeError with the name of the option."""

    def converted(word: str) -> Any:
        if one.kind == "choice":
            if word not in one.choices:
                raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(one.choices)}")
            return word
        if one.kind == "path":
            if not word:
                raise argparse.ArgumentTypeError("the path is empty")
            return Path(word)
        if one.kind in ("integer", "number"):
            return _number(word, int if one.kind == "integer" else float, one.minimum)
        if not one.flags and not word:
            raise argparse.ArgumentTypeError("it is empty")
        return word

    return converted


def _number(word: str, kind: type[int | float], minimum: float | None) -> float:
    try:
        number = kind(word)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise argparse.ArgumentTypeError(f"{word!r} is not {what}") from None
    if minimum is not None and not number >= minimum:
        raise argparse.ArgumentTypeError(f"{word} is less than {minimum}")
    return number
