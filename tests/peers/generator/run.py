"""Many cases, family by family, each family in a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.peers.generator.cases import Outcome
from tests.peers.generator.report import Summary, from_line
from tests.peers.generator.worker import CASES_PER_FAMILY

REPOSITORY = Path(__file__).resolve().parents[3]
FAMILY_SECONDS_MAX = 3000


def families(seed: int, cases: int) -> list[tuple[int, int]]:
    """The seeds from one on, cut where the next family begins."""
    borders = [seed, *range((seed // CASES_PER_FAMILY + 1) * CASES_PER_FAMILY, seed + cases, CASES_PER_FAMILY)]
    return list(zip(borders, [*borders[1:], seed + cases], strict=True))


def run_family(first: int, stop: int, folder: Path) -> list[Outcome]:
    """The outcomes of the cases of one family; those that its process did not report are wrong."""
    command = [sys.executable, "-m", "tests.peers.generator.worker", str(first), str(stop), str(folder / str(first))]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=FAMILY_SECONDS_MAX)
    outcomes = [from_line(line) for line in done.stdout.splitlines() if line.startswith('{"seed"')]
    reported = {outcome.seed for outcome in outcomes}
    silent = [seed for seed in range(first, stop) if seed not in reported]
    what = f"nothing was said; the process ended with {done.returncode}\n{done.stderr[-4000:]}"
    return outcomes + [Outcome(seed, wrong=[f"seed {seed}: {what}"]) for seed in silent]


def run(seed: int, cases: int, folder: Path, jobs: int, say: Callable[[str], None] = lambda _: None) -> Summary:
    """Runs the cases with seeds from `seed` on."""
    summary = Summary()
    with ThreadPoolExecutor(jobs) as pool:
        parts = families(seed, cases)
        for (first, stop), outcomes in zip(parts, pool.map(lambda part: run_family(*part, folder), parts), strict=True):
            wrong = sum(len(outcome.wrong) for outcome in outcomes)
            for outcome in outcomes:
                summary.add(outcome)
            say(f"seeds {first} to {stop - 1}: {sum(o.equal.total() for o in outcomes)} equal, {wrong} wrong")
    return summary
