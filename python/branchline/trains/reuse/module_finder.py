"""Finds modules without running them, and says which are the user's: what travels to workers, what a submitted train
keeps, and what the keys of results depend on, by the same rules.

A module is the user's if it is a file of Python that belongs to no installed package. Workers have packages of their
own, and the version of a package says what is in it.
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
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import cloudpickle

from branchline.base.limits import FILES_PARSED_KEPT
from branchline.jobs.package_versions import version_of
from branchline.jobs.program import ModuleFile, is_installed
from branchline.trains.wagons.wagons import Wagon

OWN_PACKAGE = "branchline"
_MAIN = "__main__"

# Python 3.11 counts the depth of a syntax tree for all threads together: two that parse at once may fail (SystemError).
_PARSING = threading.Lock()


def parsed(content: bytes) -> ast.Module:
    """The syntax tree of a file. Raises SyntaxError and ValueError."""
    with _PARSING:
        return ast.parse(content)


@dataclass(frozen=True)
class FoundModule:
    """A module: loaded already, or only found. ``path`` is None for what is built into Python, and for folders without
    ``__init__.py``, which are packages too.
    """

    name: str
    path: str | None
    module: ModuleType | None = None
    is_folder: bool = False

    @property
    def top(self) -> str:
        """The package that it is in, or its own name."""
        return self.name.partition(".")[0]

    @cached_property
    def installed_version(self) -> str | None:
        """The version of the installed package that it belongs to, None if it belongs to none."""
        if self.is_folder or not is_installed(self.path):
            return None
        # A file that lies among installed packages and belongs to none was put there by the user.
        return version_of(self.top) or ("built in" if self.path is None else None)

    @property
    def is_of_user(self) -> bool:
        """Whether it is a file of Python of the user. The script that was started is not: it is no module to import."""
        if self.path is None or not self.path.endswith(".py") or self.top in (OWN_PACKAGE, _MAIN):
            return False
        return self.installed_version is None


def find_module(name: str) -> FoundModule | None:
    """A module by its name, without running it or the packages that it is in; None if there is none."""
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
    """Asks the finders of this process, as an import does: packages that are installed to be edited have their own."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        if find is None or finder in (importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter):
            continue
        # A finder of somebody else may raise anything.
        with suppress(Exception):
            spec = find(name, None if search is None else list(search), None)
            if isinstance(spec, importlib.machinery.ModuleSpec):
                return spec
    return None


def imported_by(statement: ast.AST, package: str) -> Iterator[tuple[str, bool]]:
    """The modules that the imports in a statement name; True with those that may be names in a module instead."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from ((one, False) for one in _with_packages(alias.name))
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            yield from ((one, False) for one in _with_packages(base))
            yield from ((f"{base}.{alias.name}", True) for alias in node.names if alias.name != "*")


@lru_cache(maxsize=FILES_PARSED_KEPT)
def imported_by_file(content: bytes, package: str) -> tuple[str, ...]:
    """The modules that a file imports anywhere, as ``imported_by`` names them. Trains run often in a notebook,
    and few of their files change. Raises SyntaxError and ValueError.
    """
    return tuple(dict.fromkeys(name for name, _ in imported_by(parsed(content), package)))


def package_of(name: str, path: str) -> str:
    """The package that relative imports of a module start from."""
    return name if Path(path).name == "__init__.py" else name.rpartition(".")[0]


def _with_packages(name: str) -> Iterator[str]:
    """The packages that a module is in, from the outermost, and the module."""
    parts = name.split(".")
    if parts[0]:
        yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


@dataclass(frozen=True)
class UserModule:
    """A module of the user: its name, its file, and where that lies below the folder that Python found it in."""

    name: str
    path: Path
    place: str

    @classmethod
    def of(cls, found: FoundModule) -> UserModule:
        """That of a module that was found."""
        path = Path(found.path or "").resolve()
        parts = found.name.split(".")
        return cls(found.name, path, "/".join([*(parts if path.name == "__init__.py" else parts[:-1]), path.name]))


def user_modules(wagons: Sequence[Wagon], loaded: Sequence[ModuleFile]) -> list[UserModule]:
    """All modules of the user that wagons need, by their names.

    These are the files that were loaded for them (``loaded``), the modules of all classes,
    functions and modules that the wagons hold, what of the same folders is loaded by now, since names of modules may be
    computed, and all that any of these import, anywhere in their files.
    """
    found = {one.name: UserModule(one.name, Path(one.path), Path(one.path).name) for one in loaded}
    unread = list(found.values())

    def add(names: Iterable[str]) -> None:
        for name in names:
            one = find_module(name) if name not in found else None
            # A file inside of an archive can neither be sent nor kept by itself.
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
    # A copy is made at once; a list of items may be broken by an import that the garbage collector causes.
    for name, module in sys.modules.copy().items():
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.endswith(".py"):
            yield name, _resolved(path)


@cache
def _resolved(path: str) -> str:
    """The file of a loaded module. Programs have some thousand, and notebooks run trains again and again."""
    return os.path.realpath(path)


def _imports(module: UserModule) -> Sequence[str]:
    """What a file imports anywhere. One that does not parse imports nothing: Python says so where it is imported."""
    try:
        return imported_by_file(module.path.read_bytes(), package_of(module.name, str(module.path)))
    except (OSError, SyntaxError, ValueError):
        return ()


def _held_by(wagons: Sequence[Wagon]) -> set[str]:
    """The names of the modules that objects refer to when they are pickled."""
    pickler = _ReferencesPickler()
    # What cannot be pickled is reported where the wagons are sent.
    with suppress(Exception):
        pickler.dump([one.thing for one in wagons])
    return pickler.modules | {one.code.__module__ for one in wagons}


class _Nowhere:
    """Takes what a pickler writes and keeps nothing."""

    def write(self, content: bytes) -> int:
        return len(content)


class _ReferencesPickler(cloudpickle.Pickler):
    """Notes the modules of classes and functions, and what functions of a script or notebook import when they run:
    these travel as they are, without a file.
    """

    def __init__(self) -> None:
        super().__init__(_Nowhere())
        self.modules: set[str] = set()

    def reducer_override(self, obj: object) -> object:
        """Is called for every object that is not a number, a text or a plain container."""
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
