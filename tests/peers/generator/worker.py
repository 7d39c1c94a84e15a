"""The cases of one family of classes: `python -m tests.peers.generator.worker FIRST STOP FOLDER`.

ROOT may crash or hang, so every case has a child process. Each prints its outcome as one line of JSON.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.peers.generator import cases, ntuple_cases, stages
from tests.peers.generator.cases import Outcome, attempt
from tests.peers.generator.families import Maker, build
from tests.peers.generator.ntuple_families import FieldMaker
from tests.peers.generator.report import to_line
from tests.peers.peers import import_root

# One family has so many cases: compiling its dictionary takes as long as many cases. Every other one makes RNTuples.
CASES_PER_FAMILY = 20
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


def main(first: int, stop: int, folder: Path) -> None:
    root = import_root()
    # Its pages of stack traces would hide what the cases say.
    root.gEnv.SetValue("Root.Stacktrace", "no")
    folder.mkdir(parents=True, exist_ok=True)
    number = first // CASES_PER_FAMILY
    makes_trees = number % 2 == 0
    family = Maker(number).make() if makes_trees else FieldMaker(number).make()
    build(root, family, folder, "driver.h" if makes_trees else "ntuple.h")
    case = cases.run_case if makes_trees else ntuple_cases.run_case
    for seed in range(first, stop):
        print(in_child(lambda seed=seed: case(root, family, seed, folder), seed), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
