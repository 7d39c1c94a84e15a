"""Loads wagons from a Python file or takes them as objects, checks them, and sorts them so that each runs after the
wagons it requires.

A function of events is also a wagon: ``def mass(events): return histogram``.
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
#: Name under which the results of files without a dataset are stored if a wagon keeps results by dataset.
NO_DATASET = "all"


class Wagon:
    """A user's object with ``process(events)``, and the declarations in its attributes."""

    def __init__(self, thing: Any, name: str | None = None, set_parameters: frozenset[str] = frozenset()) -> None:
        self.thing = thing
        #: False for a wagon that cannot be pickled and therefore cannot be sent to workers.
        self.travels = True
        #: The error that prevents the wagon from running in this process; None if it can run.
        self.error: WagonError | None = None
        #: Names of the parameters that a caller has set.
        self.set_parameters = set_parameters
        own_name = name or getattr(thing, "name", None)
        self.name = own_name if isinstance(own_name, str) and own_name else type(thing).__name__
        self.branches = _names_in(thing, "branches", self.name)
        self.requires = _names_in(thing, "requires", self.name) or ()
        self.by_dataset = bool(getattr(thing, "by_dataset", False))
        self.is_processor = is_coffea_processor(thing)
        self.schema = schema_of(thing)
        if self.gets_array and self.requires:
            what = "is a coffea processor" if self.is_processor else "has a schema of coffea"
            raise WagonError(f"wagon {self.name!r} {what}, so it cannot require other wagons")
        if self.schema is None and not self.is_processor and getattr(thing, "schema", None) is not None:
            what = f"schema of wagon {self.name!r} is {thing.schema!r:.80}, which is not a schema of coffea"
            hint = "use a class of coffea.nanoevents, such as NanoAODSchema, or None"
            raise WagonError(what, hint=install_hint("coffea") or hint)
        if self.schema is not None and self.variations:
            what = f"wagon {self.name!r} has variations and a coffea schema, but events with a schema cannot be varied"
            raise WagonError(what, hint="remove one of the two")

    def __getstate__(self) -> dict[str, object]:
        return vars(self) if self.travels else vars(self) | {"thing": None}

    def bare(self) -> Wagon:
        """Return a copy of the wagon without the user's objects."""
        bare = copy.copy(self)
        bare.thing = bare.schema = None
        return bare

    def failing(self, error: WagonError) -> Wagon:
        """Return a copy of the wagon that raises this error instead of running."""
        failing = copy.copy(self)
        failing.error = error
        return failing

    def set_up(self) -> Wagon:
        """Return the wagon after calling its ``setup()``, if it has a ``setup`` without arguments. Called once per
        worker.

        ``setup`` is called on a copy, since the user's object may be sent to workers again in a later run.
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
        """The user's class or function."""
        return self.thing.code if isinstance(self.thing, OfUser) else type(self.thing)

    @property
    def gets_array(self) -> bool:
        """Whether the wagon's events are passed as an awkward array, as for coffea processors and wagons with a
        schema.
        """
        return self.is_processor or self.schema is not None

    @property
    def variations(self) -> tuple[str, ...]:
        """The names of the wagon's variations; empty if the wagon is not varied."""
        return self.thing.variations if isinstance(self.thing, OfUser) else ()

    def process(self, events: Any) -> Any:
        """Return the output of the user's object for a chunk of events."""
        return self.thing.process(events)

    def for_dataset(self, output: object, dataset: str) -> Any:
        """Prepare an output for being added to the sum. If the wagon keeps results by dataset, return a dict with the
        output under the name of the dataset, otherwise the output itself.
        """
        if not self.by_dataset or output is None:
            return output
        return {dataset or NO_DATASET: output}

    def postprocess(self, accumulator: object) -> Any:
        """Apply the user's ``postprocess`` to the sum of all chunks or, if the wagon keeps results by dataset, to each
        dataset's sum. If there is no ``postprocess``, or if it returns None, the result is the sum itself.
        """
        if self.error is not None:
            raise self.error
        if self.by_dataset and isinstance(accumulator, dict):
            return {dataset: self._finished(total) for dataset, total in accumulator.items()}
        return self._finished(accumulator)

    def _finished(self, accumulator: object) -> object:
        finish = getattr(self.thing, "postprocess", None)
        if finish is None:
            return accumulator
        finished = finish(accumulator)
        return accumulator if finished is None else finished


