"""Exit codes of the command line."""

import signal
import sys
from typing import NoReturn

EXIT_OK = 0
EXIT_ERROR = 1
# The same code as argparse and most other programs use.
EXIT_USAGE = 2
EXIT_INCOMPLETE = 3
EXIT_INTERRUPTED = 130

MEANINGS = {
    EXIT_OK: "success",
    EXIT_ERROR: "an error",
    EXIT_USAGE: "wrong usage",
    EXIT_INCOMPLETE: "finished, but a wagon failed or files were skipped",
    EXIT_INTERRUPTED: "interrupted, finished parts are kept",
}


def described() -> str:
    """Return one sentence that lists all exit codes with their meanings."""
    return "; ".join(f"{code} {meaning}" for code, meaning in MEANINGS.items()) + "."


def exit_with(code: int) -> NoReturn:
    """Exit with this code, even after an interrupt or if another interrupt arrives while Python shuts down."""
    if code == EXIT_INTERRUPTED:
        # Python restores the default signal handlers during shutdown: a second Ctrl-C would then kill the process
        # without its exit code.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    # After a KeyboardInterrupt in code run by exec(), such as the generated methods of a dataclass, `python -m` dies by
    # SIGINT even if the exception was caught. Another exec() prevents that.
    exec("")  # noqa: S102 - executes nothing
    sys.exit(code)
