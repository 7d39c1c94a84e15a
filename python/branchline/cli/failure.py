"""What a command says, and how it ends that could not do what it was asked: one message, no traceback unless wanted, an
exit code.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from branchline.errors import BranchlineError
from branchline.train.exit_codes import EXIT_ERROR, EXIT_INTERRUPTED

STDERR = 2
STOPPING = b"branchline: stopping; what is finished is kept (once more to end at once)\n"


def tell(text: str, *, err: bool = False) -> None:
    """Prints what was asked for, or to the error side, now."""
    stream = sys.stderr if err else sys.stdout
    stream.write(f"{text}\n")
    stream.flush()


def say(message: str) -> None:
    """One line to the terminal's error side."""
    tell(f"branchline: {message}", err=True)


def say_stopping() -> None:
    """What is told at the first Ctrl-C; written past Python's buffers, for it is called from a signal handler."""
    with contextlib.suppress(OSError):
        os.write(STDERR, STOPPING)


def hush() -> None:
    """Who reads what is printed has seen enough, as `head` does; that is no error, and nothing more is printed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def ended(app: Callable[[], object]) -> None:
    """Runs a command line to its end."""
    try:
        app()
    except BrokenPipeError:
        hush()
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(EXIT_INTERRUPTED)


@contextmanager
def told(*, debug: bool) -> Iterator[None]:
    """Turns what goes wrong inside into a message and an exit code."""
    try:
        yield
    except BrokenPipeError:
        hush()
    except KeyboardInterrupt:
        say("interrupted")
        raise SystemExit(EXIT_INTERRUPTED) from None
    except BranchlineError as error:
        _tell(f"error: {error}", debug=debug)
        raise SystemExit(EXIT_ERROR) from None
    except Exception as error:  # noqa: BLE001 - the last place where an error can be told in a sentence
        _tell(f"error: {type(error).__name__}: {error} (--debug shows where)", debug=debug)
        raise SystemExit(EXIT_ERROR) from None


def _tell(message: str, *, debug: bool) -> None:
    if debug:
        # Only who looks at it waits for it to be imported.
        import traceback

        tell(traceback.format_exc(), err=True)
    say(message)
