"""Wagons: found in a Python file or given as objects, checked, and put in the order in which they need each other.

A function of events is a wagon too: ``def mass(events): return histogram``.
"""

from __future__ import annotations

import copy
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from branchline.base.imports import hint_for, install_hint
from branchline.base.texts import message_of
from branchline.errors import WagonError
from branchline.jobs.program import ModuleFile
from branchline.jobs.workers.worker import load_module

MODULE_PREFIX = "branchline_wagons_"
#: In results by dataset, files that belong to none.
NO_DATASET = "all"


class Wagon:
    """A user's object with ``process(events)``, and what it says of itself."""

    def __init__(self, thing: Any, name: str | None = None, set_parameters: frozenset[str] = frozenset()) -> None:
        self.thing = thing
        #: False for a wagon that cannot be pickled, and so does not run in workers.
        self.travels = True
        #: Why it cannot run in this process.
        self.error: WagonError | None = None
        #: The parameters that a caller has set.
        self.set_parameters = set_parameters
        self.name = name or _name_of(thing)
        self.branches = _names_in(thing, "branches", self.name)
        self.requires = _names_in(thing, "requires", self.name) or ()
        self.by_dataset = bool(getattr(thing, "by_dataset", False))
        self.is_processor = is_coffea_processor(thing)
        self.schema = schema_of(thing)
        if self.gets_array and self.requires:
            what = "is a coffea processor" if self.is_processor else "has a schema of coffea"
            raise WagonError(f"wagon {self.name!r} {what}, and gets no output of other wagons; it requires some")
        if self.schema is None and not self.is_processor and getattr(thing, "schema", None) is not None:
            what = f"schema of wagon {self.name!r} is {thing.schema!r:.80}, which is not a schema of coffea"
            hint = "give a class of coffea.nanoevents, such as NanoAODSchema, or None"
            raise WagonError(what, hint=install_hint("coffea") or hint)
        if self.schema is not None and self.variations:
            what = f"wagon {self.name!r} has variations and a schema of coffea, whose events cannot be varied"
            raise WagonError(what, hint="leave out one of the two")

    def __getstate__(self) -> dict[str, object]:
        return vars(self) if self.travels else vars(self) | {"thing": None}

    def bare(self) -> Wagon:
        """Return the wagon without objects of the user."""
        bare = copy.copy(self)
        bare.thing = bare.schema = None
        return bare

    def failing(self, error: WagonError) -> Wagon:
        """Return the wagon as one that raises this error when it is to run."""
        failing = copy.copy(self)
        failing.error = error
        return failing

    def set_up(self) -> Wagon:
        """Return the wagon with its ``setup()`` called, if it has one without arguments: once in each worker. What that
        makes stays in a copy, since the user's object is sent to workers again in a later run.
        """
        if self.error is not None:
            raise self.error
        setup = getattr(self.thing, "setup", None)
        if not callable(setup) or not _takes_nothing(setup):
            return self
        made = copy.copy(self)
        if not isinstance(self.thing, OfUser):
            made.thing = copy.copy(self.thing)
        made.thing.setup()
        return made

    @property
    def code(self) -> Any:
        """The class or the function of the user."""
        return self.thing.code if isinstance(self.thing, OfUser) else type(self.thing)

    @property
    def gets_array(self) -> bool:
        """Whether its events are an awkward array as coffea gives it, or NanoEvents."""
        return self.is_processor or self.schema is not None

    @property
    def variations(self) -> tuple[str, ...]:
        """The names of its variations; none for a wagon that is not varied."""
        return self.thing.variations if isinstance(self.thing, OfUser) else ()

    def process(self, events: Any) -> Any:
        """What the user's object makes of a chunk of events."""
        return self.thing.process(events)

    def for_dataset(self, output: Any, dataset: str) -> Any:
        """An output for the sum: by the name of its dataset, if the results of each dataset are kept apart."""
        if not self.by_dataset or output is None:
            return output
        return {dataset or NO_DATASET: output}

    def postprocess(self, accumulator: Any) -> Any:
        """What the user's object makes of the sum of all chunks, or of those of each dataset; the sum itself where it
        does nothing with it.
        """
        if self.error is not None:
            raise self.error
        if self.by_dataset and isinstance(accumulator, dict):
            return {dataset: self._finished(total) for dataset, total in accumulator.items()}
        return self._finished(accumulator)

    def _finished(self, accumulator: Any) -> Any:
        finish = getattr(self.thing, "postprocess", None)
        if finish is None:
            return accumulator
        finished = finish(accumulator)
        return accumulator if finished is None else finished


