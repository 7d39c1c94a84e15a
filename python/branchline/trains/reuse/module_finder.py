"""Finds modules without running them, and determines which modules belong to the user. The same rules decide which
modules are sent to workers, stored with a submitted train, and covered by cache keys.

A module belongs to the user if it is a Python file outside of all installed packages. Workers use the packages
installed on their machine, which are identified by version.
"""

from __future__ import annotations

import ast
import dis
import importlib.machinery
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import cloudpickle

from branchline.base.limits import FILES_PARSED_KEPT
from branchline.jobs.package_versions import version_of
from branchline.jobs.program import ModuleFile
from branchline.jobs.user_modules import is_installed
from branchline.trains.wagons.wagons import Wagon

OWN_PACKAGE = "branchline"
_MAIN = "__main__"

# Parse in one thread at a time: Python 3.11 counts the depth of syntax trees across threads, so parsing in two threads
# may fail (SystemError).
_PARSING = threading.Lock()


def parsed(content: bytes) -> ast.Module:
    """Parse the content of a file. Raises SyntaxError and ValueError."""
    with _PARSING:
        return ast.parse(content)


@dataclass(frozen=True)
class FoundModule:
    """A module, which may or may not be loaded. ``path`` is None for built-in modules, and for namespace packages
    (folders without ``__init__.py``).
    """

    name: str
    path: str | None
    module: ModuleType | None = None
    is_folder: bool = False

    @property
    def top(self) -> str:
        """The name of the module's top-level package, or of the module if it is in no package."""
        return self.name.partition(".")[0]

    @cached_property
    def installed_version(self) -> str | None:
        """The version of the installed package that contains the module; None if no installed package does."""
        if self.is_folder or not is_installed(self.path):
            return None
        # A file in the folder of installed packages that does not belong to any of them is the user's.
        return version_of(self.top) or ("built in" if self.path is None else None)

    @property
    def is_of_user(self) -> bool:
        """Whether the module is a Python file of the user. False for the script that was started, since it cannot be
        imported.
        """
        if self.path is None or not self.path.endswith(".py") or self.top in (OWN_PACKAGE, _MAIN):
            return False
        return self.installed_version is None


def find_module(name: str) -> FoundModule | None:
    """Find a module by name without running the module or its packages; None if the module does not exist."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        path = getattr(loaded, "__file__", None)
        is_folder = path is None and hasattr(loaded, "__path__")
        return FoundModule(name, None if path is None else str(path), loaded, is_folder)
    search: Sequence[str] | None = None
    spec = None
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        full = ".".join(parts[:count])
        if full in sys.builtin_module_names:
            return FoundModule(full, None)
        above = sys.modules.get(full)
        if above is not None:
            search = getattr(above, "__path__", None)
        else:
            spec = _spec_of(full, search)
            search = None if spec is None else spec.submodule_search_locations
        if search is None and count < len(parts):
            return None
    if spec is None:
        return None
    if spec.has_location:
        return FoundModule(name, spec.origin)
    return FoundModule(name, None, is_folder=spec.submodule_search_locations is not None)


def _spec_of(name: str, search: Sequence[str] | None) -> importlib.machinery.ModuleSpec | None:
    """Find a module with the finders of this process, as an import would, including those of editable installations."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        if find is None or finder in (importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter):
            continue
        # Third-party finders may raise anything.
        with suppress(Exception):
            spec = find(name, None if search is None else list(search), None)
            if isinstance(spec, importlib.machinery.ModuleSpec):
                return spec
    return None


def imported_by(statement: ast.AST, package: str) -> Iterator[tuple[str, bool]]:
    """Yield the names of the modules that a statement imports, each with a flag. The flag is True if the name may be an
    attribute of a module instead of a module.
    """
    for node in ast.walk(statement):
        if isinstance(node, ast.Import):
            for alias in node.names:
                for name in _with_packages(alias.name):
                    yield name, False
        elif isinstance(node, ast.ImportFrom):
            base = base_of(node, package)
            for name in _with_packages(base):
                yield name, False
            for alias in node.names:
                if alias.name != "*":
                    yield f"{base}.{alias.name}", True


def base_of(statement: ast.ImportFrom, package: str) -> str:
    """Return the name of the module from which a statement in a module of ``package`` imports names."""
    base = statement.module or ""
    if not statement.level:
        return base
    parts = package.split(".")
    above = parts[: len(parts) - statement.level + 1]
    return ".".join([*above, *([base] if base else [])])


@lru_cache(maxsize=FILES_PARSED_KEPT)
def imported_by_file(content: bytes, package: str) -> tuple[str, ...]:
    """Return the names of all modules that a file imports, as yielded by ``imported_by``.

    Results are cached, because notebooks run many trains and few of their files change. Raises SyntaxError and
    ValueError.
    """
    return tuple(dict.fromkeys(name for name, _ in imported_by(parsed(content), package)))


