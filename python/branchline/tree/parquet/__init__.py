"""Parquet files as trees: what the engine's files, trees and streams are for ROOT files, over pyarrow.

The classes have the methods of `branchline._core.File`, `Tree`, `Stream` and `Chunk` that reading uses, so that all
that is above them reads both kinds of files. This module imports no pyarrow: whoever reads ROOT files alone needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from branchline import _core
from branchline.extras import missing_packages_explained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from branchline.access import Access

ENDINGS = (".parquet", ".pq")


def is_parquet(path: str) -> bool:
    """Whether a path or a URL is that of a Parquet file, by its ending."""
    return path.partition("?")[0].partition("#")[0].lower().endswith(ENDINGS)


def opened(path: str, access: Access) -> _core.File:
    """The engine's handle on a file, or for the name of a Parquet file what has its methods.

    Raises MissingPackageError, MissingFileError, BadFileError, StorageError.
    """
    if not is_parquet(path):
        return _core.File(path, access)
    with missing_packages_explained():
        from branchline.tree.parquet.file import ParquetFile
    return cast("_core.File", ParquetFile(path, access))


def open_stream(sources: Sequence[Any], request: Any) -> _core.Stream:
    """A stream over Parquet files, which has the methods of the engine's. Raises MissingPackageError."""
    with missing_packages_explained():
        from branchline.tree.parquet.stream import ParquetStream
    return cast("_core.Stream", ParquetStream(sources, request))
