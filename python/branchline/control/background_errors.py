"""What becomes of an error that no person waits for: a sentence for pages, and of a fault of ours a traceback."""

from __future__ import annotations

import sys
import threading
import traceback
from contextlib import suppress

from branchline.base.limits import FAULT_TEXT_MAX, FAULTS_PRINTED_MAX
from branchline.base.texts import print_block, printable
from branchline.errors import BranchlineError, InternalError

_REPORT_IT = "please report it, with what the server printed"


def trouble_of(error: Exception, part: str) -> str:
    """The sentence about an error of a part of the control room. Of a fault of Branchline the traceback is printed."""
    if isinstance(error, BranchlineError) and not isinstance(error, InternalError):
        return str(error)
    print_fault(error, part)
    if isinstance(error, InternalError):
        return str(error)
    return f"a fault of Branchline, {_REPORT_IT}: {type(error).__name__}: {error}"


def print_fault(error: Exception, part: str) -> None:
    """Prints the traceback of a fault, unless this process has printed one of the same place. What fails goes on to
    fail once a second, and must not fill the disk that has the log.
    """
    text = "".join(traceback.format_exception(error))
    if len(text) > FAULT_TEXT_MAX:
        text = f"{text[: FAULT_TEXT_MAX // 2]}\n...\n{text[-FAULT_TEXT_MAX // 2 :]}"
    left = _PRINTED.add(_place(error))
    if left is None:
        return
    last = "" if left else f"Tracebacks of {FAULTS_PRINTED_MAX} faults were printed: no other one will be.\n"
    # The thread goes on, also where nobody reads what it says.
    with suppress(OSError, ValueError):
        head = f"A fault of Branchline in {printable(part)}, {_REPORT_IT}:"
        print_block(f"{head}\n{text}{last}", sys.stderr)


def _place(error: BaseException) -> tuple[object, ...]:
    """Where an error and its cause came from: messages of one fault differ, as by the number of a train."""
    frames = tuple((one.filename, one.lineno) for one in traceback.extract_tb(error.__traceback__))
    cause = error.__cause__ or error.__context__
    return (type(error).__name__, frames, () if cause is None else type(cause).__name__)


class _Printed:
    """The faults that were printed. Their number is bounded, as a fault might come from ever new places."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: set[tuple[object, ...]] = set()

    def add(self, place: tuple[object, ...]) -> int | None:
        """How many more there may be; None for one that is known or too many."""
        with self._lock:
            if place in self._places or len(self._places) >= FAULTS_PRINTED_MAX:
                return None
            self._places.add(place)
            return FAULTS_PRINTED_MAX - len(self._places)


_PRINTED = _Printed()
