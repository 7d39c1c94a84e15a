"""Errors of the control room, for its pages and its scripts."""

from __future__ import annotations

from branchline.errors import BranchlineError


class RefusedError(BranchlineError):
    """The person is not allowed to do this, or the control room does not allow it."""


class NoSuchEntryError(BranchlineError, LookupError):
    """A job, wagon, dataset or other entry with this name does not exist."""


class ConflictError(BranchlineError):
    """The current state does not allow this, for example because another person has changed the same entry."""


class DatabaseError(BranchlineError, OSError):
    """The database of the control room cannot be opened, read or written."""
