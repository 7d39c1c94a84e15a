"""Plans of a server that is killed at any moment; ``python -m tests.unit.control.plans.killed_plans`` has a thousand
kills.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path


def test_a_due_time_has_one_train_or_none_whatever_is_killed(repository: Path) -> None:
    seed = random.SystemRandom().randrange(2**31)
    words = [sys.executable, "-m", "tests.unit.control.plans.killed_plans", "--seeds", f"{seed}:{seed + 3}"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=repository, timeout=500, check=False)
    print(done.stdout, done.stderr)
    assert done.returncode == 0
