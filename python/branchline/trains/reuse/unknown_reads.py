"""What the code of a wagon reads that its source does not show, seen by the calls that do so."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from branchline.trains.reuse.canonical import named_file

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
