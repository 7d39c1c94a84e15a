"""Random trees written by ROOT, read by Branchline, every value compared: `python -m tests.peers.generator`.

SEED is the seed of the first case (random if not given) and CASES their number: `SEED=1234 CASES=1` repeats one case.
JOBS is the number of families at a time.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from pathlib import Path

from tests.peers.generator.run import run

CASES = 200
# Seeds that are easily typed again.
SEED_MAX = 1_000_000


def main() -> int:
    seed = int(os.environ.get("SEED") or random.randrange(SEED_MAX))
    cases = int(os.environ.get("CASES") or CASES)
    jobs = int(os.environ.get("JOBS") or os.cpu_count() or 1)
    print(f"seed {seed}, {cases} cases; to repeat: SEED={seed} CASES={cases}", flush=True)
    with tempfile.TemporaryDirectory(prefix="branchline-peers-") as folder:
        summary = run(seed, cases, Path(folder), jobs, say=lambda text: print(text, flush=True))
    print(summary.text())
    return 0 if summary.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
