"""The exceptions that Branchline raises: each says what, which file and branch, and what to do."""

from __future__ import annotations

import re
import sys
import warnings


def _names(sentence: str, path: str) -> bool:
    """Whether a sentence has a path in it: not as a part of a word or of a longer path."""
    return re.search(rf"(?<![\w./~-]){re.escape(path)}(?![\w/-])", sentence) is not None


class BranchlineError(Exception):
    """Base of all errors of Branchline.

    ``what`` is the sentence for the reader, ``path`` the file that it is about, ``hint`` what to do about it and
    ``retry`` whether trying the same again may help. Whatever fails in Branchline raises one of its subclasses.

        >>> try:
        ...     branchline.open("file.root:Event")
        ... except branchline.BranchlineError as error:
        ...     print(type(error).__name__, error.path, error.retry)
        NoSuchKeyError file.root False
    """

    def __init__(self, what: str, *, path: str | None = None, hint: str | None = None, retry: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.path = path
        self.hint = hint
        self.retry = retry

    def __str__(self) -> str:
        parts = []
        if self.path is not None and not _names(self.what, self.path):
            parts.append(f"{self.path}: ")
        parts.append(self.what)
        if self.hint:
            parts.append(f" ({self.hint})")
        return "".join(parts)

    @property
    def reason(self) -> str:
        """The sentence alone, for where the file is named already and the same advice would follow on every line."""
        return self.what

    def __reduce__(self) -> tuple[object, ...]:
        state = {"path": self.path, "hint": self.hint, "retry": self.retry}
        return (type(self), (self.what,), state)


class InternalError(BranchlineError):
    """An internal error in Branchline, not in a file, a storage or an option: please report it.

    The message names the file, the branch, the entries and the line of our code that failed; the hint says what to
    send.
    No option skips it, and no other file or try is the answer.
    """


class BadFileError(BranchlineError):
    """The bytes of a file are not what its format demands: cut short, damaged, or not a ROOT file."""


class MissingFileError(BranchlineError, FileNotFoundError):
    """There is no such file."""


class StorageError(BranchlineError, OSError):
    """Reading from or writing to a storage failed."""


class TakenNameError(StorageError, FileExistsError):
    """There is a file of this name already, and it is not to be replaced."""


class StuckError(BranchlineError):
    """A part of the job has not come back within any time that it could need; the message says what it was at."""


class NoSuchKeyError(BranchlineError, KeyError):
    """The file has no such object, or the tree no such branch; the message has the nearest names."""

    @property
    def reason(self) -> str:
        """The sentence with the nearest names."""
        return f"{self.what} ({self.hint})" if self.hint else self.what


# The same under uproot's name, so that the `except` of a script moves over.
KeyInFileError = NoSuchKeyError


class UnsupportedBranchError(BranchlineError, NotImplementedError):
    """The branch holds a kind of value that is not read yet; the message names its class."""


class OptionError(BranchlineError, ValueError):
    """An option is not there, or cannot have this value; nothing was read."""


class ExpressionError(BranchlineError, ValueError):
    """An expression or a cut is not valid, or cannot be computed from the values of its branches."""


class NotHereError(BranchlineError, AttributeError):
    """Something that uproot has and Branchline has not; the message says what does the same."""


class MissingPackageError(BranchlineError, ImportError):
    """A package that comes with an extra of Branchline is not installed; the message names the extra."""


class DatasetError(BranchlineError):
    """A dataset is described wrongly, or matches nothing."""


class WagonError(BranchlineError):
    """A wagon file or object cannot be used."""


class TableError(BranchlineError):
    """A table of a wagon is not one, differs from the rows before it, or cannot be written."""


class PartialResultError(BranchlineError):
    """A result is from a part of the events, or is not there yet; the message says why."""


class BatchError(BranchlineError):
    """A batch system is missing, or refuses a request."""


class UntrustedFileError(StorageError, PermissionError):
    """A file belongs to another user, or others can write to it, and loading it would run code from it."""


class MemoryLimitError(BranchlineError):
    """The memory limit is too small to work with."""


class BranchlineWarning(UserWarning):
    """Base of all warnings of Branchline."""


class UnreadableBranchWarning(BranchlineWarning):
    """Branches that cannot be read were left out of what was asked for as a whole; the message names them."""


class SkippedFileWarning(BranchlineWarning):
    """A file was left out, as was asked for."""


class RecoveredFileWarning(BranchlineWarning):
    """A file was never closed; what it held when its trees were last saved was found again."""


class PartialResultWarning(BranchlineWarning):
    """A train is not complete: the message names wagons that failed and files that were left out. It is shown each
    time, also where the same line warned before; ``TrainResult.raise_error`` makes an error of it.
    """


class ReportWarning(BranchlineWarning):
    """Not all that a job did could be reported to its control room so far; its results are complete nevertheless."""


def warn(message: str, category: type[BranchlineWarning], *, each_time: bool = False) -> None:
    """Warns at the line that called into Branchline, whatever is between. ``each_time`` also where Python would show a
    warning of the same line only once; filters of the user hold.
    """
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        frame = frame.f_back
        level += 1
    if each_time:
        # Without the module's own registry, in which Python notes what was shown.
        module = frame.f_globals.get("__name__")
        warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, module, registry={})
    else:
        warnings.warn(message, category, stacklevel=level + 1)


# Errors of a single file of a dataset: it is damaged or missing ...
BAD_FILE_ERRORS = (BadFileError, MissingFileError, StorageError)
# ... or lacks a tree or branch that the other files have.
FILE_ERRORS = (*BAD_FILE_ERRORS, NoSuchKeyError)
