"""The arguments and options of commands: declared in function signatures, and read for the parser and the reference.

A command's parameter is ``Annotated[type, Argument(...)]`` or ``Annotated[type, Option(...)]``. Options that several
commands share form a group: a NamedTuple with such parameters as fields, or a dataclass with fields created by
`base.option_fields`. NamedTuples are preferred: the classes are created whenever a command starts, and a NamedTuple
takes a quarter of the time of a dataclass.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, ParamSpec, TypeGuard, Union, get_args, get_origin

from branchline.base.option_fields import OPTIONS, OptionField, option_of
from branchline.base.plain import DataclassInstance

#: Kind of a parameter's value: none (for a flag), a string, a path, a number, one of several choices, or all remaining
#: words of the command line.
Kind = Literal["flag", "text", "path", "integer", "number", "choice", "rest"]

#: Heading in the help for the options that every command has.
GENERAL = "General"

_KINDS: dict[object, Kind] = {str: "text", Path: "path", int: "integer", float: "number", bool: "flag"}
_METAVARS: dict[Kind, str] = {"text": "TEXT", "path": "PATH", "integer": "N", "number": "X"}


class Argument(NamedTuple):
    """A positional argument. With ``takes_rest``, its value is all remaining words, including options."""

    help: str
    metavar: str | None = None
    takes_rest: bool = False


class Option:
    """An option, such as ``Option("--codec", help=...)``. If no flags are given, the flag is derived from the
    parameter's name.
    """

    def __init__(
        self,
        *flags: str,
        help: str,  # noqa: A002 - as argparse calls it
        minimum: float | None = None,
        metavar: str | None = None,
        group: str = OPTIONS,
    ) -> None:
        self.flags, self.help, self.minimum, self.metavar, self.group = flags, help, minimum, metavar, group


class CommandParameter(NamedTuple):
    """An argument (no ``flags``) or an option of a command.

    - ``key`` is the parameter's name, prefixed with the names of its option groups, such as ``reading.access.gap``.
    - ``default`` is unused if ``is_required``.
    - ``takes_many`` means that an argument takes several words, or that an option may be repeated.
    - ``parse`` converts the value from the command line.
    - ``fallback`` is the value if the parameter is not given. A flag with the ``fallback`` True switches something off.
    """

    key: str
    kind: Kind
    help: str
    flags: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    default: object = None
    is_required: bool = False
    takes_many: bool = False
    minimum: float | None = None
    metavar: str = ""
    group: str = OPTIONS
    parse: Callable[[str], object] | None = None
    fallback: object = None

    @property
    def name(self) -> str:
        """The parameter's name in the function or the option group."""
        return self.key.rpartition(".")[2]

    def parsed(self, values: Mapping[str, object]) -> object:
        """Return the parameter's converted value, which is passed to the command."""
        value = values[self.key]
        if value is None:
            return self.fallback
        if self.kind == "flag" and self.fallback is True:
            return not value
        return self.parse(value) if self.parse is not None and isinstance(value, str) else value


class OptionGroup(NamedTuple):
    """Options that are passed to a command as one object of the type ``holder``."""

    name: str
    holder: type
    members: tuple[CommandParameter | OptionGroup, ...]


Parameters = ParamSpec("Parameters")
Members = tuple[CommandParameter | OptionGroup, ...]


def members_of(function: Callable[Parameters, object]) -> Members:
    """Return a command's parameters and option groups, in the order of the signature.

    Raises TypeError if the annotation of a parameter is neither an argument, an option nor an option group.
    """
    signature = inspect.signature(function, eval_str=True)
    return tuple(
        _member(one.name, "", one.annotation, one.default, one.default is inspect.Parameter.empty)
        for one in signature.parameters.values()
    )


def flat(members: Members) -> Iterator[CommandParameter]:
    """Yield all parameters, including those in option groups."""
    for one in members:
        if isinstance(one, OptionGroup):
            yield from flat(one.members)
        else:
            yield one


def filled(members: Members, values: Mapping[str, object]) -> dict[str, object]:
    """Return the keyword arguments for a command's function, given the values by parameter key."""
    return {
        one.name: one.holder(**filled(one.members, values)) if isinstance(one, OptionGroup) else one.parsed(values)
        for one in members
    }


def _member(
    name: str, prefix: str, annotation: object, default: object, is_required: bool
) -> CommandParameter | OptionGroup:
    key = f"{prefix}{name}"
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return OptionGroup(name, annotation, tuple(_described_options(annotation, f"{key}.")))
    if _is_named_tuple(annotation):
        return OptionGroup(name, annotation, tuple(_named_members(annotation, f"{key}.")))
    if get_origin(annotation) is Annotated:
        wanted, declared = get_args(annotation)
        if isinstance(declared, Argument | Option):
            return _parameter(key, wanted, declared, default, is_required)
    raise TypeError(f"{key} is not an argument, option or option group: {annotation!r}")


def _is_named_tuple(annotation: object) -> TypeGuard[type[NamedTuple]]:
    return isinstance(annotation, type) and hasattr(annotation, "_fields")


def _described_options(holder: type[DataclassInstance], prefix: str) -> Iterator[CommandParameter]:
    """Yield the options declared by the fields of a dataclass."""
    for field in dataclasses.fields(holder):
        described = option_of(field)
        if described is not None and described.flags:
            key = f"{prefix}{field.name}"
            made = _parameter(key, described.kind, _declared(described), field.default, is_required=False)
            if made.kind == "flag":
                made = made._replace(fallback=field.default)
            elif described.parse is not None or made.takes_many:
                # The default is already converted, so it must not be passed to ``parse``.
                made = made._replace(parse=described.parse, default=None, fallback=field.default)
            yield made


def _named_members(holder: type[NamedTuple], prefix: str) -> Iterator[CommandParameter | OptionGroup]:
    """Yield the parameters declared by the fields of a NamedTuple."""
    hints, defaults = typing.get_type_hints(holder, include_extras=True), holder._field_defaults
    for name in holder._fields:
        yield _member(name, prefix, hints[name], defaults.get(name), name not in defaults)


def option_like(holder: type[DataclassInstance], name: str) -> Option:
    """Return the option declared by a dataclass field, for a different command that has the same option."""
    (described,) = (option_of(one) for one in dataclasses.fields(holder) if one.name == name)
    if described is None or not described.flags:
        raise TypeError(f"{holder.__name__}.{name} is not a command-line option")
    return _declared(described)


def _declared(described: OptionField) -> Option:
    return Option(
        *described.flags,
        help=described.help,
        minimum=described.minimum,
        metavar=described.metavar,
        group=described.group,
    )


def _parameter(
    key: str, wanted: object, declared: Argument | Option, default: object, is_required: bool
) -> CommandParameter:
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
    return CommandParameter(
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
