"""Report errors of background threads: as a sentence on pages, and for internal errors as a traceback on stderr."""

from __future__ import annotations

import sys
import threading
import traceback
from contextlib import suppress

from branchline.base.limits import FAULT_TEXT_MAX, FAULTS_PRINTED_MAX
from branchline.base.texts import print_block, printable
from branchline.errors import BranchlineError, InternalError

_REPORT_IT = "please report it, with the output of the server"


def trouble_of(error: Exception, part: str) -> str:
    """Return the message for an error in a part of the control room. Prints the traceback of an internal error."""
    if isinstance(error, BranchlineError) and not isinstance(error, InternalError):
        return str(error)
    print_fault(error, part)
    if isinstance(error, InternalError):
        return str(error)
    return f"internal error in Branchline, {_REPORT_IT}: {type(error).__name__}: {error}"


def print_fault(error: Exception, part: str) -> None:
    """Print the traceback of an internal error, once per process and code location.

    A broken background task may fail every second, and its tracebacks must not fill the disk.
    """
    text = "".join(traceback.format_exception(error))
    if len(text) > FAULT_TEXT_MAX:
        text = f"{text[: FAULT_TEXT_MAX // 2]}\n...\n{text[-FAULT_TEXT_MAX // 2 :]}"
    # The key has no error message, because messages of the same bug differ, for example in a train's number.
    frames = tuple((one.filename, one.lineno) for one in traceback.extract_tb(error.__traceback__))
    cause = error.__cause__ or error.__context__
    left = _PRINTED.add((type(error).__name__, frames, () if cause is None else type(cause).__name__))
    if left is None:
        return
    last = "" if left else f"Printed tracebacks of {FAULTS_PRINTED_MAX} internal errors; no more will be printed.\n"
    # A closed stderr must not end the thread.
    with suppress(OSError, ValueError):
        head = f"Internal error in Branchline, {printable(part)}, {_REPORT_IT}:"
        print_block(f"{head}\n{text}{last}", sys.stderr)


class _Printed:
    """Keys of the internal errors that were printed; at most FAULTS_PRINTED_MAX."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: set[tuple[object, ...]] = set()

    def add(self, place: tuple[object, ...]) -> int | None:
        """Add an error by its code location.

        Returns how many more errors may be printed after this error, or None if this error must not be printed.
        """
        with self._lock:
            if place in self._places or len(self._places) >= FAULTS_PRINTED_MAX:
                return None
            self._places.add(place)
            return FAULTS_PRINTED_MAX - len(self._places)


_PRINTED = _Printed()
