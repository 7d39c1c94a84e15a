"""Opens Parquet files with the interface that the engine has for ROOT files, based on pyarrow.

The classes have all methods of `branchline._core.File`, `Tree`, `Stream` and `Chunk` that the reading code calls, so
the same code reads both formats. pyarrow is imported lazily: reading ROOT files does not require it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

from branchline import _core
from branchline.base.imports import missing_packages_explained
from branchline.errors import DatasetError, MissingFileError, OptionError, StorageError
from branchline.reading.locations import files_in, is_parquet, is_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from branchline.reading.access import Access


def opened(path: str, access: Access) -> _core.File:
    """Open a ROOT file with the engine. For a Parquet file, return an object with the same interface.

    Raises MissingPackageError, MissingFileError, BadFileError, StorageError, and OptionError for a folder of files.
    """
    try:
        if not is_parquet(path):
            return _core.File(path, access)
        with missing_packages_explained():
            from branchline.reading.parquet.parquet_file import ParquetFile
        return cast("_core.File", ParquetFile(path, access))
    except StorageError:
        _refuse_folder(path)
        raise
    except MissingFileError as error:
        # Try to open the path before treating it as a pattern, because a file name may contain brackets.
        if is_pattern(path) and error.hint is None:
            error.hint = f"only a single file can be opened; {_all_of(path)}"
        raise


def _refuse_folder(path: str) -> None:
    """Raise OptionError for a folder of files."""
    if not os.path.isdir(path):
        return
    try:
        files = files_in(path)
    except DatasetError:
        return
    kind = "Parquet" if is_parquet(files[0]) else "ROOT"
    raise OptionError(
        f"{path} is a folder of {len(files)} {kind} files; only a single file can be opened",
        hint=f"{_all_of(path)}; branchline.open({files[0]!r}) opens one of them",
    ) from None


def _all_of(path: str) -> str:
    """A hint with code that reads all files of a folder or a pattern."""
    return f"branchline.iterate({path!r}) reads all files step by step, branchline.concatenate({path!r}) into one array"


def open_stream(sources: Sequence[Any], request: Any) -> _core.Stream:
    """A stream over Parquet files with the interface of the engine's streams. Raises MissingPackageError."""
    with missing_packages_explained():
        from branchline.reading.parquet.parquet_stream import ParquetStream
    return cast("_core.Stream", ParquetStream(sources, request))
