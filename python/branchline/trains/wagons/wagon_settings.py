"""Parameters of wagons that a caller sets: found by what a wagon declares, checked by their types."""

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
from branchline.trains.wagons.parameters import KINDS, SIMPLE_KINDS, Parameter
from branchline.trains.wagons.variations import VariedWagon
from branchline.trains.wagons.wagons import FunctionWagon, Wagon, in_order

_HINT = "write WAGON.NAME=VALUE, such as --set spectrum.pt_min=20"
#: What Branchline itself asks of a wagon.
_NO_PARAMETERS = {"name", "branches", "requires", "by_dataset", "schema"}


@dataclass(frozen=True)
class Setting:
    """A value for a parameter of a wagon. ``is_text``: it comes from a command line, and has no type yet."""

    wagon: str
    name: str
    value: object
    is_text: bool = False


Settings = tuple[Setting, ...]


def settings_of(given: object) -> Settings:
    """Those of a mapping: ``{"wagon.pt_min": 20}``, or ``{"wagon": {"pt_min": 20}}`` as in TOML. Raises OptionError."""
    if given is None:
        return ()
    if isinstance(given, tuple) and all(isinstance(one, Setting) for one in given):
        return given
    if not isinstance(given, Mapping):
        raise OptionError(f"parameters cannot be {given!r:.80}", hint='give a dict, such as {"spectrum.pt_min": 20}')
    return tuple(_of_mapping(given))


def _of_mapping(given: Mapping[Any, Any]) -> Iterator[Setting]:
    for key, value in given.items():
        if isinstance(value, Mapping):
            for name, inner in value.items():
                yield Setting(str(key), str(name), inner)
        else:
            wagon, point, name = str(key).rpartition(".")
            if not point or not wagon or not name:
                raise OptionError(f"{key!r:.80} names no parameter", hint='write "WAGON.NAME", as "spectrum.pt_min"')
            yield Setting(wagon, name, value)


def settings_of_texts(texts: Iterable[str]) -> Settings:
    """Those of a command line, as ``wagon.pt_min=20``. Raises OptionError."""
    found = []
    for text in texts:
        where, sign, value = text.partition("=")
        wagon, point, name = where.strip().rpartition(".")
        if not (sign and point and wagon and name):
            raise OptionError(f"--set {text!r:.80} sets no parameter", hint=_HINT)
        found.append(Setting(wagon, name, value, is_text=True))
    return tuple(found)


def settings_of_file(path: str) -> Settings:
    """Those of a TOML file with a table for each wagon. Raises MissingFileError, OptionError."""
    # Imported late: few runs have such a file.
    import tomllib

    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MissingFileError("there is no such file of parameters", path=path) from None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"this file of parameters cannot be read as TOML: {error}", path=path) from None
    return settings_of(content)


def with_settings(wagons: Sequence[Wagon], settings: Settings) -> list[Wagon]:
    """The wagons with these values; of two for one parameter the later counts. Those that nothing is set for stay the
    same objects. Raises OptionError for a wagon or a parameter that is not there, and for a value of another type.
    """
    by_name = {one.name: one for one in wagons}
    chosen: dict[str, dict[str, object]] = {}
    for one in settings:
        wagon = by_name.get(one.wagon)
        if wagon is None:
            raise OptionError(f"no wagon is called {one.wagon!r:.80}", hint=_near(one.wagon, by_name))
        chosen.setdefault(one.wagon, {})[one.name] = _checked(wagon, one)
    changed = [_changed(one, chosen[one.name]) if one.name in chosen else one for one in wagons]
    # What a wagon requires may follow from its parameters.
    return in_order(changed) if chosen else changed


def parameter_records(wagon: Wagon) -> list[ParameterRecord]:
    """The parameters of a wagon and their values, as far as it keeps them."""
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
    return f"there are {', '.join(known)}" if known else "it declares none"


def _declared(thing: Any) -> dict[str, Parameter]:
    """What a wagon declares, by name: the arguments of its class, attributes of the class with plain values, and for a
    function its arguments behind the events.
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
                found[name] = Parameter(name, _kind(hints.get(name), value))
    return found | _of_arguments(kind.__init__, _arguments(kind))


def _of_arguments(function: Callable[..., Any], arguments: Sequence[inspect.Parameter]) -> dict[str, Parameter]:
    hints = _hints(function)
    found = {}
    for one in arguments:
        default = None if one.default is one.empty else one.default
        if one.name not in _NO_PARAMETERS:
            found[one.name] = Parameter(one.name, _kind(hints.get(one.name), default))
    return found


def _arguments(kind: type) -> list[inspect.Parameter]:
    """The arguments of a class that is written in Python; none where they are not named one by one."""
    try:
        found = list(inspect.signature(kind).parameters.values())
    except (TypeError, ValueError):
        return []
    return [one for one in found if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


def _hints(declared: Any) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(declared)
    except Exception:  # noqa: BLE001 - names of types may be anything; the default tells the type then
        return {}


def _kind(hint: Any, value: Any) -> str:
    """The type of a parameter as one of KINDS, by its annotation, else by its value; else as it is written."""
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


def _kept(thing: Any, name: str) -> Any:
    """The value that a wagon has for a parameter; ``inspect.Parameter.empty`` where it does not say."""
    if isinstance(thing, VariedWagon):
        return _kept(thing.thing, name)
    if isinstance(thing, FunctionWagon):
        return thing.values.get(name, inspect.signature(thing.function).parameters[name].default)
    for attribute in (name, f"_{name}"):
        if hasattr(thing, attribute):
            return getattr(thing, attribute)
    return inspect.Parameter.empty


def _changed(wagon: Wagon, values: Mapping[str, object]) -> Wagon:
    """The wagon with other values; its class is called once more where they are its arguments, for what it makes of
    them.
    """
    return Wagon(_with_values(wagon.thing, wagon.name, values), wagon.name, frozenset(values))


def _with_values(thing: Any, wagon: str, values: Mapping[str, object]) -> Any:
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
            what = f"wagon {wagon!r} does not keep its argument {unknown[0]!r}, so it cannot be made again"
            raise OptionError(what, hint=f"write self.{unknown[0]} = {unknown[0]} in its __init__")
        made.__init__(**given)
    names = {one.name for one in arguments}
    for name, value in values.items():
        if name not in names:
            setattr(made, name, value)
    return made
