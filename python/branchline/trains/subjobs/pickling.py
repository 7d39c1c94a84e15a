"""Whether and how large outputs of wagons travel between processes."""

from __future__ import annotations

from typing import Any

import cloudpickle

from branchline.base.texts import message_of
from branchline.base.trust import from_own_process, unpickle
from branchline.errors import BranchlineError


class CannotPickleError(BranchlineError):
    """What a wagon returned cannot go from one process to another."""


class _Counter:
    """A file that counts what is written to it and keeps nothing."""

    def __init__(self) -> None:
        self.size_bytes = 0

    def write(self, data: Any) -> int:
        length = memoryview(data).nbytes
        self.size_bytes += length
        return length


def pickled_bytes(output: Any) -> int:
    """The size of an output as it goes between processes. Raises CannotPickleError, MemoryError."""
    counter = _Counter()
    try:
        cloudpickle.dump(output, counter)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        raise _cannot(error) from error
    return counter.size_bytes


def send_and_return(output: Any) -> None:
    """Sends an output on its way between processes and back. Raises CannotPickleError, MemoryError.

    With one worker it would not have to travel; but a train that works with one is to work with several.
    """
    try:
        unpickle(from_own_process(cloudpickle.dumps(output)))
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # noqa: BLE001 - as above
        raise _cannot(error) from None


def _cannot(error: BaseException) -> CannotPickleError:
    return CannotPickleError(
        f"what process() returned cannot travel between processes: {message_of(error)}",
        hint="return numbers, histograms, arrays, and lists and dicts of these",
    )
