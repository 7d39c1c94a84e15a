"""Runs the few tests that failed beside others once more, each alone.

One that passes then is unsteady: a fault of the test or of what it tests, which its name at the end asks somebody to
mend. It is not the fault of the change that is tested, so it does not stop that.

    python -m tests.alone EXIT_CODE CACHE_FOLDER
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

#: With more failures than this the change is at fault, or the machine.
FAILURES_MAX = 5
#: Of pytest: some tests failed. Others mean that it could not run them.
EXIT_FAILED_TESTS = 1


def main(arguments: list[str]) -> int:
    """The exit code for the whole run."""
    code, cache = int(arguments[0]), Path(arguments[1])
    failures = failed_tests(cache)
    if code != EXIT_FAILED_TESTS or not 0 < len(failures) <= FAILURES_MAX:
        return code
    print(f"\n{len(failures)} of the tests failed beside others. Each runs again, alone.", flush=True)
    unsteady = [name for name in failures if passes(name)]
    for name in unsteady:
        print(f"UNSTEADY {name}: failed beside others, passes alone; see above why, and mend it", flush=True)
    for name in failures:
        if name not in unsteady:
            print(f"FAILED {name}: also alone", flush=True)
    return 0 if len(unsteady) == len(failures) else EXIT_FAILED_TESTS


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
