"""Analyses the source of the user's modules: which statement binds a name, which names a statement uses, and which
statements do more than bind names.

Digests of statements ignore comments, blank lines and docstrings. ``unknown_reads`` finds calls that read data not
visible in the source, such as files or the environment.
"""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import TypeVar

from branchline.reading.datasets.identity import content_identity
from branchline.trains.reuse.canonical import NamedFile, UnknownValueError, functions_behind, named_file
from branchline.trains.reuse.module_finder import base_of, find_module, package_of, parsed

Tree = TypeVar("Tree", bound=ast.AST)

# Decorators that have no side effects except changing the decorated object.
HARMLESS_DECORATORS = {"dataclass", "njit", "jit", "vectorize", "guvectorize", "cache", "lru_cache", "total_ordering"}
HARMLESS_DECORATORS |= {"varied"}
# Name of the variable with the list of a train's wagons. Changing the list does not change the wagons.
LIST_OF_WAGONS = "wagons"
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
# Calls that read data from outside the source. Results can still be cached if the file name is in the source.
READS_FILE = {"open", "read_text", "read_bytes", "from_file", "loadtxt", "genfromtxt", "fromfile", "memmap", "urlopen"}
READS_FILE |= {f"read_{one}" for one in ("csv", "json", "parquet", "table", "pickle", "hdf", "feather")}
READS_FILE |= {"load", "load_model", "from_parquet", "from_json", "InferenceSession"}
READS_FILE |= {"urlretrieve", "loadmat", "load_npz", "open_memmap", "TFile", "TChain", "RDataFrame", "Open"}
READS_FILE |= {"add_weight_sets"}
# Calls that read data, but whose names are too common to identify them. For each library, patterns for the parts of the
# dotted name; one matching part is sufficient.
READS_BY_LIBRARY: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("uproot", "h5py", "tables", "netCDF4", "zarr", "fsspec", "XRootD", "pyhdf"), ("*",)),
    **dict.fromkeys(("requests", "httpx", "urllib3", "aiohttp", "socket", "ftplib", "paramiko", "boto3"), ("*",)),
    **dict.fromkeys(("sqlite3", "duckdb", "sqlalchemy", "psycopg", "psycopg2", "pymongo", "redis", "dbm"), ("*",)),
    **dict.fromkeys(("zipfile", "tarfile", "shelve", "fileinput", "linecache"), ("*",)),
    **dict.fromkeys(("gzip", "bz2", "lzma", "io"), ("*File", "FileIO")),
    "http": ("client",),
    "os": ("walk", "fwalk", "popen", "system", "readlink"),
    "branchline": ("iterate", "concatenate", "dask", "numpy_iterate", "nanoevents"),
    "coffea": ("from_root",),
    "awkward": ("from_*file", "from_feather", "metadata_from_parquet"),
    "pandas": ("read_*", "ExcelFile", "HDFStore"),
    "polars": ("read_*", "scan_*"),
    "dask": ("read_*", "from_zarr"),
    "pyarrow": ("read_*", "open_*", "dataset", "memory_map", "Parquet*"),
    "xarray": ("open_*", "load_*"),
    "scipy": ("mmread", "netcdf_file", "wavfile", "readsav"),
    "imageio": ("imread", "*_imread"),
    "lightgbm": ("Booster",),
    "tensorflow": ("load_*", "read_file", "TFRecordDataset"),
    "tritonclient": ("*",),
}
# Modules whose function ``load`` takes an open file. The call that opened the file is found separately.
LOADS_OPEN_FILE = {"json", "pickle", "cloudpickle", "yaml", "tomllib"}
# Calls that list files. Their results are never visible in the source, whatever their arguments are.
LISTS_FILES = {"glob", "iglob", "rglob", "listdir", "scandir", "iterdir"}
# Names with which code can reach any name of any loaded module.
REACHES_MODULES = {"modules", "__globals__", "f_globals", "__builtins__", "__subclasses__"}
# Names with which code can compute the names that it uses, also in strings.
COMPUTES_NAMES = {"getattr", "setattr", "delattr", "vars", "locals", "globals", "exec", "eval", "attrgetter"}
COMPUTES_NAMES |= {"methodcaller", "evaluate", "query", "get_type_hints", "__import__", "importlib", "__dict__"}
COMPUTES_NAMES |= {"__getattr__"}
# Decorators of methods without side effects, and base classes that do not record their subclasses.
_METHOD_DECORATORS = {"property", "staticmethod", "classmethod", "cached_property", "setter", "abstractmethod"}
_PLAIN_BASES = {"object", "ABC", "Enum", "IntEnum", "StrEnum", "NamedTuple", "TypedDict", "Protocol"}
READS_BY_NAME = {"eval", "exec", "__import__", "globals", "subprocess"}
READS_BY_ATTRIBUTE = {"import_module", "getenv", "environ"}


