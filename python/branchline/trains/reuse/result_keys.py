"""Computes the cache keys of results. A key is a hash of everything on which a wagon's result for a sub-job depends.

Results with the same key are identical. If a dependency cannot be determined, the wagon has no key, its results are not
cached, and the reason is recorded.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

from branchline.jobs.package_versions import INTERPRETER, is_new_to_process, version_text
from branchline.reading.datasets.data_file import Companion, DataFile
from branchline.reading.datasets.identity import is_checksum
from branchline.reading.locations import is_url
from branchline.trains.reuse.canonical import Canonical, UnknownValueError, attributes_of
from branchline.trains.reuse.module_finder import OWN_PACKAGE, FoundModule, find_module, imported_by, package_of
from branchline.trains.reuse.session_code import definition_of, is_session, values_of, variables_read
from branchline.trains.reuse.source_code import (
    LIST_OF_WAGONS,
    ModuleSource,
    files_named,
    is_definition,
    is_side_effect,
    names_in,
    parameter_of_loader,
    unknown_reads,
)
from branchline.trains.subjobs.shares import Share
from branchline.trains.subjobs.used_inputs import PlannedCode, identities_of
from branchline.trains.wagons.loaded_files import LoadedFile
from branchline.trains.wagons.wagons import Wagon

#: Version of the results. It is incremented when Branchline computes different results from the same wagons and files,
#: for example because it adds them in a different order, or when the classes of pickled results move to other modules.
RESULT_VERSION = 6
_PACKAGES_OF_RESULTS = ("numpy", "awkward", "boost-histogram", "hist")
_MODULES_OF_RESULTS = ("numpy", "awkward", "boost_histogram", "hist")
_BUILT_IN = "built in"


@dataclass(frozen=True)
class WagonKey:
    """The key of a wagon, independent of the dataset. If ``key`` is None, ``unknown`` is the reason.

    The key depends on the versions of ``packages``, the user's source files ``modules``, and the ``files`` that the
    code reads. ``modules`` and ``files`` map paths to the files' identities when the key was created.
    """

    key: str | None
    unknown: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


def planned_code(keys: Iterable[WagonKey], *, ships_modules: bool) -> PlannedCode:
    """Return the code that the wagons' keys cover, so that workers can compare it with the code on their machine. With
    ``ships_modules``, user modules are left out, because workers get copies of them.
    """
    keys = tuple(keys)
    files = [one.files if ships_modules else {**one.modules, **one.files} for one in keys if one.key is not None]
    return PlannedCode(_joined(one.packages for one in keys), _joined(files))


class WagonKeys:
    """The keys of a train's wagons, by name."""

    def __init__(self, wagons: Sequence[Wagon]) -> None:
        self._sources: dict[str, ModuleSource] = {}
        self.by_name: dict[str, WagonKey] = {}
        for wagon in wagons:
            self.by_name[wagon.name] = self._key_of(wagon)

    def __getitem__(self, name: str) -> WagonKey:
        return self.by_name[name]

    def _key_of(self, wagon: Wagon) -> WagonKey:
        # Results always depend on the versions of these packages.
        packages = {name: version_text(name) for name in (INTERPRETER, OWN_PACKAGE, *_PACKAGES_OF_RESULTS)}
        required: dict[str, str | None] = {name: self.by_name[name].key for name in wagon.requires}
        missing = [name for name, key in required.items() if key is None]
        if missing:
            return WagonKey(None, f"it requires wagon {missing[0]}, whose results cannot be reused", packages)
        used = _CodeUsed(self._sources, wagon.thing)
        try:
            for name in _MODULES_OF_RESULTS:
                _check_loaded(name)
            code = used.content()
        except UnknownValueError as error:
            return WagonKey(None, str(error), packages)
        content = {"version": RESULT_VERSION, "code": code, "requires": required, "versions": packages}
        key = _digest(content | {"branches": sorted(wagon.branches or ())})
        above = [self.by_name[name] for name in wagon.requires]
        return WagonKey(
            key,
            packages=_joined(one.packages for one in above) | used.packages | packages,
            modules=_joined(one.modules for one in above) | used.modules,
            files=_joined(one.files for one in above) | used.files,
        )


@dataclass
class _ModuleUse:
    """The part of a module that a wagon uses: names, statements, and names whose values are part of the key."""

    source: ModuleSource
    is_all: bool = False
    names: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)
    statements: set[int] = field(default_factory=set)


