"""How a control room runs code of users: as oneself, in a sandbox, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from branchline.control.trials.sandbox import Sandbox, system_folders
from branchline.errors import OptionError


@dataclass(frozen=True)
class CodeRunning:
    """Without ``sandbox`` code runs as the user of this process. In it, it reads only files below ``data``.
    ``no_trials`` and ``no_trains`` say why none may run; they are empty where they may.
    """

    sandbox: Sandbox | None = None
    data: tuple[Path, ...] = ()
    no_trials: str = ""
    no_trains: str = ""

    @classmethod
    def of_shared_server(cls, data: Sequence[Path], secret: Sequence[Path] = ()) -> CodeRunning:
        """For code of others: trials in the sandbox of this machine, if there is one, on files below some folders, and
        no trains. Raises OptionError if something ``secret``, as the folder of the server, could be read there.

        Trains write results for a long time, to farms and from storages, which a sandbox without network cannot.
        """
        readable = [one.resolve() for one in (*data, *system_folders())]
        for path in (one.resolve() for one in secret):
            for folder in readable:
                if path.is_relative_to(folder) or folder.is_relative_to(path):
                    what = f"code of others could read {path}, since it may read {folder}"
                    raise OptionError(what, hint="keep both apart, and name with --data folders of data alone")
        found = Sandbox.find()
        no_trains = "a shared control room runs no trains: their code would run as its own user"
        if isinstance(found, Sandbox):
            return cls(found, tuple(one.resolve() for one in data), no_trains=no_trains)
        return cls(None, (), f"this shared control room runs no code, since it has no sandbox: {found}", no_trains)