#: A name in a statement, followed by the attributes that are read from it: ("np", "linalg", "norm").
Reference = tuple[str, ...]


@dataclass(frozen=True, order=True)
class Import:
    """What an imported name refers to: a module, or the attribute ``name`` of a module, which may also be a module."""

    module: str
    name: str = ""


@dataclass
class ModuleSource:
    """The source of a user module: its statements, the indices of the statements that bind each name, and the imports
    by the name that they bind.
    """

    name: str
    path: str
    module: ModuleType | None
    statements: list[ast.stmt]
    identity: str = ""
    bound: dict[str, list[int]] = field(default_factory=dict)
    imports: dict[str, set[Import]] = field(default_factory=dict)
    compiled: dict[str, list[CodeType]] = field(default_factory=dict)
    _names: list[list[str]] = field(default_factory=list)
    _dumps: dict[int, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, path: str, module: ModuleType | None) -> ModuleSource:
        """Read and parse a file. Raises UnknownValueError if this fails."""
        try:
            # Determine the identity before reading the file, so that a change in between is noticed.
            identity = content_identity(path)
            content = Path(path).read_bytes()
            tree = parsed(content)
            code = compile(content, path, "exec", dont_inherit=True)
        except (OSError, SyntaxError, ValueError) as error:
            raise UnknownValueError(f"the source of module {name} cannot be read: {error}") from None
        made = cls(name, path, module, tree.body, identity)
        for index, statement in enumerate(tree.body):
            names = sorted(set(_names_bound(statement)))
            made._names.append(names)
            for one in names:
                made.bound.setdefault(one, []).append(index)
            # Imports inside functions and classes bind local names.
            for one, imports in ({} if is_definition(statement) else imports_in(statement, made.package)).items():
                made.imports.setdefault(one, set()).update(imports)
        for part in codes_in(code):
            made.compiled.setdefault(part.co_qualname, []).append(part)
        # A module's docstring can stay, because no wagon uses that statement.
        without_docstrings(tree)
        return made

    @property
    def package(self) -> str:
        """The package to which relative imports in the module refer."""
        return package_of(self.name, self.path)

    @property
    def is_package(self) -> bool:
        """Whether the module can have submodules."""
        return Path(self.path).name == "__init__.py"

    @cached_property
    def is_plain(self) -> bool:
        """Whether the module only binds names that code refers to by name, so that a user of some names depends on
        nothing else in the module.

        Its statements are imports, functions, classes without bases, and assignments that call no code of the user. It
        computes no names, and no function assigns global variables.
        """
        for statement in self.statements:
            for node in ast.walk(statement):
                name = getattr(node, "id", getattr(node, "attr", getattr(node, "name", "")))
                if isinstance(node, ast.Global) or name in COMPUTES_NAMES | REACHES_MODULES or name == "*":
                    return False
        return all(_is_plain_statement(one, self) for one in self.statements)

    def names_bound_by(self, index: int) -> list[str]:
        """Return the names that a statement binds."""
        return self._names[index]

    def digests_of(self, indices: Iterable[int]) -> dict[str, str]:
        """Return digests of statements, without their positions in the file, by a description for messages."""
        digests: dict[str, hashlib._Hash] = {}
        for index in sorted(indices):
            for name in self._described(index):
                digests.setdefault(name, hashlib.sha256()).update(self._dump(index))
        return {name: one.hexdigest() for name, one in digests.items()}

    def order_of(self, indices: Iterable[int]) -> str:
        """Return a digest of the order of statements."""
        order = [self._described(index) for index in sorted(indices)]
        return hashlib.sha256(repr(order).encode()).hexdigest()

    def _described(self, index: int) -> list[str]:
        if isinstance(self.statements[index], _IMPORTS):
            return [f"the imports of {self.name}"]
        return [f"{self.name}.{name}" for name in self._names[index]] or [f"the statements of {self.name}"]

    def _dump(self, index: int) -> bytes:
        if index not in self._dumps:
            text = ast.dump(self.statements[index], annotate_fields=False)
            self._dumps[index] = text.encode(errors="surrogatepass")
        return self._dumps[index]

    def check_loaded(self, name: str, value: object) -> None:
        """Raise UnknownValueError if the file changed after a class or function was loaded from it."""
        owners = vars(value).values() if isinstance(value, type) else [value]
        functions = [function for one in owners for function in functions_behind(one)]
        self._check_replaced(name, value)
        for function in functions:
            if function.__module__ != self.name or function.__code__.co_filename != self.path:
                continue
            known = self.compiled.get(function.__code__.co_qualname, [])
            if function.__code__ not in known:
                raise UnknownValueError(f"{self.path} has changed since {name} was loaded")

    def _check_replaced(self, name: str, value: object) -> None:
        """Raise UnknownValueError if a function or method without decorators is now one of another file."""
        for index in self.bound.get(name, ()):
            statement = self.statements[index]
            own = [statement] if isinstance(statement, ast.FunctionDef) else []
            if isinstance(statement, ast.ClassDef) and isinstance(value, type) and not statement.decorator_list:
                own = [one for one in statement.body if isinstance(one, ast.FunctionDef)]
            for one in own:
                now = vars(value).get(one.name) if isinstance(value, type) else value
                if one.decorator_list or not isinstance(now, FunctionType):
                    continue
                if now.__code__.co_filename != self.path:
                    raise UnknownValueError(f"{one.name} of {self.path} was replaced after its definition")


