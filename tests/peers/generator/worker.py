"""The cases of one family, in a process of their own: `python -m tests.peers.generator.worker FIRST STOP FOLDER`.

ROOT may crash or hang, so every case has a child process. Each prints its outcome as one line of JSON.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.peers.generator.cases import Outcome, attempt, run_case
from tests.peers.generator.families import Maker, build
from tests.peers.generator.report import to_line
from tests.peers.peers import import_root

# One family has so many cases: compiling its dictionary takes as long as many cases.
CASES_PER_FAMILY = 20
CASE_SECONDS_MAX = 120


def in_child(case: Callable[[], Outcome], seed: int) -> str:
    """The outcome of a case that runs in a child, as a line; that of a child that died says how."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(CASE_SECONDS_MAX)
        outcome, error = attempt(case)
        if error is not None:
            text = "".join(traceback.format_exception(error))
            outcome = Outcome(seed, wrong=[f"seed {seed}: the case failed\n{text}"])
        line = to_line(outcome)
        with os.fdopen(writing, "w") as pipe:
            pipe.write(line)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        line = pipe.read()
    _, status = os.waitpid(child, 0)
    if line:
        return line
    how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"
    return to_line(Outcome(seed, wrong=[f"seed {seed}: the process of the case died of {how}"]))


def main(first: int, stop: int, folder: Path) -> None:
    root = import_root()
    # Its pages of stack traces would hide what the cases say.
    root.gEnv.SetValue("Root.Stacktrace", "no")
    folder.mkdir(parents=True, exist_ok=True)
    family = Maker(first // CASES_PER_FAMILY).make()
    build(root, family, folder)
    for seed in range(first, stop):
        print(in_child(lambda seed=seed: run_case(root, family, seed, folder), seed), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
