"""Control rooms whose process is killed at any moment; ``python -m tests.unit.control.killed`` has a thousand kills."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path


def test_what_was_acknowledged_survives_kills_and_counts_once(repository: Path) -> None:
    seed = random.SystemRandom().randrange(2**31)
    words = [sys.executable, "-m", "tests.unit.control.killed", "--seeds", f"{seed}:{seed + 2}"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=repository, timeout=300, check=False)
    print(done.stdout, done.stderr)
    assert done.returncode == 0
