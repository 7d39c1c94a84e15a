"""Parquet files as trees: what the engine's files, trees and streams are for ROOT files, over pyarrow.

The classes have the methods of `branchline._core.File`, `Tree`, `Stream` and `Chunk` that reading uses, so that all
that is above them reads both kinds of files. This module imports no pyarrow: whoever reads ROOT files alone needs none.
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
    """The engine's handle on a file, or for the name of a Parquet file what has its methods.

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
        # The brackets of a pattern may also be in the name of a file, so that is looked for first.
        if is_pattern(path) and error.hint is None:
            error.hint = f"one file is opened; of a pattern {_all_of(path)}"
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
        hint=f"{_all_of(path)}; branchline.open({files[0]!r}) opens one of them",
    ) from None


def _all_of(path: str) -> str:
    """What reads all files of a folder or a pattern, as it can be copied."""
    return f"branchline.iterate({path!r}) reads all files step by step, branchline.concatenate({path!r}) at once"


def open_stream(sources: Sequence[Any], request: Any) -> _core.Stream:
    """A stream over Parquet files, which has the methods of the engine's. Raises MissingPackageError."""
    with missing_packages_explained():
        from branchline.reading.parquet.parquet_stream import ParquetStream
    return cast("_core.Stream", ParquetStream(sources, request))
