"""Finds the code and the values on which a wagon's result depends.

The wagon's class is followed through the names that its statements use: functions, classes and variables of its own
module and of other modules of the user. A change to one function of a module of helpers therefore affects only the
wagons that use this function.

All of an imported module counts if its names do not tell what its users depend on: if it does more than bind names when
it is imported, or computes names (`ModuleSource.is_plain`). The same applies if used code refers to the module itself,
as in ``getattr(helpers, name)``, or to all loaded modules.

Installed packages are identified by their version, not by their code.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

from branchline.jobs.package_versions import is_new_to_process
from branchline.trains.reuse.canonical import Canonical, UnknownValueError, attributes_of
from branchline.trains.reuse.changes import ORDER, PACKAGE, VALUE
from branchline.trains.reuse.module_finder import OWN_PACKAGE, FoundModule, find_module, imported_by
from branchline.trains.reuse.session_code import definition_of, is_session, values_of, variables_read
from branchline.trains.reuse.source_code import (
    LIST_OF_WAGONS,
    Import,
    ModuleSource,
    Reference,
    files_named,
    imports_in,
    is_definition,
    is_side_effect,
    parameter_of_loader,
    reaches_modules,
    references_in,
    unknown_reads,
)
from branchline.trains.wagons.loaded_files import LoadedFile
from branchline.trains.wagons.wagons import MODULE_PREFIX

_BUILT_IN = "built in"


@dataclass
class _ModuleUse:
    """The part of a module that a wagon uses: names, statements, and names whose values are part of the key. ``is_all``
    is set if all of the module is used.
    """

    source: ModuleSource
    is_all: bool = False
    names: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)
    statements: set[int] = field(default_factory=set)


class WagonCode:
    """All code and values that a wagon uses. ``sources`` has the modules that were already read, by path."""

    def __init__(self, sources: dict[str, ModuleSource], name: str, thing: object) -> None:
        """Find the code of ``thing``, the object of a wagon with a name. Raises UnknownValueError."""
        self._name = name
        self._sources = sources
        self._thing = thing
        self._uses: dict[str, _ModuleUse] = {}
        self._followed: set[tuple[str, Reference]] = set()
        # Packages that are used as a whole, with their submodules.
        self._packages: set[str] = set()
        self._versions: dict[str, str] = {}
        # Descriptions of values, with digests.
        self._values: list[tuple[str, str]] = []
        # Digests of the files that strings name, by string.
        self._files: dict[str, set[str]] = {}
        #: Identities, by path, of the source files of user modules.
        self.modules: dict[str, str] = {}
        #: Identities, by path, of the files that the code reads.
        self.files: dict[str, str] = {}
        self._wanted: list[tuple[ModuleType, str | None, object]] = []
        # Functions and classes of a notebook or an interactive session, their statements, and the variables that these
        # read.
        self._defined: list[object] = []
        self._definitions: list[ast.stmt] = []
        self._variables: set[str] = set()
        # Modules and names of functions that load files for `branchline.loaded`.
        self._loaders: set[tuple[str, str]] = set()
        self._find()

    @property
    def packages(self) -> dict[str, str]:
        """The versions of the installed packages that the code imports. Packages that are not installed have the
        version "missing".
        """
        own = {OWN_PACKAGE, *sys.stdlib_module_names, *sys.builtin_module_names}
        return {name: version for name, version in self._versions.items() if name not in own and version != _BUILT_IN}

    def parts(self) -> dict[str, str]:
        """Return everything that the wagon uses: descriptions for messages, with digests or versions."""
        parts: dict[str, str] = {}

        def add(name: str, value: str) -> None:
            # Modules of files with wagons have a name with a prefix, so two modules may have the same description.
            name = name.replace(MODULE_PREFIX, "")
            parts[name] = _digest([parts[name], value]) if name in parts else value

        for _, use in sorted(self._uses.items()):
            for name, digest in use.source.digests_of(use.statements).items():
                add(name, digest)
            add(f"{ORDER}{use.source.name}", use.source.order_of(use.statements))
        for name, text in sorted((getattr(one, "name", ""), ast.dump(one)) for one in self._definitions):
            add(f"{name} of the notebook", _digest([text]))
        for name, value in sorted(self._values):
            add(name, value)
        for name, version in self._versions.items():
            add(f"{PACKAGE}{name}", version)
        for name, digests in sorted(self._files.items()):
            add(f"file {name}", _digest(sorted(digests)))
        return parts

    def _find(self) -> None:
        self._add_value(type(self._thing).__name__, self._thing, f"the parameters of {self._name}")
        self._use_wanted()
        while self._widen():
            self._use_wanted()
        for use in self._uses.values():
            used = [use.source.statements[index] for index in sorted(use.statements)]
            variables = {} if use.source.module is None else vars(use.source.module)
            self._refuse_reads(os.path.basename(use.source.path), use.source.name, used, variables)
        self._refuse_reads("a cell of the notebook:", "__main__", self._definitions, vars(sys.modules["__main__"]))

    def _use_wanted(self) -> None:
        while self._wanted:
            module, name, value = self._wanted.pop()
            if is_session(module) and name is not None:
                self._use_definition(module, value)
            else:
                self._use(module.__name__, module, name)

    def _widen(self) -> bool:
        """Use more modules as a whole: all if a used statement may reach any name in them, and the submodules of
        packages that are used as a whole. Return whether there were any.
        """
        reaches_all = any(reaches_modules(statement) for statement, _ in self._used())
        below = tuple(f"{one}." for one in self._packages)
        loaded = [name for name in sys.modules.copy() if below and name.startswith(below)]
        names = {*(self._uses if reaches_all else ()), *loaded, *(one for one in self._uses if one.startswith(below))}
        partial = sorted(one for one in names if not (one in self._uses and self._uses[one].is_all))
        # Only modules of the user are in `_uses`, among them a script.
        users = [
            one
            for one in partial
            if one in self._uses or ((found := find_module(one)) is not None and found.is_of_user)
        ]
        for name in users:
            self._use(name, None, None)
        return bool(users)

    def _refuse_reads(self, where: str, module: str, used: Sequence[ast.stmt], variables: Mapping[str, object]) -> None:
        """Raise UnknownValueError if a used statement of a module reads data that the source does not show."""
        values = {**variables, **{f"self.{name}": value for name, value in attributes_of(self._thing).items()}}
        for statement in used:
            is_loader = (module, getattr(statement, "name", "")) in self._loaders
            loaded = parameter_of_loader(statement, module, self._used()) if is_loader else ""
            for what in (
                unknown_reads(statement, self._files, values, values, loaded) if is_definition(statement) else ()
            ):
                raise UnknownValueError(f"{where} {what}")

    def _used(self) -> Iterator[tuple[ast.stmt, Mapping[str, object]]]:
        """Yield all used statements with the variables of their modules."""
        yield from ((one, vars(sys.modules["__main__"])) for one in self._definitions)
        for use in self._uses.values():
            variables = {} if use.source.module is None else vars(use.source.module)
            yield from ((use.source.statements[index], variables) for index in use.statements)

    def _add_value(self, where: str, value: object, name: str = "") -> None:
        canonical = Canonical(lambda module, name, code: self._wanted.append((module, name, code)))
        canonical.add(value, where)
        self.files |= canonical.files
        self._loaders |= canonical.loaders
        self._values.append((name or f"{VALUE}{where}", canonical.hexdigest()))

    def _use_definition(self, session: ModuleType, value: object) -> None:
        """Record that the wagon uses a function or class of a notebook: its statement, and the values of the variables
        in this statement.
        """
        if any(one is value for one in self._defined):
            return
        self._defined.append(value)
        statement = definition_of(value)
        for where, part in values_of(value):
            self._add_value(where, part)
        if any(ast.dump(one) == ast.dump(statement) for one in self._definitions):
            return
        self._definitions.append(statement)
        self._add_files(statement, os.getcwd())
        self._add_imports(statement, "")
        self._follow_imports(statement, "")
        for reference in sorted(references_in(statement)):
            # The value of a variable may be a module, of which the statement uses some names.
            module = vars(session).get(reference[0])
            if isinstance(module, ModuleType):
                self._follow(module.__name__, reference[1:])
        for name in sorted((variables_read(statement) & vars(session).keys()) - self._variables):
            self._variables.add(name)
            value = vars(session)[name]
            if isinstance(value, ModuleType):
                self._values.append((f"module {name}", value.__name__))
            else:
                self._add_value(f"{session.__name__}.{name}", value)

    def _add_files(self, statement: ast.stmt, folder: str) -> None:
        for text, files in files_named(statement, folder).items():
            for file in files:
                self._files.setdefault(text, set()).add(file.digest)
                self.files[file.path] = file.identity

    def _add_imports(self, statement: ast.stmt, package: str) -> None:
        """Record the modules that a statement imports, with the statements that run when they are imported."""
        for imported, may_be_name in imported_by(statement, package):
            found = find_module(imported)
            if found is not None:
                self._import(found)
            elif not may_be_name:
                self._versions[imported] = "missing"

    def _follow_imports(self, statement: ast.stmt, package: str) -> None:
        """Record the names that a statement uses of the modules that it imports itself. If the statement does not
        mention what it imports, as for an import in a class, everything that it imports counts.
        """
        imports = imports_in(statement, package)
        references = references_in(statement)
        is_global = any(isinstance(one, ast.Global) for one in ast.walk(statement))
        for name, targets in sorted(imports.items()):
            used = [one[1:] for one in sorted(references) if one[0] == name]
            rests = used if used and not is_global else [()]
            # Imports at the top of a module count when another statement uses their name.
            if isinstance(statement, ast.Import | ast.ImportFrom) and name != "*":
                continue
            for one in sorted(targets):
                for rest in rests:
                    self._follow_import(one, rest)

    def _follow_import(self, imported: Import, rest: Reference) -> None:
        self._follow(imported.module, (imported.name, *rest) if imported.name else rest)

    def _follow(self, name: str, reference: Reference) -> None:
        """Record that the wagon uses a name of a module, or the whole module if ``reference`` is empty."""
        if (name, reference) in self._followed:
            return
        self._followed.add((name, reference))
        found = find_module(name) if name else None
        if found is None:
            return
        use = self._import(found)
        if use is None and not found.is_folder:
            return
        is_package = use is None or use.source.is_package
        if not reference:
            if is_package:
                self._packages.add(name)
            self._use(name, None, None)
            return
        is_bound = use is not None and reference[0] in use.source.bound
        if use is not None and is_bound and not use.is_all:
            self._add_reference(use, reference, with_values=True)
        submodule = f"{name}.{reference[0]}"
        if is_package and find_module(submodule) is not None:
            self._follow(submodule, reference[1:])
        elif not is_bound:
            # The name may be created when the module runs.
            self._follow(name, ())

    def _add_attributes(self, kind: type) -> None:
        """Add the plain class attributes of a class, which may have changed since its definition, and loaded files."""
        for attribute, one in sorted(vars(kind).items()):
            is_plain = isinstance(one, LoadedFile | int | float | str | list | tuple | dict | set)
            if is_plain and not attribute.startswith("__"):
                self._add_value(f"{kind.__module__}.{kind.__name__}.{attribute}", one)

    def _use(self, name: str, module: ModuleType | None, used: str | None) -> None:
        """Record that the wagon uses a class or function of a module or, if ``used`` is None, the whole module."""
        use = self._module_use(find_module(name) or FoundModule(name, getattr(module, "__file__", None), module))
        if use is None:
            return
        if used is not None:
            self._add_reference(use, (used,), with_values=True)
        elif not use.is_all:
            use.is_all = True
            self._use_all(use)

    def _use_all(self, use: _ModuleUse) -> None:
        """Record that the wagon uses all statements of a module, the values of the variables in its functions and
        classes, and all modules that it imports.
        """
        for name in sorted(use.source.bound):
            self._add_reference(use, (name,), with_values=False)
            value = None if use.source.module is None else vars(use.source.module).get(name)
            if getattr(value, "__module__", None) == use.source.name:
                use.source.check_loaded(name, value)
        for index, statement in enumerate(use.source.statements):
            for imported, _ in imported_by(statement, use.source.package):
                if find_module(imported) is not None:
                    self._use(imported, None, None)
            if index in use.statements and is_definition(statement):
                self._add_references(use, index, with_values=True)

    def _import(self, found: FoundModule) -> _ModuleUse | None:
        """Record that used code imports a module. Return the use of the module if it belongs to the user."""
        use = self._module_use(found)
        if use is not None and not use.is_all and not use.source.is_plain:
            self._use(found.name, None, None)
        return use

    def _module_use(self, found: FoundModule) -> _ModuleUse | None:
        """Return the use of a module that belongs to the user. Of other modules, only the version is recorded."""
        name, path = found.name, found.path
        if found.top == OWN_PACKAGE:
            return None
        if found.is_folder:
            # A namespace package has no code of its own.
            return None
        if found.installed_version is not None:
            self._add_package(found.top, found.installed_version)
            return None
        if path is None or not path.endswith(".py"):
            what = "is compiled" if path and not path.endswith(".pyc") else "has no source"
            raise UnknownValueError(f"module {name} {what} and belongs to no installed package")
        use = self._uses.get(name)
        if use is None:
            if path not in self._sources:
                self._sources[path] = ModuleSource.of(name, path, found.module)
            use = self._uses[name] = _ModuleUse(self._sources[path])
            self.modules[path] = use.source.identity
            is_script = name == "__main__"
            effects = {index for index, one in enumerate(use.source.statements) if is_side_effect(one, is_script)}
            self._add_statements(use, effects, with_values=False)
        return use

    def _add_package(self, top: str, version: str) -> None:
        if top not in self._versions:
            check_loaded(top)
            self._versions[top] = version

    def _add_reference(self, use: _ModuleUse, reference: Reference, *, with_values: bool) -> None:
        """Record that the wagon uses a name of a module, and what the name refers to."""
        name, *rest = reference
        # Ignore the list of wagons, which refers to every wagon of the file. A change to a wagon through the list is
        # visible in the wagon itself.
        if name not in use.source.bound or (name == LIST_OF_WAGONS and not with_values):
            return
        new_value = with_values and name not in use.values
        if name not in use.names or new_value:
            use.names.add(name)
            if new_value:
                use.values.add(name)
                self._add_global(use, name)
            self._add_statements(use, set(use.source.bound[name]), with_values=with_values)
        for one in sorted(use.source.imports.get(name, ())):
            self._follow_import(one, tuple(rest))

    def _add_statements(self, use: _ModuleUse, indices: set[int], *, with_values: bool) -> None:
        for index in sorted(indices):
            statement = use.source.statements[index]
            is_new = index not in use.statements
            use.statements.add(index)
            if is_new:
                self._add_files(statement, os.path.dirname(use.source.path))
                self._add_imports(statement, use.source.package)
                self._follow_imports(statement, use.source.package)
                self._add_values_read(use, index)
            self._add_references(use, index, with_values=with_values)

    def _add_references(self, use: _ModuleUse, index: int, *, with_values: bool) -> None:
        for one in sorted(references_in(use.source.statements[index])):
            self._add_reference(use, one, with_values=with_values)

    def _add_values_read(self, use: _ModuleUse, index: int) -> None:
        """Add values that a module-level statement took from outside the source when it ran, such as from the
        environment.
        """
        statement = use.source.statements[index]
        libraries = {} if use.source.module is None else vars(use.source.module)
        if is_definition(statement) or not any(unknown_reads(statement, self._files, {}, libraries)):
            return
        for name in use.source.names_bound_by(index):
            if use.source.module is None:
                what = f"{name} of module {use.source.name} is not in the source, and the module is not loaded"
                raise UnknownValueError(what)
            if name not in use.values:
                use.values.add(name)
                self._add_global(use, name)

    def _add_global(self, use: _ModuleUse, name: str) -> None:
        """Add the value of a global variable, which may differ from the value in the source."""
        module = use.source.module
        if module is None or name not in vars(module):
            return
        value = vars(module)[name]
        if getattr(value, "__module__", None) == module.__name__:
            use.source.check_loaded(name, value)
        if self._is_of_packages(use, name) or self._is_import(use, name, value):
            return
        if isinstance(value, type) and value.__module__ == module.__name__:
            self._add_attributes(value)
            return
        self._add_value(f"{module.__name__}.{name}", value)

    def _is_of_packages(self, use: _ModuleUse, name: str) -> bool:
        """Return whether a name is imported from an installed package, whose version identifies the value."""
        statements = [use.source.statements[index] for index in use.source.bound[name]]
        if not all(isinstance(one, ast.Import | ast.ImportFrom) for one in statements):
            return False
        imported = [module for one in statements for module, _ in imported_by(one, use.source.package)]
        return bool(imported) and all(one.partition(".")[0] in self._versions for one in imported)

    def _is_import(self, use: _ModuleUse, name: str, value: object) -> bool:
        """Return whether a name still has the value of its import, a module whose used names are recorded instead."""
        imports = use.source.imports.get(name, set())
        full = {f"{one.module}.{one.name}" if one.name else one.module for one in imports}
        return isinstance(value, ModuleType) and full == {value.__name__}


def check_loaded(top: str) -> None:
    """Raise UnknownValueError if the version of a package loaded in this process may differ from the installed
    version.
    """
    if is_new_to_process(top):
        what = f"package {top} was installed after this process started, which may have loaded an earlier version"
        raise UnknownValueError(what)


def _digest(texts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode(errors="surrogatepass")).hexdigest()
