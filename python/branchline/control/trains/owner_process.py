"""Program that the server runs as the Unix user of a train's owner, to start, inspect or cancel the train.

Usage: ``python -m branchline.control.trains.owner_process ACTION USER_NUMBER FOLDER``. The program communicates with
the server through pipes, so that the server does not open any file of the Unix user.
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
from branchline.trains.out_folder.claim import JOBS, SUBMISSION
from branchline.trains.submitted.handle import SubmittedTrain, state_of

_PROCESS, _RESULTS = "process", "results"


class OwnersTrain:
    """A train in a folder of its owner's Unix user. The folder has sources, results and log."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def start(self) -> None:
        """Write the sources from stdin to the folder, then replace this process by the train's process (exec).

        Raises StorageError if the folder cannot be written.
        """
        content = sys.stdin.buffer.read(OWNER_REQUEST_MAX_BYTES)
        request = StartRequest.from_json(content)
        signal.alarm(0)
        os.umask(0o077)
        with failed_writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            if self._folder.stat().st_uid != os.getuid():
                raise StorageError("the folder of the train belongs to another user", path=str(self._folder))
        for name, text in request.sources.items():
            if ".." in PurePosixPath(name).parts or name.startswith("/"):
                raise OptionError(f"invalid name of a source {name!r:.200}")
            write_whole(self._folder / name, text.encode())
        write_whole(self._folder / _PROCESS, str(os.getpid()).encode())
        command = list(request.command)
        results = Path(command[command.index("-o") + 1])
        write_whole(self._folder / _RESULTS, str(results).encode())
        command += ["--force"] if results.exists() else []
        log = os.open(self._folder / runner.LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        # Replace stdin, stdout and stderr, and close all other file descriptors that come from the server.
        for target, source in enumerate((nothing, log, log)):
            os.dup2(source, target)
        os.closerange(3, 4096)
        os.execv(sys.executable, [*own_python(), "-s", "-m", *command])  # noqa: S606 - command from the server

    def look(self) -> OwnerAnswer:
        """Return the train's state and log; an empty answer if the train has not started."""
        results = self._results()
        if results is None:
            return OwnerAnswer()
        status = state_of(results) if results.is_dir() else None
        is_alive = runner.is_process_alive(self._process(), results)
        return OwnerAnswer(status, runner.log_of(self._folder), is_alive, is_resumable(results))

    def cancel(self) -> OwnerAnswer:
        """End the train's process and batch jobs. Results of finished sub-jobs are kept. Raises BatchError."""
        results = self._results()
        if results is None:
            return OwnerAnswer()
        if runner.is_process_alive(self._process(), results):
            runner.end_process(self._process())
        if (results / JOBS / SUBMISSION).is_file():
            SubmittedTrain(results).cancel()
        return OwnerAnswer()

    def resume(self) -> OwnerAnswer:
        """Resubmit the train's missing sub-jobs. Raises BranchlineError."""
        SubmittedTrain(self._begun()).resume()
        return OwnerAnswer()

    def take(self) -> None:
        """Write the train's result files to stdout, in the stream format of ``send_results``."""
        signal.alarm(int(TAKEN_S))
        send_results(self._begun(), sys.stdout.buffer)
        sys.stdout.buffer.flush()

    def _results(self) -> Path | None:
        """Return the result directory of the train's last start; None if the train has not started."""
        with suppress(FileNotFoundError):
            return Path((self._folder / _RESULTS).read_text(encoding="utf-8"))
        return None

    def _begun(self) -> Path:
        results = self._results()
        if results is None:
            raise StorageError("the train was not started in this folder", path=str(self._folder))
        return results

    def _process(self) -> int:
        with suppress(OSError, ValueError):
            return int((self._folder / _PROCESS).read_text())
        return 0


def check_user(number: int) -> None:
    """Raise OptionError unless all user and group IDs of this process belong to the user with ID ``number``.

    This check verifies that the command given as --submit-as has switched to the user.
    """
    found = pwd.getpwuid(number)
    groups = {*os.getgrouplist(found.pw_name, found.pw_gid), found.pw_gid}
    has_users = {*os.getresuid()} == {number} and number != 0
    has_groups = {*os.getresgid()} <= groups and {*os.getgroups()} <= groups
    if not has_users or not has_groups:
        ids = f"users {os.getresuid()}, groups {sorted(os.getgroups())}"
        what = f"the command of --submit-as did not switch to the user {found.pw_name}: it runs with {ids}"
        hint = "for example, use sudo -n -u {user} --, or setpriv --reuid={user} --regid={user} --init-groups"
        raise OptionError(what, hint=hint)


def main() -> int:
    """Run one action. Errors become part of the answer. Actions without an answer print their errors."""
    action, number, folder = sys.argv[1:]
    # End this process after a timeout, because the server may have no permission to kill another user's process.
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
