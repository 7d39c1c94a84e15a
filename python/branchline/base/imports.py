"""Optional packages, each installed by an extra of Branchline, and lazy imports.

A package's names are imported on first use, so that each command only imports what it needs.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from branchline.errors import MissingPackageError

#: The extra that installs a package, by the name under which it is imported.
EXTRAS = {
    "boost_histogram": "histograms",
    "hist": "histograms",
    "uhi": "histograms",
    "cloudpickle": "trains",
    "coffea": "coffea",
    "psutil": "trains",
    "dask": "dask-awkward",
    "dask_awkward": "dask-awkward",
    "distributed": "cluster",
    "httpx": "web",
    "jinja2": "reports",
    "joserfc": "web",
    "markupsafe": "reports",
    "matplotlib": "reports",
    "mplhep": "reports",
    "pyarrow": "parquet",
    "starlette": "web",
    "uproot": "demo",
    "uvicorn": "web",
}


def lazily(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package, which imports a name when it is first used.

    ``names`` are the names by the modules that have them. Modules of the package itself need not be listed.
    """
    homes = {name: module for module, some in names.items() for name in some}

    def find(name: str) -> Any:
        if name in homes:
            with missing_packages_explained():
                value = getattr(importlib.import_module(homes[name]), name)
            setattr(sys.modules[package], name, value)
            return value
        module = f"{package}.{name}"
        if not name.startswith("_") and importlib.util.find_spec(module) is not None:
            return importlib.import_module(module)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find


@contextmanager
def missing_packages_explained() -> Iterator[None]:
    """Turns the error of an import inside into one that names the extra to install. Raises MissingPackageError."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise _missing(package) from error


def require(*packages: str) -> None:
    """Checks that packages are installed, before hours of work end without them. Raises MissingPackageError."""
    for package in packages:
        if not _is_installed(package):
            raise _missing(package)


def hint_for(error: BaseException) -> str | None:
    """How to install what an import lacks; None where that is no package of an extra."""
    package = ((error.name or "") if isinstance(error, ModuleNotFoundError) else "").partition(".")[0]
    return _hint(package) if package in EXTRAS else None


def install_hint(package: str) -> str | None:
    """How to install a package of an extra; None if it is installed."""
    return None if _is_installed(package) else _hint(package)


def left_out(what: str, *packages: str) -> str | None:
    """A sentence that says what is left out because a package is not installed; None if all of them are."""
    for package in packages:
        if not _is_installed(package):
            return f"{what} left out, since {package} is not installed: {_hint(package)}"
    return None


def _is_installed(package: str) -> bool:
    # A test hides a package with None in its place.
    if package in sys.modules:
        return sys.modules[package] is not None
    return importlib.util.find_spec(package) is not None


def _missing(package: str) -> MissingPackageError:
    return MissingPackageError(f"this needs the package {package}, which is not installed", hint=_hint(package))


def _hint(package: str) -> str:
    return f"pip install 'branchline[{EXTRAS[package]}]'"
