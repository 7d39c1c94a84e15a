"""Objects of uproot and PyROOT. Their own package writes them to a temporary file, from which they are copied together
with the streamer infos of the class versions that it wrote.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from branchline.errors import UnsupportedBranchError
from branchline.reading.trees.file import File

Write = Callable[[Any, str, Path], None]


@contextmanager
def foreign_file(value: Any, name: str, path: str) -> Iterator[File | None]:
    """Yield a file with an object of uproot or PyROOT under its name; None for any other value.

    Raises UnsupportedBranchError if its package cannot write it.
    """
    write = _writer_of(value)
    if write is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="branchline-") as folder:
        written = Path(folder) / "object.root"
        try:
            write(value, name, written)
        except (TypeError, ValueError, NotImplementedError, AttributeError) as error:
            package = "uproot" if write is _by_uproot else "ROOT"
            raise UnsupportedBranchError(
                f"{name}: {package} cannot write this {type(value).__name__}: {error}",
                path=path,
                hint="read it with branchline, which copies objects of every class",
            ) from error
        with File(str(written)) as file:
            yield file


def _writer_of(value: Any) -> Write | None:
    if any(base.__module__ == "uproot.model" for base in type(value).__mro__):
        return _by_uproot
    return _by_root if hasattr(type(value), "__cpp_name__") and "ROOT" in sys.modules else None


def _by_uproot(value: Any, name: str, path: Path) -> None:
    from uproot.writing.writable import recreate

    with recreate(path, compression=None) as file:
        file[name] = value


def _by_root(value: Any, name: str, path: Path) -> None:
    root: Any = sys.modules["ROOT"]  # a value of it exists; ROOT is not a dependency
    if isinstance(value, root.TTree):
        raise ValueError("the baskets of a tree are in its own file")
    context = root.TDirectory.TContext()  # restores the current directory
    file = root.TFile(str(path), "RECREATE", "", 0)
    try:
        if not hasattr(value, "IsA") or file.WriteObject(value, name) <= 0:
            raise ValueError("it has no dictionary")
    finally:
        file.Close()
        del context
