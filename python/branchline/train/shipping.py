"""The Python files of the user that travel with a train to workers that may not see them."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from branchline.errors import WagonError
from branchline.jobs import Source
from branchline.limits import SHIPPED_MAX_BYTES
from branchline.train.source_code import parsed
from branchline.train.wagons import Wagon

_INSTALLED = ("site-packages", "dist-packages")


def load_names(modules: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The modules to load first, with where each lies below the folder that they travel to."""
    return [(name, Path(path).name) for name, path in modules]


def sources_of(wagons: Sequence[Wagon], modules: Sequence[tuple[str, str]]) -> list[Source]:
    """The files of wagons, and of all modules that they import, directly or not.

    What is installed stays where it is: workers have packages of their own. Raises WagonError if it is too much.
    """
    found = {Path(path).name: Path(path) for _, path in modules}
    to_read = [(name, Path(path)) for name, path in modules]
    names = dict.fromkeys(type(one.thing).__module__ for one in wagons)
    while names or to_read:
        for name in names:
            for module, path in _with_parents(name):
                if _place_of(module, path) not in found and path not in found.values():
                    found[_place_of(module, path)] = path
                    to_read.append((module, path))
        names = dict.fromkeys(_imports(*to_read.pop())) if to_read else {}
    sources = [Source(place, path.read_bytes()) for place, path in sorted(found.items())]
    size_bytes = sum(len(one.content) for one in sources)
    if size_bytes > SHIPPED_MAX_BYTES:
        what = f"the modules of the wagons have {size_bytes / 1e6:.0f} MB of Python, too much to send to workers"
        raise WagonError(what, hint="install them where the workers run")
    return sources


def _imports(name: str, path: Path) -> Iterator[str]:
    """What a file imports anywhere, as names of modules; some may be those of what is in one."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(parsed(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(part for part in (above, node.module) if part)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _with_parents(name: str) -> Iterator[tuple[str, Path]]:
    """A module and the packages that it is in, where they are files of Python that are not installed."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        module = ".".join(parts[:count])
        if parts[0] in sys.stdlib_module_names or parts[0] in ("__main__", "branchline"):
            return
        path = _path_of(module)
        if path is None:
            # A folder without __init__.py is a package, too.
            continue
        if any(part in _INSTALLED for part in path.parts) or path.suffix != ".py":
            return
        yield module, path


def _path_of(module: str) -> Path | None:
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None and module not in sys.modules:
        with suppress(ImportError, ValueError, AttributeError):
            spec = importlib.util.find_spec(module)
            file = spec.origin if spec is not None and spec.has_location else None
    return Path(file).resolve() if isinstance(file, str) else None


def _place_of(name: str, path: Path) -> str:
    """Where a module lies below the folder of ``sys.path`` that it was found in."""
    parts = name.split(".")
    if path.name == "__init__.py":
        return "/".join([*parts, "__init__.py"])
    return "/".join([*parts[:-1], path.name])
