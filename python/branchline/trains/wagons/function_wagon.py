"""A function of events as a wagon: ``def mass(events): return histogram``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from branchline.errors import WagonError


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
