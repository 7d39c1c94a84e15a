"""Runs the few tests that failed beside others once more, each alone.

One that passes then is unsteady: a fault of the test or of what it tests that comes rarely, and the only sign of it. So
it stops the run, unless the register names it with its reason: then it is printed with that. A list of such tests is
better than a second try for all of them, which hides what nobody has looked at.

    python -m tests.alone EXIT_CODE CACHE_FOLDER REGISTER
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

#: With more failures than this the change is at fault, or the machine.
FAILURES_MAX = 5
#: Of pytest: some tests failed. Others mean that it could not run them.
EXIT_FAILED_TESTS = 1


def main(arguments: list[str]) -> int:
    """The exit code for the whole run."""
    code, cache, register = int(arguments[0]), Path(arguments[1]), Path(arguments[2])
    failures = failed_tests(cache)
    if code != EXIT_FAILED_TESTS or not 0 < len(failures) <= FAILURES_MAX:
        return code
    reasons = registered(register)
    print(f"\n{len(failures)} of the tests failed beside others. Each runs again, alone.", flush=True)
    unsteady = [name for name in failures if passes(name)]
    stops_run = False
    for name in failures:
        reason = reasons.get(name) or reasons.get(name.partition("[")[0])
        if name not in unsteady:
            print(f"FAILED {name}: also alone", flush=True)
        elif reason:
            print(f"UNSTEADY {name}: failed beside others, passes alone; it is known to: {reason}", flush=True)
        else:
            print(f"UNSTEADY {name}: failed beside others, passes alone; see above why. Mend it,", flush=True)
            print(f"    or name it in {register} with the reason, if the fault cannot be mended now", flush=True)
        stops_run |= name not in unsteady or not reason
    return EXIT_FAILED_TESTS if stops_run else 0


def registered(register: Path) -> dict[str, str]:
    """The tests that may be unsteady, with the reason of each: a table of TOML. Raises ValueError for anything else."""
    reasons = tomllib.loads(register.read_text(encoding="utf-8"))
    for name, reason in reasons.items():
        if not isinstance(reason, str) or not reason.strip():
            raise ValueError(f"{register}: {name} has no reason")
    return reasons


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
