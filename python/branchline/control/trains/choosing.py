"""Which way a train is run: by where it is to run, and for whom the control room is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from branchline.control.room_errors import RefusedError
from branchline.control.sandbox.code_rules import CodeRunning
from branchline.control.trains.owner_runner import OwnerRunner
from branchline.control.trains.runner import OwnRunner, Runner
from branchline.control.trains.sandbox_runner import SandboxRunner
from branchline.control.trains.train import BATCH, HERE, TrainOrder

_NO_SUBMISSION = "this shared control room gives no trains to batch systems: it is served without --submit-as"
_NO_DASK = "a shared control room runs no trains on Dask, whose workers run all code as one user"


class Runners:
    """The ways of one control room. ``unix_user_of`` gives the Unix user of somebody, empty if they have none."""

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
        """Why no trains run at a place, or at none; empty if they do."""
        if self._code.no_trains:
            return self._code.no_trains
        if not self._code.is_shared:
            return ""
        if not place:
            return self.refused(HERE) and self.refused(BATCH[0]) and self.refused(HERE)
        if place == HERE:
            return self._code.no_trials
        if place in BATCH:
            return "" if self._code.submit_as is not None else _NO_SUBMISSION
        return _NO_DASK

    def of(self, order: TrainOrder) -> Runner:
        """The one for a train. Raises RefusedError."""
        if why := self.refused(order.place):
            hint = "order it at another place, or run it yourself: the page of each wagon has its source"
            raise RefusedError(why, hint=hint)
        return self._here if order.place == HERE else self._batch