def _takes_nothing(function: Callable[..., object]) -> bool:
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


def is_coffea_processor(thing: object) -> bool:
    """Return whether an object is a coffea processor. Does not import coffea."""
    return any(
        base.__name__ == "ProcessorABC" and base.__module__.startswith("coffea.") for base in type(thing).__mro__
    )


def schema_of(thing: object) -> Any:
    """Return the coffea schema in a wagon's attribute ``schema``; None if the wagon has no coffea schema."""
    schema = getattr(thing, "schema", None)
    if not inspect.isclass(schema):
        return None
    is_schema = any(base.__name__ == "BaseSchema" and base.__module__.startswith("coffea.") for base in schema.__mro__)
    return schema if is_schema else None


def wagons_of(given: object) -> tuple[list[Wagon], list[ModuleFile]]:
    """Return wagons in the order in which they run, and the modules that a worker must load for the wagons' classes.

    ``given`` is a file, an object or function, or a list of these. Raises WagonError if a wagon cannot be used.
    """
    if isinstance(given, (str, os.PathLike)):
        return load_wagons(os.fspath(given))
    things = list(given) if isinstance(given, Iterable) and not hasattr(given, "process") else [given]
    return in_order([thing if isinstance(thing, Wagon) else _checked(thing) for thing in things]), []


def load_wagons(path: str) -> tuple[list[Wagon], list[ModuleFile]]:
    """Return the wagons of a Python file, and the module that a worker must load for them.

    The wagons are the elements of the list ``wagons`` in the file. Without this list, they are all objects with a
    ``process`` method, and all classes with a ``process`` method that are defined in the file and can be created
    without arguments. ``FILE:NAME`` selects objects or functions of events by name; several names are separated by
    commas.
    """
    before, colon, listed = path.rpartition(":")
    names: list[str] = []
    if colon and before.endswith(".py") and not Path(path).is_file():
        path, names = before, [one.strip() for one in listed.split(",")]
    module, source = _module_of(path)
    wagons = [_named(module, one, path) for one in names] or list(_wagons_in(module, path))
    if not wagons:
        hint = "a wagon is an object with process(events); name a function of events as FILE:NAME"
        raise WagonError("this file contains no wagon", path=path, hint=hint)
    return in_order(wagons), [source]


def load_wagon(path: str, name: str) -> tuple[Wagon, list[Wagon]]:
    """Return the wagon with this name in a Python file, which may be a function of events, and all wagons of the file,
    sorted. Raises WagonError.
    """
    module, _ = _module_of(path)
    by_name = {one.name: one for one in _wagons_in(module, path)}
    wagon = by_name[name] if name in by_name else _named(module, name, path)
    return wagon, in_order(list((by_name | {wagon.name: wagon}).values()))


def _module_of(path: str) -> tuple[ModuleType, ModuleFile]:
    file = Path(path)
    if not file.is_file():
        raise WagonError("no such wagon file", path=path)
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = MODULE_PREFIX + re.sub(r"\W", "_", file.stem)
    try:
        module = load_module(name, str(file.resolve()))
    except KeyboardInterrupt:
        raise
    except SystemExit as error:
        hint = "move script code below: if __name__ == '__main__'"
        raise WagonError(f"{path} cannot be loaded: it calls sys.exit({error.code!r})", path=path, hint=hint) from error
    except BaseException as error:
        what = f"{path} cannot be loaded: {type(error).__name__}: {message_of(error)}"
        raise WagonError(what, path=path, hint=hint_for(error)) from error
    return module, ModuleFile(name, str(file.resolve()))


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


def _could_be_wagon(module: ModuleType, thing: object) -> bool:
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


def _is_wagon(thing: object) -> bool:
    return not inspect.isclass(thing) and not inspect.ismodule(thing) and callable(getattr(thing, "process", None))


