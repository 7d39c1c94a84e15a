"""The crates and the Python package have no import cycles between files or between folders."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from tests.tidy.import_graph import Graph, circles, circles_of_children, python_graph, rust_graph
from tests.tidy.test_imports import CRATES

PARTS = [*(f"crates/{name}" for name in CRATES), "python/branchline"]


@cache
def graph_of(folder: Path) -> Graph:
    return rust_graph(folder) if folder.parent.name == "crates" else python_graph(folder)


@pytest.mark.parametrize("part", PARTS)
def test_no_files_import_each_other(repository: Path, part: str) -> None:
    found = circles(graph_of(repository / part))
    listed = "\n".join(", ".join(str(path.relative_to(repository / part)) for path in circle) for circle in found)
    assert not found, f"files of {part} import each other:\n{listed}"


@pytest.mark.parametrize("part", PARTS)
def test_no_folders_import_each_other(repository: Path, part: str) -> None:
    root = repository / part / "src" if part.startswith("crates/") else repository / part
    found = circles_of_children(graph_of(repository / part), root)
    assert not found, "\n".join(found)


def test_circles_of_folders_are_found_where_their_files_have_none(tmp_path: Path) -> None:
    package = tmp_path / "thing"
    for name, imported in {"a/one": "thing.b.one", "b/one": "", "b/two": "thing.a.two", "a/two": ""}.items():
        path = package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"import {imported}\n" if imported else "")
        (path.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    graph = python_graph(package)
    assert circles(graph) == []
    assert circles_of_children(graph, package) == [".: a, b"]


def test_circles_of_rust_are_found(tmp_path: Path) -> None:
    source = tmp_path / "src"
    (source / "b").mkdir(parents=True)
    (source / "lib.rs").write_text("mod a;\nmod b;\npub use b::inner::Thing;\n")
    (source / "a.rs").write_text(
        '// use crate::b;\nuse crate::Thing;\n\npub fn of() -> &\'static str {\n    "crate::b"\n}\n'
    )
    (source / "b.rs").write_text("pub mod inner;\n")
    (source / "b" / "inner.rs").write_text("pub struct Thing;\n\nfn f() {\n    super::super::a::of();\n}\n")
    assert circles(rust_graph(tmp_path)) == [[source / "a.rs", source / "b" / "inner.rs"]]
    (source / "b" / "inner.rs").write_text(
        "pub struct Thing;\n\n#[cfg(test)]\n#[allow(clippy::panic)]\nmod tests {\n    use crate::a::of;\n}\n"
    )
    assert circles(rust_graph(tmp_path)) == []


def test_circles_of_python_are_found_through_what_a_package_passes_on(tmp_path: Path) -> None:
    package = tmp_path / "thing"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from thing.a import A\nfrom thing.lazily import lazily\nfind = lazily(__name__, {'thing.b': ('B',)})\n"
    )
    (package / "lazily.py").write_text("")
    (package / "a.py").write_text("def later():\n    from thing import B\n")
    (package / "b.py").write_text("import thing.a\n")
    assert circles(python_graph(package)) == [[package / "a.py", package / "b.py"]]
    (package / "b.py").write_text("import os\n")
    assert circles(python_graph(package)) == []
