"""Which code a wagon's result depends on, as a digest: its class, what that uses in its module, and imported modules.

Of the module of a wagon only those statements count that the wagon can use, so that a change of one wagon of a file
leaves the others as they are. Of a module that is imported all statements count. Comments, blank lines and docstrings
do not. Of packages that are installed the version counts, and not the code.

``unknown_reads`` finds the calls that read something that the source does not show, such as files or the environment.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from branchline.reading.datasets.identity import content_identity
from branchline.trains.reuse.canonical import NamedFile, UnknownValueError, named_file
from branchline.trains.reuse.module_finder import parsed

# Decorators that only change what they decorate.
HARMLESS_DECORATORS = {"dataclass", "njit", "jit", "vectorize", "guvectorize", "cache", "lru_cache", "total_ordering"}
HARMLESS_DECORATORS |= {"varied"}
# The list of a train's wagons: what is done with it changes none of them.
LIST_OF_WAGONS = "wagons"
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
# Calls that read what is not in the source. They are fine where the name of the file is.
READS_FILE = {"open", "read_text", "read_bytes", "from_file", "loadtxt", "genfromtxt", "fromfile", "memmap", "urlopen"}
READS_FILE |= {f"read_{one}" for one in ("csv", "json", "parquet", "table", "pickle", "hdf", "feather")}
READS_FILE |= {"load", "load_model", "from_parquet", "from_json", "InferenceSession"}
READS_FILE |= {"urlretrieve", "loadmat", "load_npz", "open_memmap", "TFile", "TChain", "RDataFrame", "Open"}
READS_FILE |= {"add_weight_sets"}
# The same, where names alone would not say it: calls of a library, as patterns for any part of their dotted name.
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
# Modules whose ``load`` takes an open file, which was opened by a call of its own.
LOADS_OPEN_FILE = {"json", "pickle", "cloudpickle", "yaml", "tomllib"}
# What these give is not in the source, whatever they are called with.
LISTS_FILES = {"glob", "iglob", "rglob", "listdir", "scandir", "iterdir"}
READS_BY_NAME = {"eval", "exec", "__import__", "globals", "subprocess"}
READS_BY_ATTRIBUTE = {"import_module", "getenv", "environ"}


@dataclass
class ModuleSource:
    """The source of a module of the user: its statements, and which of them bind which names."""

    name: str
    path: str
    module: ModuleType | None
    statements: list[ast.stmt]
    identity: str = ""
    bound: dict[str, list[int]] = field(default_factory=dict)
    compiled: dict[str, list[CodeType]] = field(default_factory=dict)
    _dumps: dict[int, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, path: str, module: ModuleType | None) -> ModuleSource:
        """That of a file. Raises UnknownValueError for what cannot be read."""
        try:
            # Before the file is read: a change between both is noticed then.
            identity = content_identity(path)
            content = Path(path).read_bytes()
            tree = parsed(content)
            code = compile(content, path, "exec", dont_inherit=True)
        except (OSError, SyntaxError, ValueError) as error:
            raise UnknownValueError(f"the source of module {name} cannot be read: {error}") from None
        made = cls(name, path, module, tree.body, identity)
        for index, statement in enumerate(tree.body):
            for one in _names_bound(statement):
                made.bound.setdefault(one, []).append(index)
        for part in _code_in(code):
            made.compiled.setdefault(part.co_qualname, []).append(part)
        if any(isinstance(one, ast.Name) and one.id == "__doc__" for one in ast.walk(tree)):
            return made
        for node in ast.walk(tree):
            _drop_docstring(node)
        return made

    def names_bound_by(self, index: int) -> list[str]:
        """The names to which a statement gives values."""
        return sorted(name for name, indices in self.bound.items() if index in indices)

    def digest_of(self, indices: Iterable[int]) -> str:
        """A digest of statements, in their order, without their places in the file."""
        digest = hashlib.sha256()
        for index in sorted(indices):
            if index not in self._dumps:
                text = ast.dump(self.statements[index], annotate_fields=False)
                self._dumps[index] = text.encode(errors="surrogatepass")
            digest.update(self._dumps[index])
        return digest.hexdigest()

    def check_loaded(self, name: str, value: Any) -> None:
        """Raises UnknownValueError if a class or function was loaded before the file was changed."""
        functions = [value] if isinstance(value, FunctionType) else []
        if isinstance(value, type):
            functions = [one for one in vars(value).values() if isinstance(one, FunctionType)]
        for function in functions:
            if function.__module__ != self.name or function.__code__.co_filename != self.path:
                continue
            known = self.compiled.get(function.__code__.co_qualname, [])
            if function.__code__ not in known:
                raise UnknownValueError(f"{self.path} has changed since {name} was loaded")


def is_import(statement: ast.stmt) -> bool:
    """Whether a statement imports modules or names of them."""
    return isinstance(statement, _IMPORTS)


def names_in(statement: ast.AST) -> set[str]:
    """All names that a statement mentions."""
    return {one.id for one in ast.walk(statement) if isinstance(one, ast.Name)}


def is_definition(statement: ast.stmt) -> bool:
    """Whether a statement defines a class or a function."""
    return isinstance(statement, _DEFINITIONS)


def is_side_effect(statement: ast.stmt, is_script: bool) -> bool:
    """Whether a statement may do more than give names to values. The end of a script, which runs the train, does not
    count.
    """
    if isinstance(statement, _DEFINITIONS):
        return not is_script and any(_last_name(one) not in HARMLESS_DECORATORS for one in statement.decorator_list)
    if isinstance(statement, (*_IMPORTS, ast.Pass)):
        return isinstance(statement, _IMPORTS)
    if is_script or _is_main_block(statement):
        return False
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return False
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return not all(isinstance(one, ast.Name | ast.Tuple | ast.List) for one in targets)
    return _changed_by(statement) != {LIST_OF_WAGONS}


def _last_name(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _is_main_block(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in names_in(statement.test)


def _changed_by(statement: ast.stmt) -> set[str]:
    """What a statement adds to or calls a method of, if that is all that it does; something else otherwise."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        return {statement.target.id}
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        return {call.func.value.id}
    if isinstance(statement, ast.For) and not statement.orelse:
        return set().union(*(_changed_by(one) for one in statement.body))
    return {""}


