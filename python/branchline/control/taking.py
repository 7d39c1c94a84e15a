"""Batches that come at the same time are on the disk together: waiting for the disk is most of what a batch costs."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from branchline.base.limits import BATCHES_TOGETHER_MAX
from branchline.control.database import Database
from branchline.control.faults import trouble_of
from branchline.control.intake import checked, take
from branchline.records.sending.message import ReportBatch


@dataclass(eq=False)
class _Request:
    batch: ReportBatch
    now: datetime
    reporter: str = ""
    taken: bool | None = None
    refusal: ValueError | None = None

    @property
    def is_answered(self) -> bool:
        return self.taken is not None or self.refusal is not None


class Intake:
    """Takes batches for several threads at once. Whoever comes first takes what the others bring meanwhile, too."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._first_in_line = threading.Lock()
        self._lock = threading.Lock()
        self._waiting: list[_Request] = []
        self._trouble = ""

    @property
    def trouble(self) -> str:
        """Why the last batches could not be taken, which jobs send again; empty if they could."""
        return self._trouble

    def take(self, batch: ReportBatch, reporter: str = "") -> bool:
        """Takes a batch, which is on the disk then; False if it was taken before.

        Raises ValueError for one that no job would send, or whose job somebody else reports, DatabaseError.
        """
        now = datetime.now(UTC)
        own = _Request(checked(batch, now), now, reporter)
        with self._lock:
            self._waiting.append(own)
        with self._first_in_line:
            if not own.is_answered:
                self._take_with(own)
        if own.refusal is not None:
            raise own.refusal
        return bool(own.taken)

    def _take_with(self, own: _Request) -> None:
        """Takes some of what waits, this one among them. Raises DatabaseError."""
        with self._lock:
            self._waiting.remove(own)
            others = self._waiting[: BATCHES_TOGETHER_MAX - 1]
            del self._waiting[: BATCHES_TOGETHER_MAX - 1]
        if not others:
            self._commit([own])
            return
        try:
            self._commit([own, *others])
        except BaseException as error:
            # The fault may be of any of them: this one is taken alone, and each of the others in its own thread.
            with self._lock:
                self._waiting = others + self._waiting
            if not isinstance(error, Exception):
                raise
            self._commit([own])

    def _commit(self, requests: Sequence[_Request]) -> None:
        """Takes all in one transaction; what is refused leaves nothing in it. Answers when all is on the disk."""
        try:
            answers = self._answers(requests)
        except Exception as error:
            self._trouble = trouble_of(error, "reports")
            raise
        self._trouble = ""
        for one, answer in zip(requests, answers, strict=True):
            if isinstance(answer, ValueError):
                one.refusal = answer
            else:
                one.taken = answer

    def _answers(self, requests: Sequence[_Request]) -> list[bool | ValueError]:
        """Whether each was taken, or why it is refused."""
        answers: list[bool | ValueError] = []
        with self._database.writing() as connection:
            for one in requests:
                connection.execute("SAVEPOINT batch")
                try:
                    answers.append(take(connection, one.batch, one.now, one.reporter))
                except ValueError as refusal:
                    connection.execute("ROLLBACK TO batch")
                    answers.append(refusal)
                connection.execute("RELEASE batch")
        return answers
