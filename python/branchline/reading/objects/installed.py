"""Packages that only histograms need, and what to install where they are missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from branchline.errors import NotHereError


@contextmanager
def hist_is_needed() -> Iterator[None]:
    """Imports of hist and boost-histogram go inside. Raises NotHereError where they are not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in ("hist", "boost_histogram", "uhi"):
            raise
        hint = "pip install 'branchline[histograms]', or read the stored members with file.record(name)"
        raise NotHereError(f"histograms need the package {error.name}, which is not installed", hint=hint) from error
