"""Files of a crate, or of the package, do not import each other in a circle."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tidy.import_graph import Graph, circles, python_graph, rust_graph

ROOMS = [
    *(f"crates/{name}" for name in ("bindings", "engine", "format", "simulation", "slab", "storage", "trace")),
    "python/branchline",
]


def graph_of(folder: Path) -> Graph:
    return rust_graph(folder) if folder.parent.name == "crates" else python_graph(folder)


@pytest.mark.parametrize("room", ROOMS)
def test_no_files_import_each_other(repository: Path, room: str) -> None:
    found = circles(graph_of(repository / room))
    listed = "\n".join(", ".join(str(path.relative_to(repository / room)) for path in circle) for circle in found)
    assert not found, f"files of {room} import each other:\n{listed}"


def test_every_crate_is_looked_at(repository: Path) -> None:
    crates = {f"crates/{path.parent.name}" for path in (repository / "crates").glob("*/Cargo.toml")}
    assert crates <= set(ROOMS)


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
