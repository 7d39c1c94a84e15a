"""Reads a command line that leaves nothing to ask or to explain, without typer, which takes longer to import than many
a command to run. Of anything else - help, mistakes, unusual types - it says nothing, and typer is asked.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from branchline.cli.options import Argument, Option


class NotSure(Exception):  # noqa: N818 - no error: somebody else is asked
    """What is written may be wrong, or a question."""


@dataclass(frozen=True)
class _Parameter:
    name: str
    default: Any
    about: Argument | Option
    #: What a word becomes; None of a flag.
    convert: Callable[[str], Any] | None
    takes_many: bool

    @property
    def flags(self) -> tuple[str, ...]:
        if isinstance(self.about, Argument):
            return ()
        return self.about.flags or (f"--{self.name.replace('_', '-')}",)


def parsed(command: Callable[..., Any], words: Sequence[str]) -> dict[str, Any] | None:
    """What a command is to be called with; None where typer is to be asked."""
    try:
        parameters = [_parameter(one) for one in inspect.signature(command, eval_str=True).parameters.values()]
        return _values(parameters, list(words))
    except NotSure:
        return None


def _parameter(parameter: inspect.Parameter) -> _Parameter:
    annotation = parameter.annotation
    if get_origin(annotation) is not Annotated:
        raise NotSure
    wanted, about = get_args(annotation)
    if not isinstance(about, Argument | Option):
        raise NotSure
    takes_many = False
    if get_origin(wanted) in (Union, types.UnionType):
        some = [one for one in get_args(wanted) if one is not type(None)]
        if len(some) != 1:
            raise NotSure
        wanted = some[0]
    if get_origin(wanted) is list:
        (wanted,), takes_many = get_args(wanted), True
    return _Parameter(parameter.name, parameter.default, about, _converter(wanted, about), takes_many)


def _converter(wanted: Any, about: Argument | Option) -> Callable[[str], Any] | None:
    if wanted is bool and isinstance(about, Option):
        return None
    if wanted is str:
        return str
    if wanted is Path:
        return _path
    if wanted in (int, float):
        return lambda word: _number(word, wanted, getattr(about, "min", None))
    if get_origin(wanted) is Literal:
        return lambda word: _one_of(word, get_args(wanted))
    raise NotSure


def _path(word: str) -> Path:
    if not word:
        raise NotSure
    return Path(word)


def _number(word: str, kind: type[int | float], least: float | None) -> float:
    digits = word if kind is int else word.replace(".", "", 1)
    if not (digits.isascii() and digits.isdigit()) or (least is not None and kind(word) < least):
        raise NotSure
    return kind(word)


def _one_of(word: str, choices: tuple[Any, ...]) -> str:
    if word not in choices:
        raise NotSure
    return word


def _values(parameters: Sequence[_Parameter], words: list[str]) -> dict[str, Any]:
    by_flag = {flag: one for one in parameters for flag in one.flags}
    given: dict[str, Any] = {}
    places: list[str] = []
    while words:
        word = words.pop(0)
        if word == "--":
            places += words
            break
        if not word.startswith("-") or word == "-":
            places.append(word)
            continue
        flag, has_value, value = word.partition("=") if word.startswith("--") else (word, "", "")
        one = by_flag.get(flag)
        if one is None:
            raise NotSure
        if one.convert is None:
            if has_value:
                raise NotSure
            given[one.name] = True
            continue
        if not has_value:
            if not words or words[0].startswith("-"):
                raise NotSure
            value = words.pop(0)
        converted = one.convert(value)
        given[one.name] = [*given.get(one.name, []), converted] if one.takes_many else converted
    return _with_places(parameters, places, given)


def _with_places(parameters: Sequence[_Parameter], places: list[str], given: dict[str, Any]) -> dict[str, Any]:
    """Adds what is told by its place, and what is not said."""
    if not all(places):
        raise NotSure
    for one in (one for one in parameters if isinstance(one.about, Argument)):
        if one.convert is None:
            raise NotSure
        if one.takes_many and places:
            given[one.name], places = [one.convert(word) for word in places], []
        elif places:
            given[one.name] = one.convert(places.pop(0))
    missing = [one for one in parameters if one.name not in given]
    if places or any(one.default is inspect.Parameter.empty for one in missing):
        raise NotSure
    return given | {one.name: one.default for one in missing}
