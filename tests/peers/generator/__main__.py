"""Write random files with ROOT, read them with Branchline, or the reverse, and compare every value.

Run it as ``python -m tests.peers.generator``, with these environment variables:

SEED      seed of the first case, random by default
CASES     number of cases; ``SEED=1234 CASES=1`` repeats one case
FORMAT    one of the formats of `formats.py`; without it they alternate
FAMILY    number of cases that share one family of classes, whose dictionary takes seconds to compile
JOBS      number of families that run at a time
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from pathlib import Path

from tests.peers.generator.formats import CASES_PER_FAMILY, FORMATS
from tests.peers.generator.run import Draw, run

CASES = 200
# Maximum random seed. Small seeds are easy to type.
SEED_MAX = 1_000_000


def main() -> int:
    seed = int(os.environ.get("SEED") or random.randrange(SEED_MAX))
    cases = int(os.environ.get("CASES") or CASES)
    jobs = int(os.environ.get("JOBS") or os.cpu_count() or 1)
    family = int(os.environ.get("FAMILY") or CASES_PER_FAMILY)
    formats = [os.environ["FORMAT"]] if os.environ.get("FORMAT") else list(FORMATS)
    draw = Draw(seed, cases, family, formats)
    print(f"seed {seed}, {cases} cases; to repeat: {draw.command}", flush=True)
    with tempfile.TemporaryDirectory(prefix="branchline-peers-") as folder:
        summary = run(draw, Path(folder), jobs, say=lambda text: print(text, flush=True))
    print(summary.text())
    return 0 if summary.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
