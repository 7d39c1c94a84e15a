"""The arguments and options of a command: declared in the signature of its function, read here for the parser and the
reference.

A parameter of a command is ``Annotated[type, Argument(...)]``, ``Annotated[type, Option(...)]``, or a group of options
that several commands share: a NamedTuple whose fields are such parameters, or a dataclass whose fields describe their
options in their metadata. Python makes a NamedTuple in a quarter of the time, at every start of a command.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

#: What a parameter takes: nothing (a flag), a text, a path, a number, one of some words, or all words that follow.
Kind = Literal["flag", "text", "path", "integer", "number", "choice", "rest"]

#: Headings of the help under which options are listed.
OPTIONS = "Options"
GENERAL = "General"

_KINDS: dict[Any, Kind] = {str: "text", Path: "path", int: "integer", float: "number", bool: "flag"}
_METAVARS: dict[Kind, str] = {"text": "TEXT", "path": "PATH", "integer": "N", "number": "X"}


class Argument(NamedTuple):
    """An argument by its position. With ``takes_rest`` it takes all words that follow, options too."""

    help: str
    metavar: str | None = None
    takes_rest: bool = False


class Option:
    """An option, such as ``Option("--codec", help=...)``; without flags it is named as its parameter."""

    def __init__(
        self,
        *flags: str,
        help: str,  # noqa: A002 - as argparse calls it
        minimum: float | None = None,
        metavar: str | None = None,
        group: str = OPTIONS,
    ) -> None:
        self.flags, self.help, self.minimum, self.metavar, self.group = flags, help, minimum, metavar, group


class Parameter(NamedTuple):
    """An argument (no ``flags``) or an option of a command.

    ``key`` is its name, behind those of the option groups that it is in: ``reading.access.gap``. ``default`` means
    nothing if it ``is_required``. ``takes_many``: an argument takes several words, an option may be repeated.
    """

    key: str
    kind: Kind
    help: str
    flags: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    default: Any = None
    is_required: bool = False
    takes_many: bool = False
    minimum: float | None = None
    metavar: str = ""
    group: str = OPTIONS

    @property
    def name(self) -> str:
        """Its name in the function or the option group."""
        return self.key.rpartition(".")[2]


class OptionGroup(NamedTuple):
    """Options that one object of the type ``holder`` holds."""

    name: str
    holder: type
    members: tuple[Parameter | OptionGroup, ...]


Members = tuple[Parameter | OptionGroup, ...]


def members_of(function: Callable[..., Any]) -> Members:
    """The parameters and option groups of a command, in the order of its signature. Raises TypeError for others."""
    signature = inspect.signature(function, eval_str=True)
    return tuple(
        _member(one.name, "", one.annotation, one.default, one.default is inspect.Parameter.empty)
        for one in signature.parameters.values()
    )


def flat(members: Members) -> Iterator[Parameter]:
    """All parameters, those in groups too."""
    for one in members:
        if isinstance(one, OptionGroup):
            yield from flat(one.members)
        else:
            yield one


def filled(members: Members, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments to call a command with, from values by the keys of its parameters."""
    return {
        one.name: one.holder(**filled(one.members, values)) if isinstance(one, OptionGroup) else values[one.key]
        for one in members
    }


def _member(name: str, prefix: str, annotation: Any, default: Any, is_required: bool) -> Parameter | OptionGroup:
    key = f"{prefix}{name}"
    if isinstance(annotation, type) and (dataclasses.is_dataclass(annotation) or hasattr(annotation, "_fields")):
        return OptionGroup(name, annotation, tuple(_group_members(annotation, f"{key}.")))
    if get_origin(annotation) is Annotated:
        wanted, declared = get_args(annotation)
        if isinstance(declared, Argument | Option):
            return _parameter(key, wanted, declared, default, is_required)
    raise TypeError(f"{key} is no argument, option or option group: {annotation!r}")


def _group_members(holder: Any, prefix: str) -> Iterator[Parameter | OptionGroup]:
    """The parameters of a group of options."""
    if dataclasses.is_dataclass(holder):
        for field in dataclasses.fields(holder):
            described = field.metadata
            option = Option(
                described["flag"], help=described["help"], metavar=described["metavar"], group=described["group"]
            )
            yield _parameter(f"{prefix}{field.name}", described["type"], option, field.default, is_required=False)
        return
    hints, defaults = typing.get_type_hints(holder, include_extras=True), holder._field_defaults
    for name in holder._fields:
        yield _member(name, prefix, hints[name], defaults.get(name), name not in defaults)


def _parameter(key: str, wanted: Any, declared: Argument | Option, default: Any, is_required: bool) -> Parameter:
    if get_origin(wanted) in (Union, types.UnionType):
        (wanted,) = (one for one in get_args(wanted) if one is not type(None))
    takes_many = get_origin(wanted) is list
    if takes_many:
        (wanted,) = get_args(wanted)
    choices = get_args(wanted) if get_origin(wanted) is Literal else ()
    kind = "choice" if choices else _KINDS[wanted]
    name = key.rpartition(".")[2]
    flags: tuple[str, ...] = ()
    minimum: float | None = None
    if isinstance(declared, Argument):
        kind = "rest" if declared.takes_rest else kind
        metavar, group = declared.metavar or name.upper(), "Arguments"
    else:
        metavar = declared.metavar or ("|".join(choices) if choices else _METAVARS.get(kind, ""))
        group, flags, minimum = declared.group, declared.flags or (f"--{name.replace('_', '-')}",), declared.minimum
    return Parameter(
        key=key,
        kind=kind,
        help=declared.help,
        flags=flags,
        choices=choices,
        default=default,
        is_required=is_required,
        takes_many=takes_many,
        minimum=minimum,
        metavar=metavar,
        group=group,
    )
