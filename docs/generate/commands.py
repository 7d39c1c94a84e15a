"""Generates the reference of all commands from the command-line parser."""

from __future__ import annotations

from collections.abc import Iterator

from docs.generate.tables import code, table

from branchline.base import exit_codes
from branchline.cli.reference import CommandHelp, ParameterHelp, reference

HEAD = f"""# Commands

Generated from the source code. `branchline COMMAND --help` shows the same text in a terminal.

Exit codes of all commands: {exit_codes.described()}

"""


def names() -> list[str]:
    """Return the names of all commands, including their group, such as `trace show`."""
    return [one.name for one in reference()]


def page() -> str:
    return HEAD + "\n".join("\n".join(_lines(one)) for one in reference())


def _lines(command: CommandHelp) -> Iterator[str]:
    yield f"## branchline {command.name}\n"
    for paragraph in (command.summary, *command.details):
        yield f"{paragraph}\n"
    yield f"```text\n{command.usage}\n```\n"
    for example in command.examples:
        yield f"{example.text}:\n\n```shell\n{example.line}\n```\n"
    if command.arguments:
        yield table(["argument", "meaning"], [[code(one.metavar), _help(one)] for one in command.arguments])
    groups = list(dict.fromkeys(one.group for one in command.options))
    for group in groups:
        yield f"**{group}**\n"
        rows = [[_flags(one), _default(one), _help(one)] for one in command.options if one.group == group]
        yield table(["option", "default", "meaning"], rows)


def _flags(option: ParameterHelp) -> str:
    *others, last = option.flags
    metavar = "..." if len(option.choices) > 1 else option.metavar
    return ", ".join([*map(code, others), code(f"{last} {metavar}".strip())])


def _default(option: ParameterHelp) -> str:
    return "required" if option.is_required else code(option.default or "")


def _help(parameter: ParameterHelp) -> str:
    text = parameter.help.replace("|", "\\|")
    if parameter.choices:
        text += f" One of {', '.join(map(code, parameter.choices))}."
    repeatable = parameter.is_repeatable and parameter.flags and "repeated" not in text
    return f"{text} May be repeated." if repeatable else text
