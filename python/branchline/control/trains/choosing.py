"""Choose the runner of a train, which depends on the train's place and on whether the control room is shared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from branchline.control.room_errors import RefusedError
from branchline.control.sandbox.code_rules import CodeRunning
from branchline.control.trains.owner_runner import OwnerRunner
from branchline.control.trains.runner import OwnRunner, Runner
from branchline.control.trains.sandbox_runner import SandboxRunner
from branchline.control.trains.train import HERE, TrainOrder
from branchline.jobs.batch.system import BATCH_SYSTEMS

_NO_SUBMISSION = "this shared control room submits no trains to batch systems: it is served without --submit-as"
_NO_DASK = "a shared control room runs no trains on Dask, because its workers run the code of all people as one user"


class Runners:
    """A control room's runners. ``unix_user_of`` returns a person's Unix user; empty for a person without Unix user."""

    def __init__(self, code: CodeRunning, unix_user_of: Callable[[str], str], room: Path) -> None:
        self.own = OwnRunner()
        self._code = code
        self._here: Runner = self.own
        self._batch: Runner = self.own
        if code.sandbox is not None:
            self._here = SandboxRunner(code.sandbox, code.data, code.train_limits)
        if code.submit_as is not None:
            self._batch = OwnerRunner(code.submit_as, unix_user_of, room)

    def refused(self, place: str = "") -> str:
        """Return the reason why trains cannot run at ``place``; empty if they can.

        An empty ``place`` asks about all places: the result is empty if trains can run at any place.
        """
        if self._code.no_trains:
            return self._code.no_trains
        if not self._code.is_shared:
            return ""
        if not place:
            return self.refused(HERE) and self.refused(BATCH_SYSTEMS[0]) and self.refused(HERE)
        if place == HERE:
            return self._code.no_trials
        if place in BATCH_SYSTEMS:
            return "" if self._code.submit_as is not None else _NO_SUBMISSION
        return _NO_DASK

    def of(self, order: TrainOrder) -> Runner:
        """Return the runner for a train. Raises RefusedError if trains cannot run at the train's place."""
        if why := self.refused(order.place):
            hint = "order it at another place, or run it yourself: the page of each wagon has its source"
            raise RefusedError(why, hint=hint)
        return self._here if order.place == HERE else self._batch
