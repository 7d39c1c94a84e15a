"""Many cases, family by family, each family in a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.peers.generator.cases import Outcome
from tests.peers.generator.report import Summary, from_line

REPOSITORY = Path(__file__).resolve().parents[3]
FAMILY_SECONDS_MAX = 6000


@dataclass(frozen=True)
class Part:
    """The cases of one family: seeds from the first to before `stop`."""

    format: str
    family: int
    first: int
    stop: int


@dataclass(frozen=True)
class Draw:
    """Which cases to run."""

    seed: int
    cases: int
    cases_per_family: int
    formats: list[str]

    @property
    def command(self) -> str:
        """The environment variables that repeat it."""
        only = f" FORMAT={self.formats[0]}" if len(self.formats) == 1 else ""
        return f"SEED={self.seed} CASES={self.cases} FAMILY={self.cases_per_family}{only}"

    def parts(self) -> list[Part]:
        """The seeds, cut where the next family begins. Families of several formats alternate."""
        size, stop = self.cases_per_family, self.seed + self.cases
        borders = [self.seed, *range((self.seed // size + 1) * size, stop, size), stop]
        return [
            Part(self.formats[first // size % len(self.formats)], first // size, first, last)
            for first, last in pairwise(borders)
        ]


def run_part(part: Part, folder: Path) -> list[Outcome]:
    """The outcomes of the cases of one family; those that its process did not report are wrong."""
    numbers = [str(part.family), str(part.first), str(part.stop)]
    command = [sys.executable, "-m", "tests.peers.generator.worker", part.format, *numbers, str(folder)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=FAMILY_SECONDS_MAX)
    outcomes = [from_line(line) for line in done.stdout.splitlines() if line.startswith('{"seed"')]
    reported = {outcome.seed for outcome in outcomes}
    silent = [seed for seed in range(part.first, part.stop) if seed not in reported]
    what = f"nothing was said; the process ended with {done.returncode}\n{done.stderr[-4000:]}"
    return outcomes + [Outcome(seed, wrong=[f"seed {seed}: {what}"]) for seed in silent]


def run(draw: Draw, folder: Path, jobs: int, say: Callable[[str], None] = lambda _: None) -> Summary:
    """Runs the cases of a draw."""
    summary = Summary()
    parts = draw.parts()
    with ThreadPoolExecutor(jobs) as pool:
        found = pool.map(lambda part: run_part(part, folder / str(part.first)), parts)
        for part, outcomes in zip(parts, found, strict=True):
            for outcome in outcomes:
                summary.add(outcome)
            wrong = [text for outcome in outcomes for text in outcome.wrong]
            equal = sum(outcome.equal.total() for outcome in outcomes)
            say(f"{part.format}, seeds {part.first} to {part.stop - 1}: {equal} equal, {len(wrong)} wrong")
            for text in wrong:
                say(f"wrong: {text}")
    return summary
