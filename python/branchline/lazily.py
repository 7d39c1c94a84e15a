"""Names of a package that are imported when they are first asked for, so that a command pays only for what it uses."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from branchline.extras import missing_packages_explained


def lazily(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """What finds a name of a package that is not there yet: the package's ``__getattr__``.

    ``names`` are names by the modules that have them; modules of the package itself are found without being listed.
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
