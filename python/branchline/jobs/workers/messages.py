"""What a worker process says to its job over their connection. Values of users are pickled by themselves on the way.

The answer to a DrawRequest is a SubJob, WAIT, or None where there are no more.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from branchline.base.texts import message_of
from branchline.errors import BranchlineError
from branchline.jobs.installed import installation_change
from branchline.jobs.package_versions import OtherVersionsError
from branchline.jobs.subjob import Finished, Folded, Held, Message, Note, Pickled


@dataclass(frozen=True)
class DrawRequest:
    """It wants its next sub-job; ``waits`` says whether it has nothing else to do until there is one."""

    waits: bool


@dataclass(frozen=True)
class SentResult:
    """A sub-job is done and this came out."""

    index: int
    value: Pickled


@dataclass(frozen=True)
class SentFold:
    """Neighbours are done, and this came out of them as one."""

    indices: range
    value: Pickled


@dataclass(frozen=True)
class SentNote:
    """Something in between. Of each ``kind``, which is the name of a type, a pool passes on the last one only."""

    kind: str
    value: Pickled


@dataclass(frozen=True)
class SentError:
    """What ended the worker, and where it was raised, as Python prints it."""

    error: Pickled
    traceback: str
    #: The process refused the job before it began: other workers may take it.
    is_refusal: bool = False

    @classmethod
    def of(cls, error: BaseException) -> SentError:
        """Of an error that is being handled. One that cannot travel goes as a RuntimeError with its text, and so does
        one that would end the job in place of being reported, as SystemExit.
        """
        text = traceback.format_exc()
        as_text = Pickled.of(RuntimeError(f"{type(error).__name__}: {message_of(error)}"))
        try:
            pickled = Pickled.of(error) if isinstance(error, Exception) else as_text
            pickled.value()
        except Exception:  # noqa: BLE001 - not every exception can travel, and each says so in its own way
            pickled = as_text
        return cls(pickled, text, isinstance(error, OtherVersionsError))

    def in_job(self) -> BaseException:
        """The error, to be raised in the job. One that is not Branchline's gets its traceback in the worker as a note,
        and where Branchline was installed anew, it becomes the cause of an error that says so.
        """
        error: BaseException = self.error.value()
        if isinstance(error, BranchlineError):
            return error
        error.add_note(f"In the worker:\n{self.traceback}")
        change = installation_change()
        if change is None:
            return error
        change.__cause__ = error
        return change


@dataclass(frozen=True)
class Farewell:
    """It ends in good order: all that it had has been sent."""


WorkerMessage = DrawRequest | SentResult | Held | SentFold | SentNote | SentError | Farewell


def sent(message: Message) -> SentResult | Held | SentFold | SentNote:
    """What a callable yields, as it travels."""
    if isinstance(message, Finished):
        return SentResult(message.index, Pickled.of(message.value))
    if isinstance(message, Folded):
        return SentFold(message.indices, Pickled.of(message.value))
    if isinstance(message, Note):
        return SentNote(type(message.value).__name__, Pickled.of(message.value))
    return message
