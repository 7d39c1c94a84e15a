"""Packages, crates and folders import only what `dependencies.toml` allows."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.conftest import REPOSITORY
from tests.tidy.import_graph import Graph, module_parts, python_graph, rust_graph

PACKAGE = REPOSITORY / "python" / "branchline"
LISTED = tomllib.loads(Path(__file__).with_name("dependencies.toml").read_text(encoding="utf-8"))
PACKAGES: dict[str, list[str]] = LISTED["packages"]
CRATES: dict[str, list[str]] = LISTED["crates"]
FOLDERS: dict[str, str] = LISTED["folders"]
#: Crates that `format` must not depend on, because they provide threads, I/O or Python.
NOT_FOR_FORMAT = {"pyo3", "tokio", "rayon", "crossbeam", "memmap2", "reqwest", "libc"}
PYTHON_CRATES = {"pyo3", "numpy", "pyo3-arrow"}


class Import(NamedTuple):
    """An import between two modules. A module is given as its path below the root of its package or crate."""

    importer: tuple[str, ...]
    imported: tuple[str, ...]

    def __str__(self) -> str:
        return f"{'/'.join(self.importer)} imports {'/'.join(self.imported)}"


@pytest.fixture(scope="module")
def imports() -> dict[Path, list[Import]]:
    """Return all imports, by source folder: the folder of the Python package, and the folder of each crate."""
    graphs: dict[Path, Graph] = {PACKAGE: python_graph(PACKAGE)}
    graphs |= {REPOSITORY / "crates" / name / "src": rust_graph(REPOSITORY / "crates" / name) for name in CRATES}
    return {
        root: [
            Import(module_parts(importer, root), module_parts(imported, root))
            for importer, others in graph.items()
            for imported in others
        ]
        for root, graph in graphs.items()
    }


def is_listed(imported: tuple[str, ...], allowed: list[str]) -> bool:
    """Return whether a module is in the list, or in a folder of the list."""
    return any(imported[: len(parts)] == parts for parts in (tuple(entry.split("/")) for entry in allowed))


def test_every_package_and_every_crate_is_listed() -> None:
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == set(PACKAGES)
    assert {path.stem for path in PACKAGE.glob("*.py")} == {"__init__", "__main__", "errors"}
    assert {path.parent.name for path in (REPOSITORY / "crates").glob("*/Cargo.toml")} == set(CRATES)


@pytest.mark.parametrize("dependencies", [PACKAGES, CRATES], ids=["packages", "crates"])
def test_the_list_has_no_circle(dependencies: dict[str, list[str]]) -> None:
    known: set[str] = set()
    while rest := [name for name in dependencies if name not in known]:
        next_ones = {name for name in rest if {entry.split("/")[0] for entry in dependencies[name]} <= known}
        assert next_ones, f"dependency cycle in {rest}"
        known |= next_ones


def test_packages_import_only_what_is_listed(imports: dict[Path, list[Import]]) -> None:
    wrong = []
    for one in imports[PACKAGE]:
        package = one.importer[0] if one.importer else ""
        if package in PACKAGES and package != one.imported[0]:
            everywhere = ["errors"] if package == "base" else ["errors", "base"]
            wrong += [] if is_listed(one.imported, everywhere + PACKAGES[package]) else [str(one)]
    assert not wrong, "\n".join(wrong)


def test_the_base_of_everything_imports_nothing(imports: dict[Path, list[Import]]) -> None:
    assert not [str(one) for one in imports[PACKAGE] if one.importer == ("errors",)]


def test_the_stub_of_the_compiled_module_knows_only_reading_and_writing() -> None:
    tree = ast.parse((PACKAGE / "_core.pyi").read_text(encoding="utf-8"))
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module is not None]
    ours = {module.split(".")[1] for module in modules if module.startswith("branchline.")}
    assert ours == {"reading", "writing"}


def test_no_module_imports_the_root_of_the_package(python_sources: list[Path]) -> None:
    # The root module imports the packages, so a package that imports the root creates an import cycle. Modules can get
    # the version from the compiled module.
    wrong = [
        f"{path.relative_to(REPOSITORY)}:{line}"
        for path in python_sources
        if path.is_relative_to(PACKAGE) and path != PACKAGE / "__init__.py"
        for line in imports_of_the_root(path)
    ]
    assert not wrong, "\n".join(wrong)


def imports_of_the_root(path: Path) -> Iterator[int]:
    """Yield the lines that import `branchline` itself, or a name in it that is not a module."""
    modules = {path.stem for path in PACKAGE.iterdir()}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import) and any(alias.name == "branchline" for alias in node.names):
            yield node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module == "branchline":
            yield from [] if {alias.name for alias in node.names} <= modules else [node.lineno]


def folders_inside(folder: Path) -> set[str]:
    """Return the names of the direct subfolders that contain sources."""
    return {
        path.name
        for path in folder.iterdir()
        if path.is_dir()
        and any(path.glob("*.py") if folder.is_relative_to(PACKAGE) else path.glob("*.rs"))
        # A folder that contains only tests is not part of the crate.
        and {one.name for one in path.glob("*.rs")} != {"tests.rs"}
    }


def all_folders() -> Iterator[Path]:
    for root in (PACKAGE, *(REPOSITORY / "crates" / name / "src" for name in CRATES)):
        yield root
        yield from (path for path in root.rglob("*") if path.is_dir() and path.name != "__pycache__")


def test_folders_that_have_several_are_listed_with_all_of_them() -> None:
    found = {
        str(folder.relative_to(REPOSITORY)): inside
        for folder in all_folders()
        if folder != PACKAGE and len(inside := folders_inside(folder)) > 1
    }
    listed = {name: set(order.replace(">", " ").split()) for name, order in FOLDERS.items()}
    assert listed == found


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_import_only_folders_to_their_right(imports: dict[Path, list[Import]], name: str) -> None:
    folder = REPOSITORY / name
    root = next(root for root in imports if folder.is_relative_to(root))
    inside = folder.relative_to(root).parts
    rank = {one: number for number, rung in enumerate(FOLDERS[name].split(">")) for one in rung.split()}
    wrong = []
    for one in imports[root]:
        if one.importer[: len(inside)] == inside == one.imported[: len(inside)]:
            importer, imported = one.importer[len(inside) :], one.imported[len(inside) :]
            if importer and imported and importer[0] != imported[0] and {importer[0], imported[0]} <= rank.keys():
                wrong += [str(one)] if rank[importer[0]] >= rank[imported[0]] else []
    assert not wrong, "\n".join(wrong)


# --- crates ---


def crate_dependencies(manifest: Path) -> set[str]:
    """Return the dependencies of a crate, excluding dependencies of its tests."""
    content = tomllib.loads(manifest.read_text(encoding="utf-8"))
    return set(content.get("dependencies", {})) | set(content.get("build-dependencies", {}))


@pytest.mark.parametrize("name", CRATES)
def test_crates_depend_only_on_crates_that_are_listed(name: str) -> None:
    needed = crate_dependencies(REPOSITORY / "crates" / name / "Cargo.toml")
    ours = {crate.removeprefix("branchline-") for crate in needed if crate.startswith("branchline-")}
    assert ours <= set(CRATES[name])


def test_the_format_crate_reads_no_files_and_starts_no_threads(rust_sources: list[Path]) -> None:
    assert not crate_dependencies(REPOSITORY / "crates/format/Cargo.toml") & NOT_FOR_FORMAT
    wrong = [
        f"{path.relative_to(REPOSITORY)} uses {module}"
        for path in rust_sources
        if path.is_relative_to(REPOSITORY / "crates" / "format" / "src")
        for module in ("std::fs", "std::net", "std::thread", "std::process")
        if module in path.read_text(encoding="utf-8")
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_bindings_know_python() -> None:
    for name in set(CRATES) - {"bindings"}:
        assert not crate_dependencies(REPOSITORY / "crates" / name / "Cargo.toml") & PYTHON_CRATES
