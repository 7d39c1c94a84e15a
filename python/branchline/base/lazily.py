"""Lazy imports: names of a package are imported at their first use, so that a command pays only for what it needs."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from branchline.base.extras import missing_packages_explained


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