def package_of(name: str, path: str) -> str:
    """Return the package to which relative imports in a module refer."""
    return name if Path(path).name == "__init__.py" else name.rpartition(".")[0]


def _with_packages(name: str) -> list[str]:
    """Return the names of the packages that contain a module, outermost first, followed by the name of the module."""
    # A relative import in a module without a package has no absolute name.
    return [] if name[:1] in ("", ".") else list(accumulate(name.split("."), "{}.{}".format))


@dataclass(frozen=True)
class UserModule:
    """A module of the user: its name, its file, and the file's path relative to the folder from which it is
    imported.
    """

    name: str
    path: Path
    place: str

    @classmethod
    def of(cls, found: FoundModule) -> UserModule:
        """Convert a found module to a user module."""
        path = Path(found.path or "").resolve()
        parts = found.name.split(".")
        return cls(found.name, path, "/".join([*(parts if path.name == "__init__.py" else parts[:-1]), path.name]))


def user_modules(wagons: Sequence[Wagon], loaded: Sequence[ModuleFile]) -> list[UserModule]:
    """Return all user modules that wagons need, sorted by name.

    These modules are:

    - the files in ``loaded``
    - the modules of all classes, functions and modules to which the wagons refer
    - other loaded modules in the same folders, since module names may be computed
    - all modules that any of these modules import
    """
    found = {one.name: UserModule(one.name, Path(one.path), Path(one.path).name) for one in loaded}
    unread = list(found.values())
    # Look up each name only once, since most names are imported by several files.
    looked_up = set(found)

    def add(names: Iterable[str]) -> None:
        for name in names:
            if name in looked_up:
                continue
            looked_up.add(name)
            one = find_module(name)
            # A file inside an archive can be neither sent nor stored separately.
            if one is not None and one.is_of_user and Path(one.path or "").is_file():
                found[name] = UserModule.of(one)
                unread.append(found[name])

    add(part for name in _held_by(wagons) for part in _with_packages(name))
    below = tuple({f"{one.path.parent}{os.sep}" for one in found.values()})
    add(name for name, path in (_loaded_files() if below else ()) if path.startswith(below))
    while unread:
        add(_imports(unread.pop()))
    return sorted(found.values(), key=lambda one: one.name)


def _loaded_files() -> Iterator[tuple[str, str]]:
    # Copy the dict atomically: an import triggered by the garbage collector could change it during iteration.
    for name, module in sys.modules.copy().items():
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.endswith(".py"):
            yield name, _real_path(path)


# Cached, because thousands of modules are loaded and notebooks run many trains.
_real_path = cache(os.path.realpath)


def _imports(module: UserModule) -> Sequence[str]:
    """Return the names of all modules that a file imports. Empty if the file cannot be parsed: Python reports the error
    when the file is imported.
    """
    try:
        return imported_by_file(module.path.read_bytes(), package_of(module.name, str(module.path)))
    except (OSError, SyntaxError, ValueError):
        return ()


def _held_by(wagons: Sequence[Wagon]) -> set[str]:
    """Return the names of the modules to which the wagons refer when they are pickled."""
    pickler = _ReferencesPickler()
    # Ignore pickling errors, which are reported when the wagons are sent.
    with suppress(Exception):
        pickler.dump([one.thing for one in wagons])
    return pickler.modules | {one.code.__module__ for one in wagons}


class _Nowhere:
    """A file object that discards everything written to it."""

    def write(self, content: bytes) -> int:
        return len(content)


class _ReferencesPickler(cloudpickle.Pickler):
    """Records the modules of classes and functions that are pickled.

    Functions of a script or notebook are pickled by value. For these, also records the modules that they import when
    they run.
    """

    def __init__(self) -> None:
        super().__init__(_Nowhere())
        self.modules: set[str] = set()

    def reducer_override(self, obj: object) -> object:
        """Record the module of an object. Called for every object except numbers, strings and plain containers."""
        if isinstance(obj, ModuleType):
            self.modules.add(obj.__name__)
        elif isinstance(obj, type | FunctionType) and isinstance(obj.__module__, str):
            self.modules.add(obj.__module__)
        if isinstance(obj, FunctionType) and obj.__module__ == _MAIN:
            self.modules.update(_imported_by_code(obj.__code__))
        return super().reducer_override(obj)


def _imported_by_code(code: CodeType) -> Iterator[str]:
    name = ""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            name = str(instruction.argval)
            yield name
        elif instruction.opname == "IMPORT_FROM":
            yield f"{name}.{instruction.argval}"
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _imported_by_code(one)
