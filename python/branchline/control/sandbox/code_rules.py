"""How a control room runs code of users: as oneself, in a sandbox, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from branchline.control.sandbox.owner_call import SubmitAs
from branchline.control.sandbox.sandbox import Sandbox, TrainLimits, system_folders
from branchline.errors import OptionError


@dataclass(frozen=True)
class CodeRunning:
    """Without ``sandbox`` code runs as the user of this process. In it, it reads only files below ``data``.
    ``no_trials`` and ``no_trains`` say why none may run; they are empty where they may. Where a control room
    ``is_shared``, trains here are in the sandbox, within ``train_limits``, and go to batch systems by ``submit_as``.
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
        """For code of others: in the sandbox of this machine, if there is one, on files below some folders. Raises
        OptionError if something ``secret``, as the folder of the server, could be read there.
        """
        readable = [one.resolve() for one in (*data, *system_folders())]
        for path in (one.resolve() for one in secret):
            for folder in readable:
                if path.is_relative_to(folder) or folder.is_relative_to(path):
                    what = f"code of others could read {path}, since it may read {folder}"
                    raise OptionError(what, hint="keep both apart, and name with --data folders of data alone")
        limits = train_limits or TrainLimits()
        limits.check()
        found = Sandbox.find()
        placed = tuple(one.resolve() for one in data)
        if isinstance(found, Sandbox):
            return cls(found, placed, is_shared=True, train_limits=limits, submit_as=submit_as)
        no_trials = f"this shared control room runs no code here, since it has no sandbox: {found}"
        return cls(None, (), no_trials, is_shared=True, submit_as=submit_as)
