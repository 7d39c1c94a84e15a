"""Functions and classes that all wagons of a process use: a wagon that replaces one is stopped, and it is restored."""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from branchline.errors import WagonError

#: Modules that wagons calculate with. One that is not loaded is looked at once it is.
_MODULES = (
    "builtins",
    "math",
    "cmath",
    "random",
    "copy",
    "time",
    "os",
    "numpy",
    "numpy.linalg",
    "numpy.random",
    "numpy.fft",
    "awkward",
    "hist",
    "boost_histogram",
    "vector",
)
#: Classes of theirs that are written in Python.
_CLASSES = (
    ("awkward", "Array"),
    ("awkward", "Record"),
    ("awkward", "ArrayBuilder"),
    ("hist", "Hist"),
    ("boost_histogram", "Histogram"),
)
#: Methods whose names begin with an underscore, as private names do, which libraries replace themselves.
_OPERATORS = frozenset({"__getitem__", "__getattr__", "__array_ufunc__", "__array_function__", "__add__", "__init__"})


class SharedFunctions:
    """The functions of these modules and classes, as they were when they were seen first."""

    def __init__(self) -> None:
        self._loaded: dict[str, ModuleType] = {}
        self._known: dict[str, tuple[Any, dict[Any, Any]]] = {}
        self.see()

    def see(self) -> None:
        """Take up modules that were loaded since the last call."""
        for name in _MODULES:
            module = sys.modules.get(name)
            if module is None or name in self._loaded:
                continue
            self._loaded[name] = module
            self._known[name] = module, dict(vars(module))
            for kind in (kind for of, kind in _CLASSES if of == name):
                found = vars(module)[kind]
                self._known[f"{name}.{kind}"] = found, dict(vars(found))

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Restore them behind this block. Raises WagonError if it replaced any: it would go on without."""
        try:
            yield
        except BaseException:
            self.restore()
            raise
        if replaced := self.restore():
            what = f"it replaced {', '.join(replaced[:5])}{' ...' if len(replaced) > 5 else ''}, which other wagons use"
            raise WagonError(what, hint="call a function of your own in its place; what was replaced is restored")

    def restore(self) -> list[str]:
        """Put back what was replaced, and return its names."""
        replaced = [name for name, module in self._loaded.items() if sys.modules.get(name) is not module]
        for name in replaced:
            sys.modules[name] = self._loaded[name]
        for label, (owner, known) in self._known.items():
            if not _is_same(vars(owner), known):
                replaced += [f"{label}.{name}" for name in _restored(owner, known)]
        self.see()
        return replaced


def _is_same(now: MutableMapping[Any, Any], known: dict[Any, Any]) -> bool:
    try:
        # A mapping that compares its values by identity first takes a tenth of the time of a loop.
        return now == known
    except Exception:  # noqa: BLE001 - values of users may be compared in any way
        return False


def _restored(owner: Any, known: dict[Any, Any]) -> Iterator[str]:
    """The names that were replaced or deleted; new ones, as of modules that were imported, become known."""
    now = dict(vars(owner))
    for name, value in known.items():
        is_private = name.startswith("_") and name not in _OPERATORS
        if now.get(name) is value or is_private or isinstance(value, ModuleType):
            continue
        setattr(owner, name, value)
        yield name
    known.update({name: value for name, value in vars(owner).items() if name not in known or name.startswith("_")})
