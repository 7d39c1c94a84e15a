"""Checks whether a wagon can be sent to worker processes, and finds the attribute that cannot be pickled."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from types import FunctionType

from branchline.base.texts import message_of
from branchline.errors import WagonError
from branchline.trains.subjobs.share_result import CannotPickleError, pickled_bytes
from branchline.trains.wagons.variations import VariedWagon
from branchline.trains.wagons.wagons import FunctionWagon, Wagon

#: Maximum depth of the search for the attribute. The limit also ends cycles of references.
_DEPTH_MAX = 12

HINT = "load it with branchline.loaded(LOADER, FILE), or create it in setup(), which each worker calls once"


def pickling_error(wagon: Wagon) -> WagonError | None:
    """Return an error that names the attribute that prevents pickling of a wagon; None if the wagon can be pickled.

    Also sets the wagon's attribute ``travels``, which says whether the wagon can be pickled. If it cannot, the wagon is
    sent without the user's object and does not run.
    """
    wagon.travels = True
    error = _error_of(wagon)
    if error is None:
        return None
    wagon.travels = False
    thing = wagon.thing
    while isinstance(thing, VariedWagon):
        thing = thing.thing
    if isinstance(thing, FunctionWagon):
        thing = thing.function
    path, kind = _culprit(thing, wagon.name, _DEPTH_MAX)
    return WagonError(f"cannot be sent to workers: {path} is a {kind}, which cannot be pickled ({error})", hint=HINT)


def _error_of(value: object) -> str | None:
    try:
        pickled_bytes(value)
    except CannotPickleError as error:
        return message_of(error.__cause__ or error)
    return None


def _culprit(value: object, path: str, depth: int) -> tuple[str, str]:
    """Return the path and the type of the innermost part of a value that cannot be pickled."""
    for name, part in _parts(value) if depth else ():
        if _error_of(part) is not None:
            return _culprit(part, path + name, depth - 1)
    kind = type(value)
    return path, kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """Yield (suffix, part) for each part of a value that is pickled with the value. The suffix, such as ``.name``,
    selects the part in a Python expression.
    """
    if isinstance(value, Mapping):
        yield from ((f"[{key!r:.40}]", one) for key, one in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{index}]", one) for index, one in enumerate(value))
    if isinstance(value, FunctionType):
        used = inspect.getclosurevars(value)
        yield from ((f".{name}", one) for name, one in {**used.nonlocals, **used.globals}.items())
        return
    if isinstance(value, type):
        yield from ((f".{name}", one) for name, one in vars(value).items())
        return
    state = getattr(value, "__dict__", {})
    yield from ((f".{name}", one) for name, one in state.items())
    slots = (name for base in type(value).__mro__ for name in getattr(base, "__slots__", ()))
    yield from ((f".{name}", getattr(value, name)) for name in slots if name not in state and hasattr(value, name))
    if "__dict__" not in type(value).__dict__ and type(value).__module__ == "__main__":
        yield from ((f".{name}", one) for name, one in vars(type(value)).items() if isinstance(one, FunctionType))