def _takes_nothing(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


def is_coffea_processor(thing: Any) -> bool:
    """True for an object of a class that coffea would run; coffea is not imported to find out."""
    return any(
        base.__name__ == "ProcessorABC" and base.__module__.startswith("coffea.") for base in type(thing).__mro__
    )


def schema_of(thing: Any) -> Any:
    """Return the schema of coffea's NanoEvents that a wagon names as its ``schema``; None if it names none."""
    schema = getattr(thing, "schema", None)
    bases = schema.__mro__ if inspect.isclass(schema) else ()
    is_schema = any(base.__name__ == "BaseSchema" and base.__module__.startswith("coffea.") for base in bases)
    return schema if is_schema else None


def wagons_of(given: Any) -> tuple[list[Wagon], list[ModuleFile]]:
    """Wagons of a file, of one object or function, or of a list of them, in the order in which they run.

    Returns them with the modules that a worker process has to load to know their classes.
    Raises WagonError if they are not usable as they are.
    """
    if isinstance(given, (str, os.PathLike)):
        return load_wagons(os.fspath(given))
    things = list(given) if isinstance(given, Iterable) and not hasattr(given, "process") else [given]
    return in_order([thing if isinstance(thing, Wagon) else _checked(thing) for thing in things]), []


def load_wagons(path: str) -> tuple[list[Wagon], list[ModuleFile]]:
    """The wagons of a Python file: those in its list ``wagons``, or else every object with a ``process`` method and
    every class with one that is defined there and needs no arguments. ``FILE:NAME`` are those of these names, which may
    be functions of events, too; several have commas between them.
    """
    path, names = _with_names(path)
    module, source = _module_of(path)
    wagons = [_named(module, one, path) for one in names] or list(_wagons_in(module, path))
    if not wagons:
        hint = "a wagon is an object with process(events); name a function of events as FILE:NAME"
        raise WagonError("this file holds no wagon", path=path, hint=hint)
    return in_order(wagons), [source]


def load_wagon(path: str, name: str) -> tuple[Wagon, list[Wagon]]:
    """The wagon, or the function of events, that has this name in a Python file; and all wagons of the file, those that
    it requires among them. Raises WagonError.
    """
    module, _ = _module_of(path)
    by_name = {one.name: one for one in _wagons_in(module, path)}
    wagon = by_name[name] if name in by_name else _named(module, name, path)
    return wagon, in_order(list((by_name | {wagon.name: wagon}).values()))


def _module_of(path: str) -> tuple[ModuleType, ModuleFile]:
    file = Path(path)
    if not file.is_file():
        raise WagonError("there is no such file of wagons", path=path)
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = MODULE_PREFIX + re.sub(r"\W", "_", file.stem)
    try:
        module = load_module(name, str(file.resolve()))
    except KeyboardInterrupt:
        raise
    except SystemExit as error:
        hint = "keep what only a script does below: if __name__ == '__main__'"
        raise WagonError(f"{path} cannot be loaded: it calls sys.exit({error.code!r})", path=path, hint=hint) from error
    except BaseException as error:
        what = f"{path} cannot be loaded: {type(error).__name__}: {message_of(error)}"
        raise WagonError(what, path=path, hint=hint_for(error)) from error
    return module, ModuleFile(name, str(file.resolve()))


def _with_names(path: str) -> tuple[str, list[str]]:
    """The file, and the names of wagons behind it."""
    before, colon, names = path.rpartition(":")
    if not colon or not before.endswith(".py") or Path(path).is_file():
        return path, []
    return before, [one.strip() for one in names.split(",")]


def _named(module: ModuleType, name: str, path: str) -> Wagon:
    try:
        thing = getattr(module, name)
    except AttributeError:
        of_this_name = [one for one in _wagons_in(module, path) if one.name == name]
        if of_this_name:
            return of_this_name[0]
        known = [one for one, thing in vars(module).items() if _could_be_wagon(module, thing)]
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}" if known else None
        raise WagonError(f"{path} has no {name!r}", path=path, hint=hint) from None
    wagon = _checked(thing)
    is_unnamed = not inspect.isclass(thing) and not isinstance(getattr(thing, "name", None), str)
    return Wagon(wagon.thing, name) if is_unnamed else wagon


def _could_be_wagon(module: ModuleType, thing: Any) -> bool:
    if isinstance(thing, FunctionType) or inspect.isclass(thing):
        is_own = thing.__module__ == module.__name__
        return is_own and (isinstance(thing, FunctionType) or callable(getattr(thing, "process", None)))
    return _is_wagon(thing)


def _wagons_in(module: ModuleType, path: str) -> Iterable[Wagon]:
    listed = getattr(module, "wagons", None)
    if isinstance(listed, (list, tuple)):
        yield from (_checked(thing) for thing in listed)
        return
    things = {name: thing for name, thing in vars(module).items() if not name.startswith("_")}
    instances = {name: thing for name, thing in things.items() if _is_wagon(thing)}
    for name, thing in instances.items():
        yield Wagon(thing, getattr(thing, "name", None) or name)
    for name, thing in things.items():
        ours = inspect.isclass(thing) and thing.__module__ == module.__name__ and not inspect.isabstract(thing)
        has_instance = any(type(one) is thing for one in instances.values())
        if ours and callable(getattr(thing, "process", None)) and not has_instance:
            yield Wagon(_made(thing, path), getattr(thing, "name", None) or name)


def _is_wagon(thing: Any) -> bool:
    return not inspect.isclass(thing) and not inspect.ismodule(thing) and callable(getattr(thing, "process", None))