def without_docstrings(tree: Tree) -> Tree:
    """Remove the docstrings of classes and functions, which digests ignore, from a tree that does not use them."""
    if "__doc__" not in names_in(tree):
        for node in ast.walk(tree):
            if isinstance(node, _DEFINITIONS) and ast.get_docstring(node, clean=False) is not None:
                node.body[:1] = [] if len(node.body) > 1 else [ast.Pass()]
    return tree


def names_in(statement: ast.AST) -> set[str]:
    """Return all names in a statement."""
    return {one.id for one in ast.walk(statement) if isinstance(one, ast.Name)}


def references_in(statement: ast.AST) -> set[Reference]:
    """Return all names in a statement, each with the attributes that are read from it."""
    found: set[Reference] = set()
    # Nodes that belong to an attribute already found. `ast.walk` yields outer nodes first.
    inner: set[int] = set()
    for node in ast.walk(statement):
        if id(node) in inner or not isinstance(node, ast.Name | ast.Attribute):
            continue
        attributes: list[str] = []
        base: ast.expr = node
        while isinstance(base, ast.Attribute):
            attributes.append(base.attr)
            base = base.value
            inner.add(id(base))
        if isinstance(base, ast.Name):
            found.add((base.id, *reversed(attributes)))
    return found


def imports_in(statement: ast.AST, package: str) -> dict[str, set[Import]]:
    """Return the imports in a statement by the name that they bind. ``import *`` binds the name "*"."""
    found: dict[str, set[Import]] = {}
    for node in ast.walk(statement):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                found.setdefault(alias.asname or top, set()).add(Import(alias.name if alias.asname else top))
        elif isinstance(node, ast.ImportFrom):
            base = base_of(node, package)
            for alias in node.names:
                one = Import(base) if alias.name == "*" else Import(base, alias.name)
                found.setdefault(alias.asname or alias.name, set()).add(one)
    return found


def reaches_modules(statement: ast.AST) -> bool:
    """Return whether a statement may use any name of any loaded module, for example through ``sys.modules``."""
    names = (getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(statement))
    return any(name in REACHES_MODULES for name in names)


def is_definition(statement: ast.stmt) -> bool:
    """Return whether a statement defines a class or a function."""
    return isinstance(statement, _DEFINITIONS)


def is_side_effect(statement: ast.stmt, is_script: bool) -> bool:
    """Return whether a statement may do more than bind names. Statements of a script that run the train do not
    count.
    """
    if isinstance(statement, _DEFINITIONS):
        return not is_script and any(one not in HARMLESS_DECORATORS for one in _decorators(statement))
    if isinstance(statement, (*_IMPORTS, ast.Pass)):
        return isinstance(statement, _IMPORTS)
    is_main_block = isinstance(statement, ast.If) and "__name__" in names_in(statement.test)
    if is_script or is_main_block:
        return False
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return False
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return not all(isinstance(one, ast.Name | ast.Tuple | ast.List) for one in targets)
    return _changed_by(statement) != {LIST_OF_WAGONS}


