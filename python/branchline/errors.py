"""The exceptions that Branchline raises. Their messages state the problem, the file and branch, and the remedy."""

from __future__ import annotations

import linecache
import re
import sys
import traceback
import warnings

# Maximum length of a message in the short traceback of a notebook.
_MESSAGE_MAX = 2000
# Characters that move the cursor of a terminal or reorder others.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_FULL = "(%xmode Verbose, then %tb: the full traceback)"


def _names(sentence: str, path: str) -> bool:
    """Whether a sentence names a path. A match inside a word or a longer path does not count."""
    return re.search(rf"(?<![\w./~-]){re.escape(path)}(?![\w/-])", sentence) is not None


class BranchlineError(Exception):
    """Base class of all errors that Branchline raises.

    ``what`` is a sentence that states the problem, ``path`` the file concerned, ``hint`` the remedy, and ``retry``
    whether a retry may succeed.

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

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows instead of a traceback: the line in the cell, the message and its notes.

        Internal errors and errors that no cell caused are shown with the traceback. With ``%xmode Verbose``, all are.
        """
        shell = sys.modules["IPython"].get_ipython()
        where = ""
        for frame, number in traceback.walk_tb(self.__traceback__):
            file = frame.f_code.co_filename
            if (cell := shell.compile.format_code_name(file)) is not None:
                where = f"{' '.join(cell)}, line {number}: {linecache.getline(file, number).strip()}"
        if not where or isinstance(self, InternalError) or shell.InteractiveTB.mode == "Verbose":
            full: list[str] = shell.InteractiveTB.structured_traceback(type(self), self, self.__traceback__)
            return full
        notes = [str(one) for one in getattr(self, "__notes__", [])[:2]]
        lines = [where, f"{type(self).__name__}: {self}", *notes]
        return [
            *(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", " ".join(one.split()))[:_MESSAGE_MAX] for one in lines),
            _FULL,
        ]

    @property
    def reason(self) -> str:
        """The problem without the file and the hint, for lists that show these only once."""
        return self.what

    def __reduce__(self) -> tuple[object, ...]:
        state = {"path": self.path, "hint": self.hint, "retry": self.retry}
        return (type(self), (self.what,), state)


class InternalError(BranchlineError):
    """An internal error in Branchline, not in a file, a storage or an option: please report it.

    The message names the file, the branch, the entries and the line of Branchline's code that failed; the hint says
    what to send. Options that skip bad files do not skip this error, and neither a retry nor another replica helps.
    """


class BadFileError(BranchlineError):
    """The content of a file is invalid: the file is truncated, damaged, or has an unexpected format."""


class MissingFileError(BranchlineError, FileNotFoundError):
    """The file does not exist."""


class StorageError(BranchlineError, OSError):
    """Reading from or writing to a storage failed."""


class TakenNameError(StorageError, FileExistsError):
    """A file with this name already exists, and the caller did not allow replacing it."""


class StuckError(BranchlineError):
    """Opening, reading or decoding made no progress until its timeout; the message names the operation."""


class NoSuchKeyError(BranchlineError, KeyError):
    """A file has no object, or a tree has no branch, of this name; the message suggests similar names."""

    @property
    def reason(self) -> str:
        """The problem, with the similar names from the hint."""
        return f"{self.what} ({self.hint})" if self.hint else self.what


# Alias with uproot's name, so that `except` clauses of uproot scripts keep working.
KeyInFileError = NoSuchKeyError


class UnsupportedBranchError(BranchlineError, NotImplementedError):
    """Branchline does not support the type of a branch or the class of an object; the message names it."""


class OptionError(BranchlineError, ValueError):
    """An option does not exist or has an invalid value; nothing was read."""


class ExpressionError(BranchlineError, ValueError):
    """An expression or a cut is invalid, or cannot be computed from the values of its branches."""


class NotHereError(BranchlineError, AttributeError):
    """Branchline lacks a feature of uproot, or an optional package is not installed; the message names the remedy."""


class MissingPackageError(BranchlineError, ImportError):
    """A package that one of Branchline's extras installs is missing; the message names the extra."""


class DatasetError(BranchlineError):
    """The description of a dataset is invalid, or no file matches it."""


class WagonError(BranchlineError):
    """A wagon file or object cannot be used."""


class TableError(BranchlineError):
    """A table of a wagon is invalid, does not match the rows before it, or cannot be written."""


class PartialResultError(BranchlineError):
    """A result covers only part of the events, or does not exist yet; the message gives the reason."""


class BatchError(BranchlineError):
    """A batch system is not available, or rejected a request."""


class UntrustedFileError(StorageError, PermissionError):
    """A file belongs to another user, or others can write to it, and loading it would run code from it."""


class MemoryLimitError(BranchlineError):
    """The memory limit is too small for the data that must be in memory at the same time."""


class BranchlineWarning(UserWarning):
    """Base class of all warnings that Branchline issues."""


class UnreadableBranchWarning(BranchlineWarning):
    """Unreadable branches were left out, because they were not requested by name; the message names them."""


class SkippedFileWarning(BranchlineWarning):
    """A file was skipped, as an option of the call allows."""


class RecoveredFileWarning(BranchlineWarning):
    """A file was never closed; the data up to the last save of its trees were recovered."""


class PartialResultWarning(BranchlineWarning):
    """A train is incomplete: the message names the failed wagons and the skipped files. The warning is shown for every
    run, even from the same line of code. ``TrainResult.raise_error`` raises PartialResultError instead.
    """


class ReportWarning(BranchlineWarning):
    """Some reports of a job did not reach its control room; this does not affect the results of the job."""


def warn(message: str, category: type[BranchlineWarning], *, each_time: bool = False) -> None:
    """Issue a warning for the line of the user's code that called Branchline. With ``each_time``, repeated warnings for
    the same line are shown again, unless the user's filters suppress them.
    """
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        frame = frame.f_back
        level += 1
    if each_time:
        # Pass an empty registry: the registry of the module contains the warnings that were already shown.
        module = frame.f_globals.get("__name__")
        warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, module, registry={})
    else:
        warnings.warn(message, category, stacklevel=level + 1)


# Errors of a single file of a dataset: it is damaged or missing ...
BAD_FILE_ERRORS = (BadFileError, MissingFileError, StorageError)
# ... or lacks a tree or branch that the other files have.
FILE_ERRORS = (*BAD_FILE_ERRORS, NoSuchKeyError)