def files_named(statements: Iterable[ast.stmt], folder: str) -> dict[str, NamedFile]:
    """The files that texts in statements name."""
    found = {}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                file = named_file(node.value, folder)
                if file is not None:
                    found[node.value] = file
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


def _code_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _code_in(one)


def _drop_docstring(node: ast.AST) -> None:
    # That of a module is no statement that anything uses.
    if not isinstance(node, _DEFINITIONS):
        return
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        node.body[:1] = [] if len(node.body) > 1 else [ast.Pass()]


def unknown_reads(
    statement: ast.stmt, known: Iterable[str], values: Mapping[str, Any], libraries: Mapping[str, Any]
) -> Iterator[str]:
    """What a statement reads that is not in the source: files whose names are not there, the environment, and more.

    ``known`` are texts that name files, ``values`` the values of names and of ``self.NAME``; ``libraries`` the values
    of names that may be modules, or come from some.
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
        if library:
            yield f"line {node.lineno} reads by {called}() of {library} what the source does not show"
        else:
            yield f"line {node.lineno} reads a file by {called}(), whose name is not in the source"


def _imported(statement: ast.stmt) -> dict[str, tuple[str, str]]:
    """What is imported within a statement: the library and the dotted name in it, by the name that it gets."""
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


def _reading_library(called: ast.expr, imported: Mapping[str, tuple[str, str]], libraries: Mapping[str, Any]) -> str:
    """The library of a call that reads by itself; empty for any other call."""
    names: list[str] = []
    while isinstance(called, ast.Attribute):
        names.append(called.attr)
        called = called.value
    if not isinstance(called, ast.Name):
        return ""
    first = called.id
    if first == "self" and names:
        # What the wagon holds, as a session that it opened.
        first = f"self.{names.pop()}"
    library, within = imported.get(first) or _origin(libraries.get(first))
    names += within.split(".")
    patterns = READS_BY_LIBRARY.get(library, ())
    return library if any(fnmatchcase(name, one) for one in patterns for name in names) else ""


def _origin(value: Any) -> tuple[str, str]:
    """The library that a module, a function, a class or an object is of, and its dotted name there."""
    if isinstance(value, ModuleType):
        top, _, rest = value.__name__.partition(".")
        return top, rest
    named = value if isinstance(value, type | FunctionType | BuiltinFunctionType) else type(value)
    return str(named.__module__ or "").partition(".")[0], named.__qualname__


def _names_known_file(call: ast.Call, known: set[str], values: Mapping[str, Any]) -> bool:
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
