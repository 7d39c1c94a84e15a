"""Runs the few tests that failed beside others again, each alone and a few times.

One that passes each time then is unsteady: a fault of the test or of what it tests that comes rarely, and this is the
only sign of it. It is printed, so that somebody mends it. A few of them in a run of thousands do not stop the run, for
whoever changes something else cannot mend them; more of them mean that the change is at fault, or the machine.

    python -m tests.alone EXIT_CODE CACHE_FOLDER
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

#: With more failures than this the change is at fault, or the machine.
FAILURES_MAX = 5
#: So many of them may be unsteady.
UNSTEADY_MAX = 2
#: How often each has to pass alone.
ALONE_RUNS = 3
#: Of pytest: some tests failed. Others mean that it could not run them.
EXIT_FAILED_TESTS = 1


def main(arguments: list[str]) -> int:
    """The exit code for the whole run."""
    code, cache = int(arguments[0]), Path(arguments[1])
    failures = failed_tests(cache)
    if code != EXIT_FAILED_TESTS or not 0 < len(failures) <= FAILURES_MAX:
        return code
    print(
        f"\n{len(failures)} of the tests failed beside others. Each runs {ALONE_RUNS} times again, alone.", flush=True
    )
    unsteady = [name for name in failures if all(passes(name) for _ in range(ALONE_RUNS))]
    for name in failures:
        if name in unsteady:
            print(f"UNSTEADY {name}: failed beside others, passes alone; see above why, and mend it", flush=True)
        else:
            print(f"FAILED {name}: also alone", flush=True)
    if unsteady == failures and len(unsteady) <= UNSTEADY_MAX:
        return 0
    if len(unsteady) > UNSTEADY_MAX:
        print(f"{len(unsteady)} unsteady tests in one run are too many: at most {UNSTEADY_MAX} may be", flush=True)
    return EXIT_FAILED_TESTS


def failed_tests(cache: Path) -> list[str]:
    """The names that pytest kept in its cache; none if it kept nothing."""
    kept = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(kept.read_text())) if kept.is_file() else []


def passes(name: str) -> bool:
    """Whether a test passes in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name]
    return subprocess.run(command, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
