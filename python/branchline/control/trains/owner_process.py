"""What the control room has done as the Unix user of a train's owner: ``python -m
branchline.control.trains.owner_process ACTION USER_NUMBER FOLDER``. Everything goes through its pipes: the server opens
no file of that user.
"""

from __future__ import annotations

import os
import pwd
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath

from branchline.base.processes import own_python
from branchline.base.texts import print_line
from branchline.base.whole_files import failed_writing, write_whole
from branchline.control.sandbox.owner_call import OwnerAnswer, StartRequest
from branchline.control.sandbox.sandbox import OWNER_CALL_S, OWNER_REQUEST_MAX_BYTES, TAKEN_S
from branchline.control.trains import runner
from branchline.control.trains.results import send_results
from branchline.control.trains.runner import is_resumable
from branchline.errors import BranchlineError, OptionError, StorageError
from branchline.trains.out_folder.lock import JOBS, SUBMISSION
from branchline.trains.submitted.handle import SubmittedTrain, state_of

_PROCESS, _RESULTS = "process", "results"


class OwnersTrain:
    """The folder of a train below that of its user: sources, results, and what was written to the terminal."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def start(self) -> None:
        """Writes the sources that are sent, and becomes the process of the train. Raises StorageError."""
        content = sys.stdin.buffer.read(OWNER_REQUEST_MAX_BYTES)
        request = StartRequest.from_json(content)
        signal.alarm(0)
        os.umask(0o077)
        with failed_writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            if self._folder.stat().st_uid != os.getuid():
                raise StorageError("the folder of the train belongs to somebody else", path=str(self._folder))
        for name, text in request.sources.items():
            if ".." in PurePosixPath(name).parts or name.startswith("/"):
                raise OptionError(f"{name!r:.200} is no name of a source")
            write_whole(self._folder / name, text.encode())
        write_whole(self._folder / _PROCESS, str(os.getpid()).encode())
        command = list(request.command)
        results = Path(command[command.index("-o") + 1])
        write_whole(self._folder / _RESULTS, str(results).encode())
        command += ["--force"] if results.exists() else []
        log = os.open(self._folder / runner.LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        # Nothing of the server's is open any more.
        for target, source in enumerate((nothing, log, log)):
            os.dup2(source, target)
        os.closerange(3, 4096)
        os.execv(sys.executable, [*own_python(), "-s", "-m", *command])  # noqa: S606 - the command that anybody gives

    def look(self) -> OwnerAnswer:
        """How it stands; nothing before it has begun."""
        results = self._results()
        if results is None:
            return OwnerAnswer()
        status = state_of(results) if results.is_dir() else None
        is_alive = runner.is_process_alive(self._process(), results)
        return OwnerAnswer(status, runner.log_of(self._folder), is_alive, is_resumable(results))

    def cancel(self) -> OwnerAnswer:
        """Ends its process and its jobs; what is done is kept. Raises BatchError."""
        results = self._results()
        if results is None:
            return OwnerAnswer()
        if runner.is_process_alive(self._process(), results):
            runner.end_process(self._process())
        if (results / JOBS / SUBMISSION).is_file():
            SubmittedTrain(results).cancel()
        return OwnerAnswer()

    def resume(self) -> OwnerAnswer:
        """Submits what is missing. Raises BranchlineError."""
        SubmittedTrain(self._begun()).resume()
        return OwnerAnswer()

    def take(self) -> None:
        """Sends the files of its results."""
        signal.alarm(int(TAKEN_S))
        send_results(self._begun(), sys.stdout.buffer)
        sys.stdout.buffer.flush()

    def _results(self) -> Path | None:
        """The directory of its results, which the command of the last start has named."""
        with suppress(FileNotFoundError):
            return Path((self._folder / _RESULTS).read_text(encoding="utf-8"))
        return None

    def _begun(self) -> Path:
        results = self._results()
        if results is None:
            raise StorageError("the train has no folder here", path=str(self._folder))
        return results

    def _process(self) -> int:
        with suppress(OSError, ValueError):
            return int((self._folder / _PROCESS).read_text())
        return 0


def check_user(number: int) -> None:
    """Raises OptionError unless this process has the rights of one user, and no others: whatever the command is that
    was to change the user.
    """
    found = pwd.getpwuid(number)
    groups = {*os.getgrouplist(found.pw_name, found.pw_gid), found.pw_gid}
    has_users = {*os.getresuid()} == {number} and number != 0
    has_groups = {*os.getresgid()} <= groups and {*os.getgroups()} <= groups
    if not has_users or not has_groups:
        what = f"--submit-as did not become {found.pw_name}: users {os.getresuid()}, groups {sorted(os.getgroups())}"
        hint = "as sudo -n -u {user} --, or setpriv --reuid={user} --regid={user} --init-groups"
        raise OptionError(what, hint=hint)


def main() -> int:
    """Does one action; an error is written as a sentence."""
    action, number, folder = sys.argv[1:]
    # The server may not be able to end a process of another user.
    signal.alarm(int(OWNER_CALL_S))
    try:
        check_user(int(number))
        train = OwnersTrain(Path(folder))
        actions: dict[str, Callable[[], OwnerAnswer | None]] = {
            "start": train.start,
            "look": train.look,
            "cancel": train.cancel,
            "resume": train.resume,
            "take": train.take,
        }
        answer = actions[action]()
    except (BranchlineError, OSError) as error:
        if action in ("start", "take"):
            print_line(error, sys.stderr)
            return 1
        answer = OwnerAnswer(error=str(error))
    if answer is not None:
        sys.stdout.write(answer.as_json())
    return 0


if __name__ == "__main__":
    sys.exit(main())