def _is_plain_statement(statement: ast.stmt, source: ModuleSource) -> bool:
    if isinstance(statement, (*_IMPORTS, ast.Pass)):
        return True
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return all(one in HARMLESS_DECORATORS | _METHOD_DECORATORS for one in _decorators(statement))
    if isinstance(statement, ast.ClassDef):
        bases = {one.id if isinstance(one, ast.Name) else "" for one in statement.bases}
        if statement.keywords or not bases <= _PLAIN_BASES:
            return False
        body = [one for one in statement.body if not isinstance(one, _IMPORTS)]
        is_whole = len(body) == len(statement.body) and all(_is_plain_statement(one, source) for one in body)
        return is_whole and all(one in HARMLESS_DECORATORS for one in _decorators(statement))
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.If):
        return names_in(statement.test) <= {"__name__"} or _last_name(statement.test) == "TYPE_CHECKING"
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        is_named = all(isinstance(one, ast.Name | ast.Tuple) for one in targets)
        has_lambda = any(isinstance(one, ast.Lambda) for one in ast.walk(statement))
        return is_named and not has_lambda and not _calls_user_code(statement, source)
    return False


def _decorators(statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[str]:
    called = [one.func if isinstance(one, ast.Call) else one for one in statement.decorator_list]
    return [_last_name(one) for one in called]


def _calls_user_code(statement: ast.stmt, source: ModuleSource) -> bool:
    """Return whether a statement calls a function or class of the user, which may do anything."""
    for node in ast.walk(statement):
        called = references_in(node.func) if isinstance(node, ast.Call) else ()
        for name in {one[0] for one in called}:
            targets = source.imports.get(name, set())
            if not targets and name in source.bound:
                return True
            if any((found := find_module(one.module)) is None or found.is_of_user for one in targets):
                return True
    return False


def _changed_by(statement: ast.stmt) -> set[str]:
    """Return the variables that a statement modifies, or whose methods it calls. If the statement may do anything else,
    the set contains an empty name.
    """
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        return {statement.target.id}
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        return {call.func.value.id}
    if isinstance(statement, ast.For) and not statement.orelse:
        return set().union(*(_changed_by(one) for one in statement.body))
    return {""}


def files_named(statement: ast.stmt, folder: str) -> dict[str, list[NamedFile]]:
    """Return the files named by strings in a statement, relative to the working directory and to ``folder``."""
    found: dict[str, list[NamedFile]] = {}
    for node in ast.walk(statement):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            places = dict.fromkeys((node.value, os.path.join(folder, node.value)))
            files = [file for one in places if (file := named_file(one)) is not None]
            if files:
                found[node.value] = files
    return found


def _names_bound(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, _DEFINITIONS):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, _DEFINITIONS):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those of all functions and classes in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from codes_in(one)


def unknown_reads(
    statement: ast.stmt,
    known: Iterable[str],
    values: Mapping[str, object],
    libraries: Mapping[str, object],
    loaded: str = "",
) -> Iterator[str]:
    """Yield a description of each read in a statement that the source does not show, such as of a file with an unknown
    name or of an environment variable.

    ``known`` are strings that name files. ``values`` are the values of names and of ``self.NAME``. ``libraries`` are
    the values of names that may be modules or come from modules. ``loaded`` is a variable with the path of a file whose
    content is known.
    """
    known = set(known)
    imported = _imported(statement)
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and node.id in READS_BY_NAME | READS_BY_ATTRIBUTE:
            yield f"line {node.lineno} uses {node.id}"
        if isinstance(node, ast.Attribute) and node.attr in READS_BY_ATTRIBUTE:
            yield f"line {node.lineno} uses {node.attr}"
        if not isinstance(node, ast.Call):
            continue
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if called in LISTS_FILES:
            yield f"line {node.lineno} uses {called}()"
        if called == "load" and isinstance(owner, ast.Name) and owner.id in LOADS_OPEN_FILE:
            continue
        library = "" if called in READS_FILE else _reading_library(node.func, imported, libraries)
        if (called not in READS_FILE and not library) or _names_known_file(node, known, values):
            continue
        if loaded and any(_is_path(one, loaded) for one in (*node.args, *(one.value for one in node.keywords), owner)):
            continue
        if library:
            what = f"line {node.lineno} calls {called}() of {library}, which reads data that the source does not show"
        else:
            what = f"line {node.lineno} reads a file with {called}(), but the file name is not in the source"
        yield f"{what}: use branchline.loaded(LOADER, FILE)"


