"""The Python files of the user that travel with a train to workers that may not see them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from branchline.base.limits import SHIPPED_MAX_BYTES
from branchline.errors import WagonError
from branchline.jobs.program import ModuleFile, Source
from branchline.trains.reuse.module_finder import user_modules
from branchline.trains.wagons.wagons import Wagon


def load_names(modules: Iterable[ModuleFile]) -> list[ModuleFile]:
    """The modules to load first, with where each lies below the folder that they travel to."""
    return [ModuleFile(one.name, Path(one.path).name) for one in modules]


def sources_of(wagons: Sequence[Wagon], modules: Sequence[ModuleFile]) -> list[Source]:
    """The files of wagons, and of all modules that they need. What is installed stays where it is.

    Raises WagonError if they are too large, and for two files of which workers could import only one.
    """
    found: dict[str, Path] = {}
    for one in user_modules(wagons, modules):
        path = found.setdefault(one.place, one.path)
        if path != one.path:
            what = f"the wagons need both {path} and {one.path}, which workers elsewhere would import as one module"
            raise WagonError(what, hint="give one of them another name")
    sources = [Source(place, path.read_bytes()) for place, path in sorted(found.items())]
    size_bytes = sum(len(one.content) for one in sources)
    if size_bytes > SHIPPED_MAX_BYTES:
        what = f"the modules of the wagons have {size_bytes / 1e6:.0f} MB of Python, too much to send to workers"
        raise WagonError(what, hint="install them where the workers run")
    return sources
