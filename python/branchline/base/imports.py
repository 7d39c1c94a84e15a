"""Optional dependencies, each installed by an extra of Branchline, and lazy imports.

A package's names are imported on first use, so that each command imports only the modules that it needs.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from branchline.errors import MissingPackageError

#: Maps the import name of each optional package to the extra that installs it.
EXTRAS = {
    "boost_histogram": "histograms",
    "hist": "histograms",
    "uhi": "histograms",
    "cloudpickle": "trains",
    "coffea": "coffea",
    "psutil": "trains",
    "zstandard": "trains",
    "dask": "dask-awkward",
    "dask_awkward": "dask-awkward",
    "distributed": "cluster",
    "httpx": "trains",
    "jinja2": "reports",
    "joserfc": "web",
    "markupsafe": "reports",
    "matplotlib": "reports",
    "mplhep": "reports",
    "pyarrow": "parquet",
    "rucio": "rucio",
    "scipy": "statistics",
    "starlette": "web",
    "uproot": "demo",
    "uvicorn": "web",
}


def lazily(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Return a ``__getattr__`` for a package that imports a name on first use.

    ``names`` maps modules to the names that they define. Submodules of the package need not be listed.
    """
    homes = {name: module for module, some in names.items() for name in some}

    def find(name: str) -> object:
        if name in homes:
            with missing_packages_explained():
                value: object = getattr(importlib.import_module(homes[name]), name)
            setattr(sys.modules[package], name, value)
            return value
        module = f"{package}.{name}"
        if not name.startswith("_") and importlib.util.find_spec(module) is not None:
            return importlib.import_module(module)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find


@contextmanager
def missing_packages_explained() -> Iterator[None]:
    """Convert a failed import of an optional package to a MissingPackageError that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise _missing(package) from error


def require(*packages: str) -> None:
    """Raise MissingPackageError unless these packages are installed, so that a long job fails at the start."""
    for package in packages:
        if not _is_installed(package):
            raise _missing(package)


def hint_for(error: BaseException) -> str | None:
    """Return how to install the package whose import failed; None for other errors and packages without an extra."""
    package = ((error.name or "") if isinstance(error, ModuleNotFoundError) else "").partition(".")[0]
    return _hint(package) if package in EXTRAS else None


def install_hint(package: str) -> str | None:
    """Return how to install an optional package; None if the package is installed."""
    return None if _is_installed(package) else _hint(package)


def left_out(what: str, *packages: str) -> str | None:
    """Return a sentence that says that the output ``what`` is left out because a package is missing; None if all
    packages are installed.
    """
    for package in packages:
        if not _is_installed(package):
            return f"{what} left out, since {package} is not installed: {_hint(package)}"
    return None


def _is_installed(package: str) -> bool:
    # Tests hide a package by setting its entry in `sys.modules` to None.
    if package in sys.modules:
        return sys.modules[package] is not None
    return importlib.util.find_spec(package) is not None


def _missing(package: str) -> MissingPackageError:
    return MissingPackageError(f"the package {package} is required but not installed", hint=_hint(package))


def _hint(package: str) -> str:
    return f"pip install 'branchline[{EXTRAS[package]}]'"
