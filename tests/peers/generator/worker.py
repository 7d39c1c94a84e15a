"""The cases of one family of classes: `python -m tests.peers.generator.worker FORMAT FAMILY FIRST STOP FOLDER`.

ROOT may crash or hang, so the cases run in a child process. Each prints its outcome as one line of JSON.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from tests.peers.generator import stages
from tests.peers.generator.cases import Outcome, attempt
from tests.peers.generator.formats import FORMATS
from tests.peers.generator.report import to_line
from tests.peers.peers import import_root

CASE_SECONDS_MAX = 120


def in_children(case: Callable[[int], Outcome], seeds: Sequence[int]) -> Iterator[str]:
    """The outcomes of cases, as lines. One child runs them until it dies; the outcome of the case that it was at says
    how it died, and doing what, and another child goes on behind that case.
    """
    while seeds:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            run_cases(case, seeds, writing)
        os.close(writing)
        done, stage = 0, "it began"
        with os.fdopen(reading) as pipe:
            for line in map(str.strip, pipe):
                if line.startswith("{"):
                    done += 1
                    yield line
                stage = "it began" if line.startswith("{") else line
        _, status = os.waitpid(child, 0)
        seeds = seeds[done:]
        if seeds:
            how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"
            died = f"seed {seeds[0]}: the process of the case died of {how} when {stage}"
            is_of_root = stage in stages.OF_ROOT
            yield to_line(Outcome(seeds[0], lost=[died]) if is_of_root else Outcome(seeds[0], wrong=[died]))
            seeds = seeds[1:]


def run_cases(case: Callable[[int], Outcome], seeds: Sequence[int], writing: int) -> NoReturn:
    """Runs cases in this process, which ends with them, and writes an outcome for each."""
    with os.fdopen(writing, "w") as pipe:
        stages.report_to(pipe)
        for seed in seeds:
            signal.alarm(CASE_SECONDS_MAX)
            outcome, error = attempt(lambda seed=seed: case(seed))
            if error is not None:
                text = "".join(traceback.format_exception(error))
                outcome = Outcome(seed, wrong=[f"seed {seed}: the case failed\n{text}"])
            pipe.write(f"{to_line(outcome)}\n")
            pipe.flush()
    os._exit(0)


def main(name: str, number: int, first: int, stop: int, folder: Path) -> None:
    root = import_root()
    # Its pages of stack traces would hide what the cases say.
    root.gEnv.SetValue("Root.Stacktrace", "no")
    folder.mkdir(parents=True, exist_ok=True)
    of = FORMATS[name]
    family = of.prepared_family(root, number, folder)
    of.warm_up(root, family, folder)

    def case(seed: int) -> Outcome:
        try:
            return of.run_case(root, family, seed, folder)
        finally:
            for path in folder.glob(f"case{seed}.*"):
                path.unlink()

    for line in in_children(case, range(first, stop)):
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), Path(sys.argv[5]))
