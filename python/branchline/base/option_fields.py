"""Dataclass fields that are also command line options: one definition for Python, the commands and the reference."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from branchline.errors import OptionError

Value = TypeVar("Value")

#: Default heading under which the help of a command lists options.
OPTIONS = "Options"

_METADATA = "option"


class OptionField(NamedTuple):
    """The command line option of a field; without flags, the field can only be set in Python.

    ``kind`` is the type of the option's value. ``parse`` converts the value, given as a string, to the value of the
    field and may raise OptionError. For a boolean field that defaults to True, the flag sets False. ``python``
    describes the field if its values in Python differ from those on the command line.
    """

    flags: tuple[str, ...]
    help: str
    group: str
    kind: object = str
    metavar: str | None = None
    minimum: float | None = None
    parse: Callable[[str], object] | None = None
    python: str = ""

    @property
    def description(self) -> str:
        """Description of the option for docstrings."""
        return self.python or self.help


def option_field(
    default: Value,
    *flags: str,
    help: str,  # noqa: A002 - as argparse calls it
    group: str,
    kind: object = str,
    metavar: str | None = None,
    minimum: float | None = None,
    parse: Callable[[str], object] | None = None,
    python: str = "",
) -> Value:
    """Return a dataclass field with this default that is also declared as a `branchline.cli.parameters.Option`."""
    option = OptionField(flags, help, group, kind, metavar, minimum, parse, python)
    return dataclasses.field(default=default, metadata={_METADATA: option})


def option_of(field: dataclasses.Field[Value]) -> OptionField | None:
    """Return the option of a dataclass field; None if the field is not an option."""
    found = field.metadata.get(_METADATA)
    return found if isinstance(found, OptionField) else None


def comma_separated(text: str | None) -> tuple[str, ...] | None:
    """Split an option's value into names; None if the option is not given. Raises OptionError if the value contains no
    names.
    """
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise OptionError(
            f"{text!r:.40} contains no names", hint="give names separated by commas, or leave the option out"
        )
    return names
