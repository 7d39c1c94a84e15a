"""Runner for trains that a shared control room submits to a batch system, as the Unix user of the train's owner."""

from __future__ import annotations

import hashlib
import os
import pwd
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from branchline.base.limits import TRIAL_LOG_MAX_BYTES
from branchline.base.texts import printable
from branchline.base.whole_files import failed_writing, write_whole
from branchline.control.people import Person
from branchline.control.registry.entries import DatasetEntry
from branchline.control.room_errors import RefusedError
from branchline.control.sandbox.owner_call import OwnerAnswer, StartRequest, SubmitAs, become_environment
from branchline.control.trains import runner
from branchline.control.trains.bundle import sources_of
from branchline.control.trains.results import receive_results
from branchline.control.trains.runner import Standing
from branchline.control.trains.train import Train, TrainOrder
from branchline.control.unix_users import unix_user
from branchline.errors import OptionError, StorageError
from branchline.records.sensors.status import TrainStatus
from branchline.trains.out_folder.state import job_of, status_at_end

_REQUEST = "sent.json"


@dataclass
class OwnerRunner:
    """Runs a train's process and batch jobs as the Unix user of the train's owner, in a folder of this Unix user.

    Sources, state and results are exchanged through pipes, so that the server does not open any file in this folder.
    """

    reports_itself: ClassVar[bool] = False

    submit_as: SubmitAs
    unix_user_of: Callable[[str], str]
    room: Path
    _looked: dict[int, OwnerAnswer] = field(default_factory=dict)

    def check(self, order: TrainOrder, dataset: DatasetEntry, who: Person, *, is_planned: bool) -> DatasetEntry:
        """Return the dataset unchanged.

        Raises RefusedError unless the owner orders the train, because the train has the access rights of the owner's
        Unix user. For the same reason, trains of plans must not contain wagons of other owners. Raises OptionError for
        a dataset with merge groups.
        """
        if who.name != order.owner:
            what = f"a train on {order.place} runs as the Unix user of its owner, so only {order.owner} can order it"
            raise RefusedError(what)
        self._user(order)
        if dataset.merge_groups:
            what = "a train on a batch system cannot have merge groups, since the server may not read the owner's files"
            raise OptionError(what, hint="order the train here, or on a dataset without merge groups")
        others = [one for one in order.wagons if one.partition("/")[0] != order.owner]
        if is_planned and others:
            what = f"a plan would run the code of {others[0]} as the Unix user of {order.owner}"
            raise RefusedError(what, hint="order such a train by hand, or set the place of the plan to here")
        return dataset

    def command(self, order: TrainOrder, dataset: DatasetEntry, folder: Path) -> list[str]:
        """Return the train's command, which uses a folder of the owner's Unix user."""
        return runner.command_of(order, dataset, self._folder(self._user(order), int(folder.name)))

    def start(self, train: Train, folder: Path) -> int:
        """Start the train as the owner's Unix user, with sources and command on stdin. Return the process ID."""
        user = self._user(train.order)
        self._looked.pop(train.number, None)
        place = self._folder(user, train.number)
        # Check before the start that the --submit-as command switches to the user.
        self.submit_as.ask(user, "look", place)
        sources = {name: content.decode() for name, content in sources_of(folder).items()}
        path = folder / _REQUEST
        write_whole(path, StartRequest(sources, train.command).as_json())
        with failed_writing(path):
            path.chmod(0o600)
        words = self.submit_as.command(user, "start", place)
        return runner.spawn(words, become_environment(), folder, path)

    def look(self, train: Train, folder: Path) -> Standing:
        """Return the train's state, which a process of the owner's Unix user determines."""
        del folder
        user = self._user(train.order)
        place = self._folder(user, train.number)
        # Check the process that the server started: the train may not have written its own process ID yet, or a
        # program such as sudo may still wait for the train.
        is_alive = runner.is_process_alive(train.process, place)
        looked = self.submit_as.ask(user, "look", place)
        self._looked[train.number] = looked
        return Standing(looked.status, is_alive or looked.is_alive)

    def shown(self, train: Train, folder: Path) -> TrainStatus | None:
        """Return the train's last known status. After the end, return the status from the train's record."""
        looked = self._looked.get(train.number)
        if train.is_over or looked is None:
            record = job_of(runner.results_of(folder, train.order))
            return None if record is None or not train.is_over else status_at_end(record)
        return looked.status

    def log(self, train: Train, folder: Path) -> str:
        """Return the output of the --submit-as command, followed by the train's log."""
        looked = self._looked.get(train.number)
        theirs = printable(looked.log[-TRIAL_LOG_MAX_BYTES:]) if looked else ""
        return "\n".join(one for one in (runner.log_of(folder), theirs) if one)

    def ended(self, train: Train, folder: Path) -> str:
        """Return an empty string, because only the log says why the train's process ended."""
        del train, folder
        return ""

    def cancel(self, train: Train, folder: Path) -> None:
        """Cancel the train as the owner's Unix user."""
        del folder
        if train.process:
            user = self._user(train.order)
            self.submit_as.ask(user, "cancel", self._folder(user, train.number))

    def can_resume(self, train: Train, folder: Path) -> bool:
        """Whether the train's batch jobs can be resumed."""
        self.look(train, folder)
        return self._looked[train.number].can_resume

    def resume(self, train: Train, folder: Path) -> None:
        """Resubmit the train's missing sub-jobs as the owner's Unix user."""
        del folder
        user = self._user(train.order)
        self._looked.pop(train.number, None)
        self.submit_as.ask(user, "resume", self._folder(user, train.number))

    def take(self, train: Train, folder: Path) -> None:
        """Copy the train's results, which a process of the owner's Unix user sends."""
        user = self._user(train.order)
        with self.submit_as.results(user, self._folder(user, train.number)) as source:
            try:
                receive_results(source, runner.results_of(folder, train.order))
            except StorageError as error:
                said = source.said()
                raise StorageError(f"{error}{f': {said}' if said else ''}", retry=error.retry) from None

    def _user(self, order: TrainOrder) -> pwd.struct_passwd:
        """Return the Unix user of a train's owner. Raises RefusedError, OptionError."""
        name = self.unix_user_of(order.owner)
        if not name:
            what = f"{order.owner} has no Unix user, which trains on {order.place} run as"
            hint = f"an administrator can set one: branchline people change {order.owner} --unix-user NAME"
            raise RefusedError(what, hint=f"{hint}; or order it here")
        return unix_user(name, self.room.stat().st_uid)

    def _folder(self, user: pwd.struct_passwd, number: int) -> Path:
        """Return a train's folder in the user's folder. Each control room has a subfolder of its own."""
        room = hashlib.sha256(os.fsencode(str(self.room))).hexdigest()[:8]
        return self.submit_as.folder_of(user) / room / str(number)