def _made(kind: type, path: str) -> object:
    try:
        return kind()
    except TypeError as error:
        raise WagonError(
            f"the wagon class {kind.__name__} cannot be created without arguments: {error}",
            path=path,
            hint="create an object and list it: wagons = [...]",
        ) from error


def _checked(thing: object) -> Wagon:
    if inspect.isclass(thing):
        thing = _made(thing, getattr(sys.modules.get(thing.__module__), "__file__", None) or "")
    if isinstance(thing, FunctionType):
        thing = checked_function(thing)
    if not _is_wagon(thing):
        hint = "a wagon is a function of events, or an object with this method"
        raise WagonError(f"{thing!r} is not a wagon: it has no method process(events)", hint=hint)
    return Wagon(thing)


def _names_in(thing: object, attribute: str, wagon: str) -> tuple[str, ...] | None:
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
    """Sort wagons so that each comes after the wagons it requires, and otherwise in the given order.

    Raises WagonError for duplicate names, for required wagons that are missing, and for cycles.
    """
    by_name: dict[str, Wagon] = {}
    for wagon in wagons:
        if wagon.name in by_name:
            hint = "define functions with def" if wagon.name == "lambda" else "rename one of them"
            raise WagonError(f"two wagons are named {wagon.name!r}", hint=hint)
        by_name[wagon.name] = wagon
    if not by_name:
        raise WagonError("a train needs at least one wagon")
    for wagon in wagons:
        for needed in wagon.requires:
            if needed not in by_name:
                near = get_close_matches(needed, by_name, n=1)
                suggestion = f"; did you mean {near[0]!r}?" if near else f"; choose one of {', '.join(by_name)}"
                what = f"wagon {wagon.name!r} requires {needed!r}, which is not in the train{suggestion}"
                raise WagonError(what)
    sorter = TopologicalSorter({wagon.name: wagon.requires for wagon in wagons})
    try:
        sorter.prepare()
    except CycleError as error:
        circle = " requires ".join(reversed(error.args[1]))
        raise WagonError(f"these wagons require each other in a cycle: {circle}") from None
    return list(dict.fromkeys(one for wagon in wagons for one in with_required(wagon, by_name)))


def with_required(wagon: Wagon, by_name: Mapping[str, Wagon]) -> tuple[Wagon, ...]:
    """Return a wagon, preceded by all wagons that it requires directly or indirectly."""
    chain: dict[str, Wagon] = {}
    for needed in wagon.requires:
        chain.update({one.name: one for one in with_required(by_name[needed], by_name)})
    chain[wagon.name] = wagon
    return tuple(chain.values())


class OfUser:
    """A wagon that wraps the user's code."""

    @property
    def code(self) -> Any:
        """The user's class or function."""
        raise NotImplementedError

    @property
    def variations(self) -> tuple[str, ...]:
        """The names of the wagon's variations; empty if the wagon is not varied."""
        return ()


class FunctionWagon(OfUser):
    """A wagon that calls a function with the events, and with ``values`` for the function's further arguments.

    A function may have the same attributes as a wagon object: ``mass.branches = ["Muon_pt"]``.
    """

    def __init__(self, function: FunctionType, values: Mapping[str, object] | None = None) -> None:
        self.function = function
        self.values = dict(values or {})

    @property
    def code(self) -> Any:
        """The user's function."""
        return self.function

    def process(self, events: object) -> Any:
        """Return the function's output for a chunk of events."""
        return self.function(events, **self.values)

    def __getattr__(self, name: str) -> Any:
        # While the object is being unpickled, it does not have a function yet.
        if name.startswith("__") or "function" not in vars(self):
            raise AttributeError(name)
        if name == "name":
            return vars(self.function).get("name", self.function.__name__.strip("<>"))
        return getattr(self.function, name)


def checked_function(function: FunctionType) -> FunctionWagon:
    """Wrap a function as a wagon. Raises WagonError unless the function can be called with the events as its only
    argument.
    """
    where = inspect.signature(function)
    try:
        where.bind(None)
    except TypeError:
        what = f"the function {function.__name__}{where} cannot be called with only the events"
        raise WagonError(what, hint="its first argument must be the events, and all others need defaults") from None
    return FunctionWagon(function)
