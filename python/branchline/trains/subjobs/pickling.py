"""How wagons and their outputs travel between processes: one that fails on the way stops alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import cloudpickle

from branchline.base.texts import message_of
from branchline.base.trust import from_own_process, unpickle
from branchline.errors import BranchlineError, WagonError
from branchline.jobs.subjob import Pickled
from branchline.trains.wagons.wagons import Wagon


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


def packed(output: Any) -> Pickled | None:
    """Return an output for its way to another process. Raises CannotPickleError, MemoryError."""
    try:
        return None if output is None else Pickled.of(output)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        raise _cannot(error) from error


def unpacked(output: Pickled | None) -> Any:
    """Return an output that came from another process. Raises CannotPickleError, MemoryError."""
    try:
        return None if output is None else output.value()
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        raise _cannot(error) from error


def _cannot(error: BaseException) -> CannotPickleError:
    return CannotPickleError(
        f"what process() returned cannot travel between processes: {type(error).__name__}: {message_of(error)}",
        hint="return numbers, histograms, arrays, and lists and dicts of these",
    )


@dataclass(frozen=True)
class PackedWagons:
    """The wagons of a train on their way to another process.

    ``together`` keeps what wagons share shared. Where one of them cannot be unpickled, the others are taken from
    ``alone``, each by itself; ``bare`` are the wagons without objects of the user.
    """

    together: bytes
    bare: tuple[Wagon, ...]
    alone: tuple[bytes, ...]

    @classmethod
    def of(cls, wagons: Sequence[Wagon]) -> PackedWagons:
        """Raises what pickling a wagon raises."""
        alone = tuple(cloudpickle.dumps(one) for one in wagons) if len(wagons) > 1 else ()
        return cls(cloudpickle.dumps(tuple(wagons)), tuple(one.bare() for one in wagons), alone)

    def unpacked(self) -> tuple[Wagon, ...]:
        """Return the wagons. One that cannot be unpickled raises when it is to run."""
        together = _unpickled(self.together)
        if not isinstance(together, WagonError):
            return cast("tuple[Wagon, ...]", together)
        if not self.alone:
            return tuple(one.failing(together) for one in self.bare)
        return tuple(self.one(index) for index in range(len(self.bare)))

    def one(self, index: int) -> Wagon:
        """Return a wagon without unpickling the others. One that cannot be unpickled raises when it is to run."""
        if not self.alone:
            return self.unpacked()[index]
        found = _unpickled(self.alone[index])
        return self.bare[index].failing(found) if isinstance(found, WagonError) else cast("Wagon", found)


def _unpickled(content: bytes) -> Any:
    """Return wagons, or a WagonError."""
    try:
        return unpickle(from_own_process(content))
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # noqa: BLE001 - classes of users may raise anything
        failed = WagonError(f"cannot be unpickled: {type(error).__name__}: {message_of(error)}")
        failed.__cause__ = error
        return failed
