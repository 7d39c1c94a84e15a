"""Calls of a batch system's commands. Each has a deadline, and what fails is an error for the reader."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection, Mapping, Sequence

from branchline.base.limits import BATCH_CALL_TIMEOUT_S
from branchline.errors import BatchError


class TooManyJobsError(BatchError):
    """A batch system takes no more jobs of a user, or none at all."""


def call(
    words: Sequence[str],
    where: str,
    timeout_s: float = BATCH_CALL_TIMEOUT_S,
    variables: Mapping[str, str] | None = None,
    without: Collection[str] = (),
) -> str:
    """The output of a command. ``variables`` are added to its environment, those in ``without`` are left out of it;
    ``where`` is the hint if there is no such command. Raises BatchError.
    """
    program = shutil.which(words[0])
    if program is None:
        raise BatchError(f"there is no {words[0]} here", hint=where)
    try:
        done = subprocess.run(  # noqa: S603 - the words are ours and the user's, and no shell sees them
            [program, *words[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env={name: value for name, value in os.environ.items() if name not in without} | dict(variables or {}),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BatchError(f"{words[0]} did not answer within {timeout_s:.0f} s", retry=True) from None
    except OSError as error:
        raise BatchError(f"{words[0]} cannot be started: {error.strerror}", path=program) from None
    if done.returncode:
        reason = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        raise BatchError(f"{words[0]} failed: {reason}", retry=True)
    return done.stdout