def _made(kind: type, path: str) -> Any:
    try:
        return kind()
    except TypeError as error:
        raise WagonError(
            f"the wagon class {kind.__name__} cannot be made without arguments: {error}",
            path=path,
            hint="make it yourself and list it: wagons = [...]",
        ) from error


def _checked(thing: Any) -> Wagon:
    if inspect.isclass(thing):
        thing = _made(thing, getattr(sys.modules.get(thing.__module__), "__file__", None) or "")
    if isinstance(thing, FunctionType):
        thing = checked_function(thing)
    if not _is_wagon(thing):
        hint = "a wagon is a function of events, or an object with this method"
        raise WagonError(f"{thing!r} is no wagon: it has no method process(events)", hint=hint)
    return Wagon(thing)


def _name_of(thing: Any) -> str:
    name = getattr(thing, "name", None)
    return name if isinstance(name, str) and name else type(thing).__name__


def _names_in(thing: Any, attribute: str, wagon: str) -> tuple[str, ...] | None:
    names = getattr(thing, attribute, None)
    if names is None or callable(names):
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise WagonError(f"{attribute} of wagon {wagon!r} is {names!r}, not a list of names")
    names = tuple(names)
    if not all(isinstance(name, str) for name in names):
        raise WagonError(f"{attribute} of wagon {wagon!r} is {list(names)!r}, not a list of names")
    return names


def in_order(wagons: Sequence[Wagon]) -> list[Wagon]:
    """The wagons with each behind those that it requires, otherwise as they were given.

    Raises WagonError for two wagons of one name, one that is required and not there, and circles.
    """
    by_name: dict[str, Wagon] = {}
    for wagon in wagons:
        if wagon.name in by_name:
            raise WagonError(f"two wagons are named {wagon.name!r}", hint="give one of them another name")
        by_name[wagon.name] = wagon
    if not by_name:
        raise WagonError("a train needs at least one wagon")
    for wagon in wagons:
        for needed in wagon.requires:
            if needed not in by_name:
                raise WagonError(_not_there(wagon, needed, list(by_name)))
    sorter = TopologicalSorter({wagon.name: wagon.requires for wagon in wagons})
    try:
        sorter.prepare()
    except CycleError as error:
        circle = " requires ".join(reversed(error.args[1]))
        raise WagonError(f"these wagons require each other in a circle: {circle}") from None
    return _stable_order(wagons, by_name)


def _not_there(wagon: Wagon, needed: str, names: list[str]) -> str:
    near = get_close_matches(needed, names, n=1)
    suggestion = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(names)}"
    return f"wagon {wagon.name!r} requires {needed!r}, which is not in the train{suggestion}"


def _stable_order(wagons: Sequence[Wagon], by_name: dict[str, Wagon]) -> list[Wagon]:
    ordered: dict[str, Wagon] = {}

    def place(wagon: Wagon) -> None:
        for needed in wagon.requires:
            place(by_name[needed])
        ordered.setdefault(wagon.name, wagon)

    for wagon in wagons:
        place(wagon)
    return list(ordered.values())


def with_required(wagon: Wagon, by_name: Mapping[str, Wagon]) -> tuple[Wagon, ...]:
    """A wagon behind all those that it requires, directly or not."""
    chain: dict[str, Wagon] = {}
    for needed in wagon.requires:
        chain.update({one.name: one for one in with_required(by_name[needed], by_name)})
    chain[wagon.name] = wagon
    return tuple(chain.values())


class OfUser:
    """A wagon around code of the user."""

    @property
    def code(self) -> Any:
        """The class or the function of the user."""
        raise NotImplementedError

    @property
    def variations(self) -> tuple[str, ...]:
        """The names of its variations; none for a wagon that is not varied."""
        return ()


class FunctionWagon(OfUser):
    """A wagon that calls a function with the events, and ``values`` for its further arguments.

    What wagons have as attributes a function may have, too: ``mass.branches = ["Muon_pt"]``.
    """

    def __init__(self, function: FunctionType, values: Mapping[str, object] | None = None) -> None:
        self.function = function
        self.values = dict(values or {})

    @property
    def code(self) -> Any:
        """The function."""
        return self.function

    def process(self, events: Any) -> Any:
        """What the function makes of a chunk of events."""
        return self.function(events, **self.values)

    def __getattr__(self, name: str) -> Any:
        # While it is unpickled it has no function yet.
        if name.startswith("__") or "function" not in vars(self):
            raise AttributeError(name)
        if name == "name":
            return vars(self.function).get("name", self.function.__name__)
        return getattr(self.function, name)


def checked_function(function: FunctionType) -> FunctionWagon:
    """A function as a wagon. Raises WagonError unless it can be called with the events alone."""
    where = inspect.signature(function)
    try:
        where.bind(None)
    except TypeError:
        what = f"the function {function.__name__}{where} cannot be called with the events alone"
        raise WagonError(what, hint="its first argument are the events; give the others defaults") from None
    wagon = FunctionWagon(function)
    if function.__name__ == "<lambda>" and wagon.name == function.__name__:
        raise WagonError("a lambda has no name for its results", hint="write it as a function with def")
    return wagon
