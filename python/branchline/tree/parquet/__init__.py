"""Parquet files as trees: what the engine's files, trees and streams are for ROOT files, over pyarrow.

The classes have the methods of `branchline._core.File`, `Tree`, `Stream` and `Chunk` that reading uses, so that all
that is above them reads both kinds of files. This module imports no pyarrow: whoever reads ROOT files alone needs none.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

from branchline import _core
from branchline.errors import DatasetError, OptionError, StorageError
from branchline.extras import missing_packages_explained
from branchline.locations import files_in, is_parquet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from branchline.access import Access


def opened(path: str, access: Access) -> _core.File:
    """The engine's handle on a file, or for the name of a Parquet file what has its methods.

    Raises MissingPackageError, MissingFileError, BadFileError, StorageError, and OptionError for a folder of files.
    """
    try:
        if not is_parquet(path):
            return _core.File(path, access)
        with missing_packages_explained():
            from branchline.tree.parquet.file import ParquetFile
        return cast("_core.File", ParquetFile(path, access))
    except StorageError:
        _refuse_folder(path)
        raise


def _refuse_folder(path: str) -> None:
    """Raises OptionError for a folder of files, which is no file."""
    if not os.path.isdir(path):
        return
    try:
        files = files_in(path)
    except DatasetError:
        return
    kind = "Parquet" if is_parquet(files[0]) else "ROOT"
    raise OptionError(
        f"{path} is a folder of {len(files)} {kind} files, and one file is opened",
        hint=f"read all with branchline.iterate, concatenate or run, or open one of them: {files[0]}",
    ) from None


def open_stream(sources: Sequence[Any], request: Any) -> _core.Stream:
    """A stream over Parquet files, which has the methods of the engine's. Raises MissingPackageError."""
    with missing_packages_explained():
        from branchline.tree.parquet.stream import ParquetStream
    return cast("_core.Stream", ParquetStream(sources, request))
