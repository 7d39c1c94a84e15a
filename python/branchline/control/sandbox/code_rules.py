"""Rules for running user code in a control room: as the server's user, in a sandbox, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from branchline.control.sandbox.owner_call import SubmitAs
from branchline.control.sandbox.sandbox import Sandbox, TrainLimits, system_folders
from branchline.errors import OptionError


@dataclass(frozen=True)
class CodeRunning:
    """How trials and trains run.

    - ``sandbox``: the sandbox for user code; None to run user code as the user of this process.
    - ``data``: folders whose files code in the sandbox can read.
    - ``no_trials``, ``no_trains``: reasons why trials or trains are disabled; empty if they are enabled.
    - ``is_shared``: whether the control room has several users. Trains on this machine then run in the sandbox.
    - ``train_limits``: limits on trains in the sandbox.
    - ``submit_as``: how a shared control room submits trains to batch systems as their owners; None if it cannot.
    """

    sandbox: Sandbox | None = None
    data: tuple[Path, ...] = ()
    no_trials: str = ""
    no_trains: str = ""
    is_shared: bool = False
    train_limits: TrainLimits = field(default_factory=TrainLimits)
    submit_as: SubmitAs | None = None

    @classmethod
    def of_shared_server(
        cls,
        data: Sequence[Path],
        secret: Sequence[Path] = (),
        train_limits: TrainLimits | None = None,
        submit_as: SubmitAs | None = None,
    ) -> CodeRunning:
        """Return the rules of a shared control room. If this machine has no sandbox, trials are disabled.

        Raises OptionError if user code could read one of the ``secret`` folders, such as the server's folder.
        """
        readable = [one.resolve() for one in (*data, *system_folders())]
        for path in (one.resolve() for one in secret):
            for folder in readable:
                if path.is_relative_to(folder) or folder.is_relative_to(path):
                    what = f"user code could read {path}, because it may read {folder}"
                    raise OptionError(what, hint="move one of them, and name only folders of data with --data")
        limits = train_limits or TrainLimits()
        limits.check()
        found = Sandbox.find()
        placed = tuple(one.resolve() for one in data)
        if isinstance(found, Sandbox):
            return cls(found, placed, is_shared=True, train_limits=limits, submit_as=submit_as)
        no_trials = f"this shared control room cannot run code on this machine without a sandbox: {found}"
        return cls(None, (), no_trials, is_shared=True, submit_as=submit_as)