def parameter_of_loader(
    definition: ast.stmt, module: str, uses: Iterable[tuple[ast.stmt, Mapping[str, object]]]
) -> str:
    """Return the first parameter of a function if it is always the path of a file that ``branchline.loaded`` loads;
    otherwise an empty text.

    ``uses`` are all statements that may use the function, with the variables of their modules.
    """
    if not isinstance(definition, ast.FunctionDef):
        return ""
    parameters = [*definition.args.posonlyargs, *definition.args.args]
    if not parameters or any(_uses_directly(definition.name, module, *one) for one in uses):
        return ""
    first = parameters[0].arg
    is_changed = any(
        isinstance(one, ast.Name) and one.id == first and not isinstance(one.ctx, ast.Load)
        for one in ast.walk(definition)
    )
    return "" if is_changed else first


def _uses_directly(name: str, module: str, statement: ast.stmt, variables: Mapping[str, object]) -> bool:
    """Return whether a statement uses a function other than as the first argument of a call of ``loaded``."""
    passed = {
        id(one.args[0])
        for one in ast.walk(statement)
        if isinstance(one, ast.Call) and one.args and _last_name(one.func) == "loaded"
    }
    for one in ast.walk(statement):
        if not isinstance(one, ast.Name | ast.Attribute) or _last_name(one) != name or id(one) in passed:
            continue
        owner = one.value if isinstance(one, ast.Attribute) else None
        # A name that is the attribute of another module or object is not this function.
        if owner is None or getattr(variables.get(_last_name(owner)), "__name__", module) == module:
            return True
    return False


def _last_name(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _is_path(expression: ast.expr | None, name: str) -> bool:
    """Return whether an expression is a variable, or the same path as text or ``Path``."""
    if isinstance(expression, ast.Call) and _last_name(expression.func) in ("Path", "str", "fspath"):
        return len(expression.args) == 1 and _is_path(expression.args[0], name)
    return isinstance(expression, ast.Name) and expression.id == name


def _imported(statement: ast.stmt) -> dict[str, tuple[str, str]]:
    """Return the imports inside a statement: the library and the dotted name within it, by the name that the import
    binds.
    """
    found = {}
    for node in ast.walk(statement):
        if isinstance(node, ast.Import):
            for one in node.names:
                top, _, rest = one.name.partition(".")
                found[one.asname or top] = (top, rest if one.asname else "")
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            top, _, rest = node.module.partition(".")
            found |= {one.asname or one.name: (top, f"{rest}.{one.name}") for one in node.names}
    return found


def _reading_library(called: ast.expr, imported: Mapping[str, tuple[str, str]], libraries: Mapping[str, object]) -> str:
    """Return the library of a call that reads data; empty for other calls."""
    names: list[str] = []
    while isinstance(called, ast.Attribute):
        names.append(called.attr)
        called = called.value
    if not isinstance(called, ast.Name):
        return ""
    first = called.id
    if first == "self" and names:
        # The function is a method of an attribute of the wagon, such as an open session.
        first = f"self.{names.pop()}"
    library, within = imported.get(first) or _origin(libraries.get(first))
    names += within.split(".")
    patterns = READS_BY_LIBRARY.get(library, ())
    return library if any(fnmatchcase(name, one) for one in patterns for name in names) else ""


def _origin(value: object) -> tuple[str, str]:
    """Return the library of a module, function, class or object, and its dotted name within the library."""
    if isinstance(value, ModuleType):
        top, _, rest = value.__name__.partition(".")
        return top, rest
    named = value if isinstance(value, type | FunctionType | BuiltinFunctionType) else type(value)
    return str(named.__module__ or "").partition(".")[0], named.__qualname__


def _names_known_file(call: ast.Call, known: set[str], values: Mapping[str, object]) -> bool:
    for node in ast.walk(call):
        if isinstance(node, ast.Constant) and node.value in known:
            return True
        name = node.id if isinstance(node, ast.Name) else ""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            name = f"self.{node.attr}"
        value = values.get(name)
        if isinstance(value, str | Path) and named_file(str(value)) is not None:
            return True
    return False
