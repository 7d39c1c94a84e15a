"""Every imported package is a declared dependency, and all lock files lock a dependency to the same version."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

# Packages whose import name differs from their name.
IMPORTED_AS = {"rucio_clients": "rucio"}
REQUIREMENT = re.compile(r"^([\w.-]+)(?:\[[\w,-]+\])?==([\w.+-]+)")


@pytest.fixture(scope="module")
def project(repository: Path) -> dict[str, object]:
    return tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def names(requirements: list[str]) -> set[str]:
    """Return the names of required packages in the form used by imports, excluding Branchline's own extras."""
    found = {re.split(r"[^\w.-]", requirement, maxsplit=1)[0].replace("-", "_").lower() for requirement in requirements}
    return {IMPORTED_AS.get(one, one) for one in found} - {"branchline"}


def locked(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {match[1]: match[2] for line in lines if (match := REQUIREMENT.match(line))}


def imported_by(node: ast.AST) -> Iterator[str]:
    """Yield the packages that a statement imports, excluding the standard library and Branchline."""
    modules = []
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
        modules = [node.module]
    elif isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    for module in modules:
        package = module.split(".")[0]
        # `_typeshed` has types of the standard library and exists only for mypy.
        if package not in ("branchline", "_typeshed") and package not in sys.stdlib_module_names:
            yield package


def imported(path: Path) -> Iterator[str]:
    """Yield the packages that a file imports, including imports in functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        yield from imported_by(node)


def at_the_top(path: Path) -> Iterator[str]:
    """Yield the packages that are imported when the file itself is imported, excluding imports in functions and for
    type checking.
    """
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from imported_by(node)


#: Paths whose modules may import the packages of these extras at module level. All other modules import them in
#: functions.
EXTRAS_OF_FOLDERS = {
    "control/sandbox/watch.py": {"trains"},
    "control/trains/supervisor.py": {"trains"},
    "control/web/": {"web"},
    "jobs/": {"trains"},
    "jobs/pools/dask_": {"cluster"},
    "lab/statistics.py": {"statistics"},
    "lab/studies/study_p": {"reports"},
    "reading/layout/file_picture.py": {"reports"},
    "reading/objects/": {"histograms"},
    "reading/parquet/": {"parquet"},
    "records/": {"reports"},
    "tracing/": {"parquet", "reports"},
    "trains/": {"trains"},
    "trains/demo/": {"demo"},
    "trains/results/": {"reports"},
    "trains/run.py": {"reports"},
    "writing/columns/parquet_writer.py": {"parquet"},
    "writing/objects/": {"histograms"},
}


def with_extras_of_ours(project: dict, extra: str) -> set[str]:
    """Return the packages of an extra, including the packages of other Branchline extras that it requires."""
    found = names(project["optional-dependencies"][extra])
    for requirement in project["optional-dependencies"][extra]:
        if own := re.match(r"branchline\[([\w,]+)\]", requirement):
            found |= set().union(*(with_extras_of_ours(project, name) for name in own[1].split(",")))
    return found


def test_what_is_imported_is_asked_for(repository: Path, python_sources: list[Path], project: dict) -> None:
    base = names(project["dependencies"])
    extras = set().union(*(names(extra) for extra in project["optional-dependencies"].values()))
    package = repository / "python" / "branchline"
    for path in python_sources:
        if path.is_relative_to(package):
            missing = {name.lower() for name in imported(path)} - base - extras
            assert not missing, f"{path.relative_to(repository)} imports {sorted(missing)}"


def test_the_core_imports_no_package_of_an_extra(repository: Path, python_sources: list[Path], project: dict) -> None:
    package = repository / "python" / "branchline"
    for path in (path for path in python_sources if path.is_relative_to(package)):
        name = path.relative_to(package).as_posix()
        allowed = names(project["dependencies"])
        for folder, extras in EXTRAS_OF_FOLDERS.items():
            if name.startswith(folder):
                allowed |= set().union(*(with_extras_of_ours(project, extra) for extra in extras))
        wrong = sorted({one.lower() for one in at_the_top(path)} - allowed)
        assert not wrong, f"{name} imports {wrong} at module level: import it in a function, or add its extra here"


def test_a_missing_package_is_explained_by_its_extra(project: dict) -> None:
    from branchline.base.imports import EXTRAS

    for package, extra in EXTRAS.items():
        assert package in with_extras_of_ours(project, extra)


def test_what_is_asked_for_is_locked(repository: Path, project: dict) -> None:
    everything = names([*locked(repository / "requirements" / "peers.txt")])
    everything |= names([*locked(repository / "requirements" / "ecosystem.txt")])
    assert names(project["dependencies"]) <= everything
    for extra in project["optional-dependencies"].values():
        assert names(extra) <= everything


def test_the_locks_agree(repository: Path) -> None:
    everything = locked(repository / "requirements" / "peers.txt")
    for name in ("build", "demo", "docs"):
        part = locked(repository / "requirements" / f"{name}.txt")
        assert part
        assert part.items() <= everything.items()
    ecosystem = locked(repository / "requirements" / "ecosystem.txt")
    assert {name: version for name, version in ecosystem.items() if everything.get(name, version) != version} == {}


def test_the_crates_are_locked(repository: Path) -> None:
    lock = tomllib.loads((repository / "Cargo.lock").read_text(encoding="utf-8"))
    packages = {package["name"] for package in lock["package"]}
    for manifest in (repository / "crates").glob("*/Cargo.toml"):
        content = tomllib.loads(manifest.read_text(encoding="utf-8"))
        for section in ("dependencies", "dev-dependencies"):
            needed = {
                value.get("package", name) if isinstance(value, dict) else name
                for name, value in content.get(section, {}).items()
            }
            assert needed <= packages, f"{manifest.parent.name} needs {sorted(needed - packages)}: run cargo build"