class _CodeUsed:
    """Finds all code and values that a wagon uses, by following classes, functions, globals and imports."""

    def __init__(self, sources: dict[str, ModuleSource], thing: object) -> None:
        self._sources = sources
        self._thing = thing
        self._uses: dict[str, _ModuleUse] = {}
        self._versions: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self._files: dict[str, str] = {}
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

    @property
    def packages(self) -> dict[str, str]:
        """The versions of the installed packages that the code imports. Packages that are not installed have the
        version "missing".
        """
        own = {OWN_PACKAGE, *sys.stdlib_module_names, *sys.builtin_module_names}
        return {name: version for name, version in self._versions.items() if name not in own and version != _BUILT_IN}

    def content(self) -> dict[str, object]:
        """Return digests of all code and values that the wagon uses, by name, as values for JSON. Raises
        UnknownValueError.
        """
        self._add_value(type(self._thing).__name__, self._thing)
        while self._wanted:
            module, name, value = self._wanted.pop()
            if is_session(module) and name is not None:
                self._use_definition(module, value)
            else:
                self._use(module.__name__, module, name)
        for use in self._uses.values():
            used = [use.source.statements[index] for index in sorted(use.statements)]
            variables = {} if use.source.module is None else vars(use.source.module)
            self._refuse_reads(os.path.basename(use.source.path), use.source.name, used, variables)
        self._refuse_reads("a cell of the notebook:", "__main__", self._definitions, vars(sys.modules["__main__"]))
        code = {name: use.source.digest_of(use.statements) for name, use in self._uses.items()}
        if self._definitions:
            code["__main__"] = "".join(sorted(ast.dump(one, annotate_fields=False) for one in self._definitions))
        return {"code": code, "values": self._values, "versions": self._versions, "files": self._files}

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
        self._values[name or where] = canonical.hexdigest()

    def _use_definition(self, session: ModuleType, value: object) -> None:
        """Record that the wagon uses a function or class of a notebook: its statement, and the values of the variables
        in this statement.
        """
        if any(one is value for one in self._defined):
            return
        self._defined.append(value)
        statement = definition_of(value)
        for where, part in values_of(value):
            # Several functions may have the same name, such as those that a decorator returns.
            self._add_value(where, part, f"{where} of definition {len(self._defined)}, value {len(self._values)}")
        if any(ast.dump(one) == ast.dump(statement) for one in self._definitions):
            return
        self._definitions.append(statement)
        self._add_files(statement, os.getcwd())
        self._add_imports(statement, "")
        for name in sorted((variables_read(statement) & vars(session).keys()) - self._variables):
            self._variables.add(name)
            self._add_value(f"{session.__name__}.{name}", vars(session)[name])

    def _add_files(self, statement: ast.stmt, folder: str) -> None:
        for text, file in files_named(statement, folder).items():
            self._files[text] = file.digest
            self.files[file.path] = file.identity

    def _add_imports(self, statement: ast.stmt, package: str) -> None:
        for imported, may_be_name in imported_by(statement, package):
            found = find_module(imported)
            if found is not None:
                self._use(imported, found.module, None)
            elif not may_be_name:
                self._versions[imported] = "missing"

    def _add_attributes(self, kind: type) -> None:
        """Add the plain class attributes of a class, which may have changed since its definition, and loaded files."""
        for attribute, one in sorted(vars(kind).items()):
            is_plain = isinstance(one, LoadedFile | int | float | str | list | tuple | dict | set)
            if is_plain and not attribute.startswith("__"):
                self._add_value(f"{kind.__module__}.{kind.__name__}.{attribute}", one)

    def _use(self, name: str, module: ModuleType | None, used: str | None) -> None:
        """Record that the wagon uses a class or function of a module or, if ``used`` is None, the whole module."""
        found = find_module(name) or FoundModule(name, getattr(module, "__file__", None), module)
        path = found.path
        if found.top == OWN_PACKAGE:
            self._versions[OWN_PACKAGE] = str(RESULT_VERSION)
            return
        if found.is_folder:
            # A namespace package has no code of its own.
            return
        if found.installed_version is not None:
            self._add_package(found.top, found.installed_version)
            return
        if path is None or not path.endswith(".py"):
            what = "is compiled" if path and not path.endswith(".pyc") else "has no source"
            raise UnknownValueError(f"module {name} {what} and belongs to no installed package")
        use = self._uses.get(name)
        if use is None:
            if path not in self._sources:
                self._sources[path] = ModuleSource.of(name, path, module)
            use = self._uses[name] = _ModuleUse(self._sources[path])
            self.modules[path] = use.source.identity
            is_script = name == "__main__"
            effects = {index for index, one in enumerate(use.source.statements) if is_side_effect(one, is_script)}
            self._add_statements(use, effects, with_values=False)
        if used is None and not use.is_all:
            use.is_all = True
            self._add_names(use, set(use.source.bound), with_values=False)
            for index in sorted(use.statements):
                if is_definition(use.source.statements[index]):
                    self._add_names(use, names_in(use.source.statements[index]), with_values=True)
        if used is not None:
            self._add_names(use, {used}, with_values=True)

    def _add_package(self, top: str, version: str) -> None:
        if top not in self._versions:
            _check_loaded(top)
            self._versions[top] = version

    def _add_names(self, use: _ModuleUse, names: set[str], *, with_values: bool) -> None:
        # Ignore the list of wagons, which refers to every wagon of the file. A change to a wagon through the list is
        # visible in the wagon itself.
        ignored = set() if with_values else {LIST_OF_WAGONS}
        for name in sorted((names & set(use.source.bound)) - ignored):
            new_value = with_values and name not in use.values
            if name in use.names and not new_value:
                continue
            use.names.add(name)
            if new_value:
                use.values.add(name)
                self._add_global(use, name)
            self._add_statements(use, set(use.source.bound[name]), with_values=with_values)

    def _add_statements(self, use: _ModuleUse, indices: set[int], *, with_values: bool) -> None:
        for index in sorted(indices):
            statement = use.source.statements[index]
            is_new = index not in use.statements
            use.statements.add(index)
            if is_new:
                self._add_files(statement, os.path.dirname(use.source.path))
                self._add_imports(statement, package_of(use.source.name, use.source.path))
                self._add_values_read(use, index)
            self._add_names(use, names_in(statement), with_values=with_values)

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
        if self._is_of_packages(use, name):
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
        imported = [module for one in statements for module, _ in imported_by(one, use.source.name)]
        return bool(imported) and all(one.partition(".")[0] in self._versions for one in imported)


