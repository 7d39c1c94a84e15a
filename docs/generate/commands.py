"""The reference of all commands, from their signatures and docstrings."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from docs.generate.tables import code, table

from branchline.cli.commands import COMMANDS, GROUPS, found
from branchline.cli.options import Argument, Option

HEAD = """# Commands

Written from the code of Branchline. `branchline COMMAND --help` shows the same in a terminal.

Exit codes of all commands: 0 all is well; 1 an error; 2 wrong usage; 3 finished, but a wagon failed or files were
skipped; 130 interrupted, what was finished is kept.

"""


def page() -> str:
    return HEAD + "\n".join(_section(name, command) for name, command in _commands())


def names() -> list[str]:
    """The names of all commands, those of groups with the group: `trace show`."""
    return [name for name, _ in _commands()]


def _commands() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in COMMANDS:
        if name in GROUPS:
            for one in found(name).registered_commands:
                yield f"{name} {one.name or one.callback.__name__}", one.callback
        else:
            yield name, found(name)


def _section(name: str, command: Callable[..., Any]) -> str:
    parameters = list(inspect.signature(command, eval_str=True).parameters.values())
    described = [(one, *get_args(one.annotation)) for one in parameters if get_origin(one.annotation) is Annotated]
    arguments = [(one, wanted, about) for one, wanted, about in described if isinstance(about, Argument)]
    options = [(one, wanted, about) for one, wanted, about in described if isinstance(about, Option)]
    usage = " ".join(["branchline", name, *(_place(*one) for one in arguments), "[OPTIONS]"])
    text = f"## branchline {name}\n\n{inspect.getdoc(command)}\n\n```text\n{usage}\n```\n\n"
    if arguments:
        rows = [[code(_place(*one)), one[2].help] for one in arguments]
        text += table(["argument", "meaning"], rows) + "\n"
    rows = [[_flags(one, about), _type(wanted), _default(one), about.help] for one, wanted, about in options]
    return text + (table(["option", "value", "default", "meaning"], rows) if rows else "")


def _place(parameter: inspect.Parameter, wanted: Any, about: Argument) -> str:
    name = about.metavar or parameter.name.upper()
    name += "..." if get_origin(wanted) is list and not name.endswith("...") else ""
    return name if parameter.default is inspect.Parameter.empty else f"[{name}]"


def _flags(parameter: inspect.Parameter, about: Option) -> str:
    flags = about.flags or (f"--{parameter.name.replace('_', '-')}",)
    return ", ".join(code(flag) for flag in flags)


def _type(wanted: Any) -> str:
    if get_origin(wanted) in (Union, types.UnionType):
        (wanted,) = (one for one in get_args(wanted) if one is not type(None))
    if get_origin(wanted) is list:
        return f"{_type(get_args(wanted)[0])}, may be repeated"
    if get_origin(wanted) is Literal:
        return ", ".join(code(one) for one in get_args(wanted))
    return {bool: "", str: "text", Path: "path", int: "whole number", float: "number"}[wanted]


def _default(parameter: inspect.Parameter) -> str:
    if parameter.default is inspect.Parameter.empty:
        return "required"
    if parameter.default is None or parameter.default is False:
        return ""
    return code(str(parameter.default))
