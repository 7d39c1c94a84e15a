"""Trains of a shared control room that go to a batch system: as the Unix user of their owner."""

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
from branchline.control.accounts import unix_user
from branchline.control.people import Person
from branchline.control.registry.entries import DatasetEntry
from branchline.control.room_errors import RefusedError
from branchline.control.sandbox.owner_call import OwnerAnswer, StartRequest, SubmitAs, become_environment
from branchline.control.trains import runner
from branchline.control.trains.bundle import sources_of
from branchline.control.trains.results import receive_results
from branchline.control.trains.runner import Standing
from branchline.control.trains.train import Train, TrainOrder
from branchline.errors import OptionError, StorageError
from branchline.records.sensors.status import TrainStatus
from branchline.trains.out_folder.state import job_of, status_at_end

_REQUEST = "sent.json"


@dataclass
class OwnerRunner:
    """The process of the train and its jobs run as the Unix user of the owner, in a folder of that user. The server
    sends the sources through a pipe, and gets the state and the results by pipes: it opens nothing there.
    """

    reports_itself: ClassVar[bool] = False

    submit_as: SubmitAs
    unix_user_of: Callable[[str], str]
    room: Path
    _looked: dict[int, OwnerAnswer] = field(default_factory=dict)

    def check(self, order: TrainOrder, dataset: DatasetEntry, who: Person, *, is_planned: bool) -> DatasetEntry:
        """By whom it is ordered for, since all its code has the rights of that person's user."""
        if who.name != order.owner:
            raise RefusedError(f"a train on {order.place} runs as the Unix user of its owner: {order.owner} orders it")
        self._user(order)
        if dataset.merge_groups:
            what = "merge groups are listed by the server, which has no right to the files of others"
            raise OptionError(what, hint="order the train here, or over a dataset without merge groups")
        others = [one for one in order.wagons if one.partition("/")[0] != order.owner]
        if is_planned and others:
            what = f"a plan would run the code of {others[0]} as the Unix user of {order.owner}"
            raise RefusedError(what, hint="order such a train by hand, or have the plan run here")
        return dataset

    def command(self, order: TrainOrder, dataset: DatasetEntry, folder: Path) -> list[str]:
        """In the folder of the user."""
        return runner.command_of(order, dataset, self._folder(self._user(order), int(folder.name)))

    def start(self, train: Train, folder: Path) -> int:
        """Starts the process of the user, which gets all that it needs to know."""
        user = self._user(train.order)
        self._looked.pop(train.number, None)
        place = self._folder(user, train.number)
        # A command that does not become the user is said at once.
        self.submit_as.ask(user, "look", place)
        sources = {name: content.decode() for name, content in sources_of(folder).items()}
        path = folder / _REQUEST
        write_whole(path, StartRequest(sources, train.command).as_json())
        with failed_writing(path):
            path.chmod(0o600)
        words = self.submit_as.command(user, "start", place)
        return runner.spawn(words, become_environment(), folder, path)

    def look(self, train: Train, folder: Path) -> Standing:
        """As the process of the user says it."""
        del folder
        user = self._user(train.order)
        place = self._folder(user, train.number)
        # Until it has written its own number; where another program waits for it, always.
        is_alive = runner.is_process_alive(train.process, place)
        looked = self.submit_as.ask(user, "look", place)
        self._looked[train.number] = looked
        return Standing(looked.status, is_alive or looked.is_alive)

    def shown(self, train: Train, folder: Path) -> TrainStatus | None:
        """What was seen last; of one that has ended its record says it."""
        looked = self._looked.get(train.number)
        if train.is_over or looked is None:
            record = job_of(runner.results_of(folder, train.order))
            return None if record is None or not train.is_over else status_at_end(record)
        return looked.status

    def log(self, train: Train, folder: Path) -> str:
        """What the command that became the user wrote, and what the train wrote."""
        looked = self._looked.get(train.number)
        theirs = printable(looked.log[-TRIAL_LOG_MAX_BYTES:]) if looked else ""
        return "\n".join(one for one in (runner.log_of(folder), theirs) if one)

    def ended(self, train: Train, folder: Path) -> str:
        """Nothing is known but its log."""
        del train, folder
        return ""

    def cancel(self, train: Train, folder: Path) -> None:
        """Has the user end it."""
        del folder
        if train.process:
            user = self._user(train.order)
            self.submit_as.ask(user, "cancel", self._folder(user, train.number))

    def can_resume(self, train: Train, folder: Path) -> bool:
        """Whether its jobs can go on."""
        self.look(train, folder)
        return self._looked[train.number].can_resume

    def resume(self, train: Train, folder: Path) -> None:
        """Has the user submit what is missing."""
        del folder
        user = self._user(train.order)
        self._looked.pop(train.number, None)
        self.submit_as.ask(user, "resume", self._folder(user, train.number))

    def take(self, train: Train, folder: Path) -> None:
        """Takes over what the process of the user sends."""
        user = self._user(train.order)
        with self.submit_as.results(user, self._folder(user, train.number)) as source:
            try:
                receive_results(source, runner.results_of(folder, train.order))
            except StorageError as error:
                said = source.said()
                raise StorageError(f"{error}{f': {said}' if said else ''}", retry=error.retry) from None

    def _user(self, order: TrainOrder) -> pwd.struct_passwd:
        """As whom a train runs. Raises RefusedError, OptionError."""
        name = self.unix_user_of(order.owner)
        if not name:
            what = f"{order.owner} has no Unix user, and trains on {order.place} run as that of their owner"
            hint = f"an administrator gives one: branchline people change {order.owner} --unix-user NAME"
            raise RefusedError(what, hint=f"{hint}; or order it here")
        return unix_user(name, self.room.stat().st_uid)

    def _folder(self, user: pwd.struct_passwd, number: int) -> Path:
        """That of a train; those of several control rooms are apart."""
        room = hashlib.sha256(os.fsencode(str(self.room))).hexdigest()[:8]
        return self.submit_as.folder_of(user) / room / str(number)
