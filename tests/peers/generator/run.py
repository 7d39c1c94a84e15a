"""Run many cases, family by family, in processes that load ROOT once for several families."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from threading import Lock

from tests.peers.generator.cases import Outcome
from tests.peers.generator.report import Summary, from_line

REPOSITORY = Path(__file__).resolve().parents[3]
# Maximum number of parts per process. If a process dies, its remaining parts are lost.
PARTS_PER_PROCESS_MAX = 20
# Line that a process prints after the outcomes of each part.
END_OF_PART = "end of part"


@dataclass(frozen=True)
class Part:
    """The cases of one family, with the seeds from `first` up to, but excluding, `stop`."""

    format: str
    family: int
    first: int
    stop: int

    def __str__(self) -> str:
        return f"{self.format}:{self.family}:{self.first}:{self.stop}"

    @classmethod
    def from_text(cls, text: str) -> Part:
        """Parse the text that `str` returns for a part."""
        name, *numbers = text.split(":")
        return cls(name, *map(int, numbers))


@dataclass(frozen=True)
class Draw:
    """The selection of cases to run."""

    seed: int
    cases: int
    cases_per_family: int
    formats: list[str]

    @property
    def command(self) -> str:
        """The environment variables that select the same cases."""
        only = f" FORMAT={self.formats[0]}" if len(self.formats) == 1 else ""
        return f"SEED={self.seed} CASES={self.cases} FAMILY={self.cases_per_family}{only}"

    def parts(self) -> list[Part]:
        """Return the cases as one part per family. Formats alternate from family to family."""
        size, stop = self.cases_per_family, self.seed + self.cases
        borders = [self.seed, *range((self.seed // size + 1) * size, stop, size), stop]
        return [
            Part(self.formats[first // size % len(self.formats)], first // size, first, last)
            for first, last in pairwise(borders)
        ]


def run_parts(parts: list[Part], folder: Path) -> Iterator[tuple[Part, list[Outcome]]]:
    """Run parts in one process, and yield each part with its outcomes. Cases without an outcome count as wrong."""
    command = [sys.executable, "-m", "tests.peers.generator.worker", str(folder), *map(str, parts)]
    folder.mkdir(parents=True, exist_ok=True)
    errors = folder / "errors.txt"
    with (
        errors.open("w") as stderr,
        subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=stderr, text=True) as worker,
    ):
        assert worker.stdout is not None
        for part in parts:
            said = takewhile(lambda line: line.strip() != END_OF_PART, iter(worker.stdout.readline, ""))
            outcomes = [from_line(line) for line in said if line.startswith('{"seed"')]
            reported = {outcome.seed for outcome in outcomes}
            silent = [seed for seed in range(part.first, part.stop) if seed not in reported]
            if silent:
                what = f"no outcome; the last errors of the process:\n{errors.read_text()[-4000:]}"
                outcomes += [Outcome(seed, wrong=[f"seed {seed}: {what}"]) for seed in silent]
            yield part, outcomes


def run(draw: Draw, folder: Path, jobs: int, say: Callable[[str], None] = lambda _: None) -> Summary:
    """Run the cases of a draw in ``jobs`` parallel processes, and return the summary."""
    summary = Summary()
    lock = Lock()

    def add(first: int) -> None:
        for part, outcomes in run_parts(parts[first : first + size], folder / str(first)):
            wrong = [text for outcome in outcomes for text in outcome.wrong]
            equal = sum(outcome.equal.total() for outcome in outcomes)
            with lock:
                for outcome in outcomes:
                    summary.add(outcome)
                say(f"{part.format}, seeds {part.first} to {part.stop - 1}: {equal} equal, {len(wrong)} wrong")
                for text in wrong:
                    say(f"wrong: {text}")

    parts = draw.parts()
    size = min(PARTS_PER_PROCESS_MAX, math.ceil(len(parts) / jobs))
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(add, range(0, len(parts), size)))
    return summary