class ShareKeys:
    """Computes the keys of shares. A key covers the files and entries that are read, and how they are split into
    chunks.

    ``skipping`` are the branches that decide which files are skipped; None if no files are skipped. The keys also cover
    ``skipping`` and the ``seed`` of random numbers.
    """

    def __init__(self, skipping: Sequence[str] | None, seed: int = 0) -> None:
        self._skipping = skipping
        self._seed = seed

    def key_of(self, share: Share, step: int | None, identities: Mapping[str, str] | None = None) -> str:
        """Return the key of a share that is read in chunks of ``step`` entries. ``step`` is None for data that do not
        depend on chunks. ``identities`` are the identities of the share's local files and companions, by default the
        current ones.

        Raises UnknownValueError for a file whose changes cannot be detected.
        """
        known = identities_of(share.files) if identities is None else identities
        content = {
            "files": [_file_content(one, known) for one in share.files],
            "part": [share.part, share.parts],
            "learns": share.learn,
            "chunk entries": share.chunk_entries,
            "step": step,
            "seed": self._seed,
            "skipping": None if self._skipping is None else sorted(self._skipping),
        }
        return _digest(content)


def result_key(wagon: str, share: str) -> bytes:
    """Return the key of a wagon's result for a share, from the keys of the wagon and of the share."""
    return hashlib.sha256(f"result {wagon} {share}".encode()).digest()


def other_key(what: str, *parts: object) -> bytes:
    """Return the key of cached data that are not results of wagons."""
    return hashlib.sha256(json.dumps([what, *parts], sort_keys=True).encode()).digest()


def _file_content(one: DataFile, identities: Mapping[str, str]) -> dict[str, object]:
    # A checksum in the list of the dataset replaces the size and time of the file.
    identity = one.version if is_checksum(one.version) else identities.get(one.path)
    if not identity and one.version and one.size_bytes is not None:
        identity = f"{one.size_bytes} bytes, {one.version}"
    if not identity:
        reason = f": {one.no_version}" if one.no_version else ""
        raise UnknownValueError(f"{one.path} has no known modification time or version{reason}")
    metadata = Canonical(_refuse_code)
    metadata.add(dict(one.metadata), f"the metadata of {one.path}")
    return {
        "file": [one.path, one.tree, one.dataset, one.entry_start, one.entry_stop],
        "identity": identity,
        "metadata": metadata.hexdigest(),
        "companions": [_companion_content(companion, one, identities) for companion in one.companions],
        "joins": [[join.name, list(join.trees), join.index] for join in one.joins],
    }


def _companion_content(companion: Companion, main: DataFile, identities: Mapping[str, str]) -> list[object]:
    path, tree = companion.path_for(main.path, main.tree)
    if is_url(path) and path != main.path:
        raise UnknownValueError(f"the companion {path} has no known modification time or version")
    return [companion.name, path, tree, identities.get(path)]


def _check_loaded(top: str) -> None:
    """Raise UnknownValueError if the version of a package loaded in this process may differ from the installed
    version.
    """
    if is_new_to_process(top):
        what = f"package {top} was installed after this process started, which may have loaded an earlier version"
        raise UnknownValueError(what)


def _refuse_code(module: ModuleType, name: str | None, _value: object) -> None:
    raise UnknownValueError(f"the metadata of a file contain {module.__name__}.{name or ''}")


def _joined(several: Iterable[Mapping[str, str]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for one in several:
        joined.update(one)
    return joined


def _digest(content: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
