"""Arrows between rooms point down: which room of the package, and which crate, may use which."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

# Each room, and the rooms that it may import. Rooms that all may import are in EVERYBODYS.
ROOMS: dict[str, set[str]] = {
    "cli": {"_core", "control", "jobs", "lab", "reading", "records", "tracing", "trains", "writing"},
    "control": {"jobs", "lab", "reading", "records", "trains", "writing"},
    "jobs": {"reading"},
    "lab": {"_core", "jobs", "reading", "records", "tracing", "trains", "writing"},
    "reading": {"_core"},
    "records": {"_core", "jobs", "reading", "writing"},
    "tracing": {"_core", "jobs", "reading", "records"},
    "trains": {"_core", "jobs", "reading", "records", "writing"},
    "writing": {"_core", "reading"},
    "__main__": {"cli"},
}
EVERYBODYS = {"base", "errors"}
# Those of them that use the compiled module: a fact that is written down twice soon differs.
USE_COMPILED_MODULE: set[str] = {"access", "locations"}

CRATES = {
    "format": set(),
    "simulation": set(),
    "slab": set(),
    "trace": set(),
    "storage": {"trace"},
    "engine": {"format", "slab", "storage", "trace"},
    "bindings": {"engine", "format", "simulation", "slab", "storage", "trace"},
}
# What would bring threads, input and output, or Python into the crates that know nothing of these.
NOT_FOR_FORMAT = {"pyo3", "tokio", "rayon", "crossbeam", "memmap2", "reqwest", "libc"}
PYTHON_CRATES = {"pyo3", "numpy", "pyo3-arrow"}


def imported_rooms(path: Path) -> Iterator[tuple[int, str]]:
    """The rooms that a file imports, with the line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "branchline" and len(parts) > 1:
                yield node.lineno, parts[1]


def test_every_room_is_known(repository: Path) -> None:
    package = repository / "python" / "branchline"
    rooms = {path.name for path in package.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    rooms |= {path.stem for path in package.glob("*.py")} - {"__init__"}
    assert rooms - EVERYBODYS == set(ROOMS), "a new room needs its place in ROOMS and in ARCHITECTURE.md"


def test_rooms_import_only_rooms_below_them(repository: Path, python_sources: list[Path]) -> None:
    package = repository / "python" / "branchline"
    wrong = []
    for path in python_sources:
        if not path.is_relative_to(package) or path == package / "__init__.py":
            continue
        room = path.relative_to(package).parts[0].removesuffix(".py")
        allowed = ROOMS.get(room, set()) | EVERYBODYS | {room} | ({"_core"} if room in USE_COMPILED_MODULE else set())
        wrong += [
            f"{path.relative_to(repository)}:{line} imports branchline.{other}"
            for line, other in imported_rooms(path)
            if other in set(ROOMS) | {"_core"} and other not in allowed
        ]
    assert not wrong, "\n".join(wrong)


def test_no_room_imports_the_root_of_the_package(repository: Path, python_sources: list[Path]) -> None:
    # The root imports rooms, so that whoever imports it closes a circle. The version is in the compiled module.
    package = repository / "python" / "branchline"
    wrong = [
        f"{path.relative_to(repository)}:{line}"
        for path in python_sources
        if path.is_relative_to(package) and path != package / "__init__.py"
        for line in imports_of_the_root(path, package)
    ]
    assert not wrong, "\n".join(wrong)


def imports_of_the_root(path: Path, package: Path) -> Iterator[int]:
    """The lines that import `branchline` itself, or of it what is no module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import) and any(alias.name == "branchline" for alias in node.names):
            yield node.lineno
        if isinstance(node, ast.ImportFrom) and node.module == "branchline":
            modules = {path.stem for path in package.iterdir()}
            if not {alias.name for alias in node.names} <= modules:
                yield node.lineno


def test_the_rooms_allowed_to_each_make_a_ladder() -> None:
    reached: set[str] = {"_core"}
    while left := [room for room in ROOMS if room not in reached]:
        next_rung = {room for room in left if ROOMS[room] <= reached}
        assert next_rung, f"these rooms import each other in a circle: {left}"
        reached |= next_rung


def crate_dependencies(manifest: Path) -> set[str]:
    """What a crate is built from, its tests apart."""
    content = tomllib.loads(manifest.read_text(encoding="utf-8"))
    return set(content.get("dependencies", {})) | set(content.get("build-dependencies", {}))


def test_crates_depend_only_on_crates_below_them(repository: Path) -> None:
    for name, allowed in CRATES.items():
        needed = crate_dependencies(repository / "crates" / name / "Cargo.toml")
        ours = {crate.removeprefix("branchline-") for crate in needed if crate.startswith("branchline-")}
        assert ours <= allowed, f"crate {name} depends on {sorted(ours - allowed)}"


def test_every_crate_is_known(repository: Path) -> None:
    found = {path.parent.name for path in (repository / "crates").glob("*/Cargo.toml")}
    assert found == set(CRATES), "a new crate needs its place in CRATES and in ARCHITECTURE.md"


def test_the_format_crate_reads_no_files_and_starts_no_threads(repository: Path, rust_sources: list[Path]) -> None:
    assert not crate_dependencies(repository / "crates/format/Cargo.toml") & NOT_FOR_FORMAT
    wrong = [
        f"{path.relative_to(repository)} uses {module}"
        for path in rust_sources
        if path.is_relative_to(repository / "crates" / "format" / "src")
        for module in ("std::fs", "std::net", "std::thread", "std::process")
        if module in path.read_text(encoding="utf-8")
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_bindings_know_python(repository: Path) -> None:
    for name in set(CRATES) - {"bindings"}:
        assert not crate_dependencies(repository / "crates" / name / "Cargo.toml") & PYTHON_CRATES
