"""Sets parameters of wagons: looks up each parameter in the wagon's declarations, and validates the type of the
value.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from branchline.errors import MissingFileError, OptionError
from branchline.records.sensors.record_parts import ParameterRecord
from branchline.trains.wagons.parameters import KINDS, SIMPLE_KINDS, WagonParameter
from branchline.trains.wagons.variations import VariedWagon
from branchline.trains.wagons.wagons import FunctionWagon, Wagon, in_order

_HINT = "write WAGON.NAME=VALUE, such as --set spectrum.pt_min=20"
#: Attributes of wagons that Branchline itself uses, and that are therefore not parameters.
_NO_PARAMETERS = {"name", "branches", "requires", "by_dataset", "schema"}


@dataclass(frozen=True)
class Setting:
    """A value for a parameter of a wagon. ``is_text`` means that the value comes from a command line and has no type
    yet.
    """

    wagon: str
    name: str
    value: object
    is_text: bool = False


Settings = tuple[Setting, ...]
#: Parameters as accepted by ``branchline.run``: a mapping, or settings that have already been validated.
ParametersLike = Mapping[str, object] | Settings | None


def settings_of(given: object) -> Settings:
    """Return settings from a mapping: ``{"wagon.pt_min": 20}``, or ``{"wagon": {"pt_min": 20}}`` as in TOML. Settings
    are returned unchanged. Raises OptionError.
    """
    if given is None:
        return ()
    if isinstance(given, tuple) and all(isinstance(one, Setting) for one in given):
        return given
    if not isinstance(given, Mapping):
        raise OptionError(f"invalid parameters {given!r:.80}", hint='pass a dict, such as {"spectrum.pt_min": 20}')
    return tuple(_of_mapping(given))


def _of_mapping(given: Mapping[Any, object]) -> Iterator[Setting]:
    for key, value in given.items():
        if isinstance(value, Mapping):
            for name, inner in value.items():
                yield Setting(str(key), str(name), inner)
        else:
            wagon, point, name = str(key).rpartition(".")
            if not point or not wagon or not name:
                raise OptionError(f"{key!r:.80} is not a parameter name", hint='use "WAGON.NAME"')
            yield Setting(wagon, name, value)


def settings_of_texts(texts: Iterable[str]) -> Settings:
    """Return settings from the arguments of a command, such as ``wagon.pt_min=20``. Raises OptionError."""
    found = []
    for text in texts:
        where, sign, value = text.partition("=")
        wagon, point, name = where.strip().rpartition(".")
        if not (sign and point and wagon and name):
            raise OptionError(f"invalid parameter --set {text!r:.80}", hint=_HINT)
        found.append(Setting(wagon, name, value, is_text=True))
    return tuple(found)


def settings_of_file(path: str) -> Settings:
    """Return settings from a TOML file with one table per wagon. Raises MissingFileError, OptionError."""
    # Imported late, because few runs have such a file.
    import tomllib

    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MissingFileError("no such parameter file", path=path) from None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"this file of parameters cannot be read as TOML: {error}", path=path) from None
    return settings_of(content)


def with_settings(wagons: Sequence[Wagon], settings: Settings) -> list[Wagon]:
    """Set parameters of wagons. If a parameter is set repeatedly, the last value counts. Wagons without settings are
    returned unchanged.

    Raises OptionError for unknown wagons and parameters, and for values of the wrong type.
    """
    if not settings:
        return list(wagons)
    by_name = {one.name: one for one in wagons}
    chosen: dict[str, dict[str, object]] = {}
    for one in settings:
        wagon = by_name.get(one.wagon)
        if wagon is None:
            raise OptionError(f"unknown wagon {one.wagon!r:.80}", hint=_near(one.wagon, by_name))
        chosen.setdefault(one.wagon, {})[one.name] = _checked(wagon, one)
    # To set a parameter that is an argument of the wagon's class, call __init__ again, since it may process the values.
    changed = [
        Wagon(_with_values(one.thing, one.name, chosen[one.name]), one.name, frozenset(chosen[one.name]))
        if one.name in chosen
        else one
        for one in wagons
    ]
    # Sort again, because parameters may determine which wagons are required.
    return in_order(changed)


def parameter_records(wagon: Wagon) -> list[ParameterRecord]:
    """Return the parameters of a wagon with their values, if the wagon stores the values."""
    found = []
    for name, one in _declared(wagon.thing).items():
        value = _kept(wagon.thing, name)
        if isinstance(value, tuple):
            value = list(value)
        with_type = type(value).__name__ in SIMPLE_KINDS or isinstance(value, list)
        if with_type:
            found.append(ParameterRecord(name, one.kind, value, name in wagon.set_parameters))
    return found


def _checked(wagon: Wagon, setting: Setting) -> object:
    declared = _declared(wagon.thing)
    parameter = declared.get(setting.name)
    if parameter is None:
        what = f"wagon {wagon.name!r} has no parameter {setting.name!r:.80}"
        raise OptionError(what, hint=_near(setting.name, declared))
    if parameter.kind not in KINDS:
        what = f"{wagon.name}.{setting.name} is of type {parameter.kind}, which cannot be set from outside"
        raise OptionError(what, hint=f"types are {', '.join(KINDS)}")
    named = dataclasses.replace(parameter, name=f"{wagon.name}.{setting.name}")
    given = list(setting.value) if isinstance(setting.value, tuple) else setting.value
    value = named.parsed(str(given)) if setting.is_text else named.checked(given)
    return tuple(value) if isinstance(_kept(wagon.thing, setting.name), tuple) and isinstance(value, list) else value


def _near(name: str, names: Iterable[str]) -> str:
    known = list(names)
    near = get_close_matches(name, known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"choose one of {', '.join(known)}" if known else "it declares no parameters"


def _declared(thing: object) -> dict[str, WagonParameter]:
    """Return the declared parameters of a wagon, by name.

    For a function, the parameters are its arguments after the events. For an object, they are the arguments of its
    class, and class attributes with simple values.
    """
    if isinstance(thing, VariedWagon):
        return _declared(thing.thing)
    if isinstance(thing, FunctionWagon):
        return _of_arguments(thing.function, list(inspect.signature(thing.function).parameters.values())[1:])
    kind = type(thing)
    found = {}
    hints = _hints(kind)
    for base in reversed(kind.__mro__):
        for name, value in vars(base).items():
            is_plain = type(value).__name__ in SIMPLE_KINDS or isinstance(value, list | tuple)
            if is_plain and not name.startswith("_") and name not in _NO_PARAMETERS:
                found[name] = WagonParameter(name, _kind(hints.get(name), value))
    arguments = _arguments(kind)
    return found | _of_arguments(kind.__init__, arguments) if arguments else found


def _of_arguments(function: Callable[..., object], arguments: Sequence[inspect.Parameter]) -> dict[str, WagonParameter]:
    hints = _hints(function)
    found = {}
    for one in arguments:
        default = None if one.default is one.empty else one.default
        if one.name not in _NO_PARAMETERS:
            found[one.name] = WagonParameter(one.name, _kind(hints.get(one.name), default))
    return found


def _arguments(kind: type) -> list[inspect.Parameter]:
    """Return the arguments of a class, without *args and **kwargs. Empty if the arguments are unknown, as for classes
    written in C.
    """
    try:
        found = list(inspect.signature(kind).parameters.values())
    except (TypeError, ValueError):
        return []
    return [one for one in found if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


def _hints(declared: object) -> Mapping[str, object]:
    try:
        return typing.get_type_hints(declared)
    except Exception:  # noqa: BLE001 - annotations may raise anything; then the default determines the type
        return {}


def _kind(hint: Any, value: Any) -> str:
    """Return the type of a parameter, one of KINDS, according to its annotation or, if that is missing or unusable, its
    value. For any other type, return the name of the type.
    """
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = [one for one in typing.get_args(hint) if one is not type(None)]
        hint = inner[0] if len(inner) == 1 else hint
    arguments = [one for one in typing.get_args(hint) if one is not Ellipsis]
    if typing.get_origin(hint) in (list, tuple, Sequence) and len(set(arguments)) == 1:
        return f"list[{getattr(arguments[0], '__name__', arguments[0])}]"
    if hint is not None and getattr(hint, "__name__", "") in SIMPLE_KINDS:
        return str(hint.__name__)
    if isinstance(value, list | tuple):
        inner_kinds = {type(one).__name__ for one in value}
        return f"list[{'float' if inner_kinds == {'int', 'float'} else next(iter(inner_kinds), 'str')}]"
    if type(value).__name__ in SIMPLE_KINDS:
        return type(value).__name__
    return str(getattr(hint, "__name__", hint)) if hint is not None else type(value).__name__


def _kept(thing: object, name: str) -> object:
    """Return the value of a wagon's parameter; ``inspect.Parameter.empty`` if the wagon does not store the value."""
    if isinstance(thing, VariedWagon):
        return _kept(thing.thing, name)
    if isinstance(thing, FunctionWagon):
        return thing.values.get(name, inspect.signature(thing.function).parameters[name].default)
    for attribute in (name, f"_{name}"):
        if hasattr(thing, attribute):
            return getattr(thing, attribute)
    return inspect.Parameter.empty


def _with_values(thing: Any, wagon: str, values: Mapping[str, object]) -> object:
    if isinstance(thing, VariedWagon):
        made = copy.copy(thing)
        made.thing = _with_values(thing.thing, wagon, values)
        return made
    if isinstance(thing, FunctionWagon):
        return FunctionWagon(thing.function, {**thing.values, **values})
    made = copy.copy(thing)
    arguments = _arguments(type(thing))
    if any(one.name in values for one in arguments):
        given = {one.name: values.get(one.name, _kept(thing, one.name)) for one in arguments}
        unknown = [name for name, value in given.items() if value is inspect.Parameter.empty]
        if unknown:
            what = f"wagon {wagon!r} does not store its argument {unknown[0]!r}, so it cannot be created again"
            raise OptionError(what, hint=f"write self.{unknown[0]} = {unknown[0]} in its __init__")
        made.__init__(**given)
    names = {one.name for one in arguments}
    for name, value in values.items():
        if name not in names:
            setattr(made, name, value)
    return made
