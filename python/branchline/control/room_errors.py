"""Errors of the control room, for its pages and its scripts."""

from __future__ import annotations

from branchline.errors import BranchlineError


class RefusedError(BranchlineError):
    """The person has no right to do it."""


class NoSuchEntryError(BranchlineError, LookupError):
    """There is no such job, wagon, dataset or file."""


class ConflictError(BranchlineError):
    """Somebody else has changed the same meanwhile."""


class DatabaseError(BranchlineError, OSError):
    """The database of the control room cannot be opened, read or written."""
