"""The cases of one family of classes: `python -m tests.peers.generator.worker FORMAT FAMILY FIRST STOP FOLDER`.

ROOT may crash or hang, so every case has a child process. Each prints its outcome as one line of JSON.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.peers.generator import stages
from tests.peers.generator.cases import Outcome, attempt
from tests.peers.generator.formats import FORMATS
from tests.peers.generator.report import to_line
from tests.peers.peers import import_root

CASE_SECONDS_MAX = 120


def in_child(case: Callable[[], Outcome], seed: int) -> str:
    """The outcome of a case that runs in a child, as a line; that of a child that died says how, and doing what."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(CASE_SECONDS_MAX)
        with os.fdopen(writing, "w") as pipe:
            stages.report_to(pipe)
            outcome, error = attempt(case)
            if error is not None:
                text = "".join(traceback.format_exception(error))
                outcome = Outcome(seed, wrong=[f"seed {seed}: the case failed\n{text}"])
            pipe.write(to_line(outcome))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        last = (pipe.read().splitlines() or [""])[-1]
    _, status = os.waitpid(child, 0)
    if last.startswith("{"):
        return last
    how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"
    died = f"seed {seed}: the process of the case died of {how} when {last or 'it began'}"
    return to_line(Outcome(seed, lost=[died]) if last in stages.OF_ROOT else Outcome(seed, wrong=[died]))


def main(name: str, number: int, first: int, stop: int, folder: Path) -> None:
    root = import_root()
    # Its pages of stack traces would hide what the cases say.
    root.gEnv.SetValue("Root.Stacktrace", "no")
    folder.mkdir(parents=True, exist_ok=True)
    of = FORMATS[name]
    family = of.prepared_family(root, number, folder)
    of.warm_up(root, family, folder)
    for seed in range(first, stop):
        print(in_child(lambda seed=seed: of.run_case(root, family, seed, folder), seed), flush=True)
        for path in folder.glob(f"case{seed}.*"):
            path.unlink()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), Path(sys.argv[5]))
