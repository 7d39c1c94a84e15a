"""The exceptions that Branchline raises: each says what, which file and branch, and what to do."""

from __future__ import annotations


class BranchlineError(Exception):
    """Base of all errors of Branchline.

    ``what`` is the sentence for the reader, ``path`` the file that it is about, ``hint`` what to do about it and
    ``retry`` whether trying the same again may help.
    """

    def __init__(self, what: str, *, path: str | None = None, hint: str | None = None, retry: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.path = path
        self.hint = hint
        self.retry = retry

    def __str__(self) -> str:
        parts = []
        if self.path is not None and self.path not in self.what:
            parts.append(f"{self.path}: ")
        parts.append(self.what)
        if self.hint:
            parts.append(f" ({self.hint})")
        return "".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        state = {"path": self.path, "hint": self.hint, "retry": self.retry}
        return (type(self), (self.what,), state)


class BadFileError(BranchlineError):
    """The bytes of a file are not what its format demands: cut short, damaged, or not a ROOT file."""


class MissingFileError(BranchlineError, FileNotFoundError):
    """There is no such file."""


class StorageError(BranchlineError, OSError):
    """Reading from or writing to a storage failed."""


class NoSuchKeyError(BranchlineError, KeyError):
    """The file has no such object, or the tree no such branch; the message has the nearest names."""


class UnsupportedBranchError(BranchlineError, NotImplementedError):
    """The branch holds a kind of value that is not read yet; the message names its class."""


class DatasetError(BranchlineError):
    """A dataset is described wrongly, or matches nothing."""


class WagonError(BranchlineError):
    """A wagon file or object is not usable as it is."""


class MemoryLimitError(BranchlineError):
    """A single piece of work does not fit into the memory limit."""
