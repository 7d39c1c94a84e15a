"""Only `branchline.base.trust` unpickles: it first checks who could have written the data, which may run code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import REPOSITORY

PACKAGE = REPOSITORY / "python" / "branchline"
TRUST = PACKAGE / "base" / "trust.py"
#: Modules with functions that may run code from the data that they load.
MODULES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "torch", "jsonpickle"}
FUNCTIONS = {"load", "loads", "Unpickler", "open", "DbfilenameShelf"}
#: Names of functions that unpickle. They are found in any module, because modules can be imported under other names.
READERS = {"read_pickle", "unpack_pickle"}


def unpickling(source: str) -> Iterator[int]:
    """Yield the lines that unpickle."""
    # Parse only files that contain one of these words, because parsing all sources takes seconds.
    if not any(word in source for word in (*MODULES, *READERS, "allow_pickle")):
        return
    names: dict[str, str] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            yield from [node.lineno] if {alias.name for alias in node.names} & {*FUNCTIONS, "*"} else []
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            base = ast.unparse(node.value)
            is_loader = names.get(base, base) in MODULES and node.attr in FUNCTIONS
            yield from [node.lineno] if is_loader or node.attr in READERS else []
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            yield from [] if isinstance(node.value, ast.Constant) and node.value.value is False else [node.value.lineno]


def test_only_one_module_unpickles(python_sources: list[Path]) -> None:
    wrong = [
        f"{path.relative_to(REPOSITORY)}:{line}"
        for path in python_sources
        if path.is_relative_to(PACKAGE) and path != TRUST
        for line in unpickling(path.read_text(encoding="utf-8"))
    ]
    assert not wrong, "\n".join(["unpickle with branchline.base.trust:", *wrong])
    assert list(unpickling(TRUST.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "source",
    [
        "import pickle\npickle.loads(b'')",
        "import cloudpickle as cp\ncp.load(file)",
        "from pickle import loads",
        "from pickle import *",
        "import pickle\nload = pickle.Unpickler",
        "import shelve\nshelve.open('x')",
        "import numpy\nnumpy.load('x', allow_pickle=True)",
        "import pandas\npandas.read_pickle('x')",
    ],
)
def test_each_way_to_unpickle_is_found(source: str) -> None:
    assert list(unpickling(source))


@pytest.mark.parametrize("source", ["import pickle\npickle.dumps(1)", "import json\njson.loads('1')", "f.open('x')"])
def test_nothing_else_is_found(source: str) -> None:
    assert not list(unpickling(source))
