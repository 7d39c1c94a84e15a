"""Run cases of class families: `python -m tests.peers.generator.worker FOLDER FORMAT:FAMILY:FIRST:STOP ...`.

ROOT may crash or hang, so the cases run in child processes. The outcome of each case is printed as a line of JSON.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tests.peers.generator import stages
from tests.peers.generator.cases import Outcome, attempt
from tests.peers.generator.families import DictionaryError
from tests.peers.generator.formats import FORMATS
from tests.peers.generator.report import to_line
from tests.peers.generator.run import END_OF_PART, Part
from tests.peers.peers import import_root

CASE_SECONDS_MAX = 120
FAMILY_SECONDS_MAX = 6000
FATAL_SIGNALS = (signal.SIGALRM, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
# Memory limit of a case. ROOT may write uninitialised counts, and allocates memory according to these counts when it
# reads them.
CASE_MEMORY_BYTES_MAX = 8_000_000_000


def in_children(case: Callable[[int], Outcome], seeds: Sequence[int]) -> Iterator[str]:
    """Yield the outcomes of cases as lines. A child process runs the cases. If it dies, the outcome of the current case
    has the signal or status and the current stage, and another child process runs the remaining cases.
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
    """Run cases in this process, write an outcome for each case, and exit."""
    for number in FATAL_SIGNALS:
        # ROOT's signal handlers may hang if the heap is corrupted, and would then delay the alarm.
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_DATA, (CASE_MEMORY_BYTES_MAX, CASE_MEMORY_BYTES_MAX))
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


def run_part(root: Any, part: Part, folder: Path) -> None:
    """Print the outcomes of the cases of one family."""
    folder.mkdir(parents=True, exist_ok=True)
    of = FORMATS[part.format]
    try:
        family = of.prepared_family(root, part.family, folder)
    except DictionaryError as error:
        for seed in range(part.first, part.stop):
            print(to_line(Outcome(seed, lost=[f"seed {seed}: {error}"])), flush=True)
        return

    def case(seed: int) -> Outcome:
        try:
            return of.run_case(root, family, seed, folder)
        finally:
            for path in folder.glob(f"case{seed}.*"):
                path.unlink()

    for line in in_children(case, range(part.first, part.stop)):
        print(line, flush=True)


def main(folder: Path, parts: list[Part]) -> None:
    """Run each family in a fork of this process, after loading ROOT and compiling the code that all families need."""
    root = import_root()
    # ROOT's long stack traces would hide the output of the cases.
    root.gEnv.SetValue("Root.Stacktrace", "no")
    for name in {part.format: None for part in parts}:
        prepared = folder / name
        prepared.mkdir(parents=True, exist_ok=True)
        FORMATS[name].prepare(root, prepared)
    for part in parts:
        child = os.fork()
        if child == 0:
            signal.alarm(FAMILY_SECONDS_MAX)
            _, error = attempt(lambda part=part: run_part(root, part, folder / str(part.first)))
            if error is not None:
                traceback.print_exception(error)
                sys.stderr.flush()
            os._exit(error is not None)
        os.waitpid(child, 0)
        print(END_OF_PART, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Part.from_text(text) for text in sys.argv[2:]])
