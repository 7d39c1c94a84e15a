"""Errors of objects that become histograms: hist is not installed, or hist cannot represent the object.

This module does not import hist.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from branchline.errors import NotHereError, UnsupportedBranchError
from branchline.reading.objects.object_record import Record


@contextmanager
def hist_is_needed() -> Iterator[None]:
    """Context manager for imports of hist and boost-histogram. Raises NotHereError if they are not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in ("hist", "boost_histogram", "uhi"):
            raise
        hint = "pip install 'branchline[histograms]', or read the stored members with file.record(name)"
        raise NotHereError(f"histograms need the package {error.name}, which is not installed", hint=hint) from error


def refused(record: Record, why: str) -> UnsupportedBranchError:
    """The error for an object that hist cannot represent."""
    what = f"{record.origin.place} is a {record.classname} that hist cannot represent: {why}"
    return UnsupportedBranchError(what, path=record.origin.file_path)
