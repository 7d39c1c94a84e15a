"""What commands print: results to the standard output, messages to the standard error, and errors as one line each."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from branchline._core import __version__
from branchline.base.exit_codes import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE
from branchline.base.texts import is_short_of_memory, json_text, message_of, print_block, print_line
from branchline.errors import BranchlineError, InternalError, OptionError, StorageError

STDERR = 2
STOPPING = b"branchline: stopping; finished parts are kept (press Ctrl-C again to end at once)\n"


def open_closed_streams() -> None:
    """Opens the standard streams that are closed, as for a daemon: a file that is opened would get their numbers, and
    what is printed would be written into it.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, which is this one
    sys.stdin = sys.stdin or os.fdopen(0, "r", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def print_out(text: str) -> None:
    """Prints a line to the standard output, at once. Raises BrokenPipeError, and StorageError if it cannot."""
    with output_checked():
        print_line(text)


def print_block_out(text: str) -> None:
    """Prints a result of several lines, as ``print_out``."""
    with output_checked():
        print_block(text)


def print_json(value: Any) -> None:
    """Prints a result as indented JSON, as ``print_out``."""
    print_block_out(json_text(value))


@contextmanager
def output_checked() -> Iterator[None]:
    """Turns a refusal of the system to write the standard output into a StorageError that names it."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        raise StorageError(f"the standard output cannot be written: {error.strerror}") from None


def print_error(text: str) -> None:
    """Prints a text of several lines to the standard error, at once."""
    print_block(text, sys.stderr)


def print_traceback(text: str) -> None:
    """Prints tracebacks to the standard error, indented: a line feed in a message begins no line of ours."""
    print_block("\n".join(f"  {line}" for line in text.rstrip("\n").split("\n")), sys.stderr)


def log(message: str) -> None:
    """Prints one message to the standard error, on one line."""
    print_line(f"branchline: {message}", sys.stderr)


def log_stopping() -> None:
    """Prints what the first Ctrl-C does. A signal handler calls it, so it writes past Python's buffers."""
    with contextlib.suppress(OSError):
        os.write(STDERR, STOPPING)


def discard_output() -> None:
    """Discards what is still printed: the reader of the standard output, such as ``head``, has closed it."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


@contextmanager
def errors_printed(*, debug: bool) -> Iterator[None]:
    """Turns an exception into a message and an exit code; ``debug`` prints its traceback too."""
    try:
        yield
    except BrokenPipeError:
        discard_output()
        raise SystemExit(EXIT_OK) from None
    except KeyboardInterrupt:
        log("interrupted")
        raise SystemExit(EXIT_INTERRUPTED) from None
    except BranchlineError as error:
        _print_error(f"error: {error}", debug=debug)
        # As where the parser refuses a word: the command line has to be changed.
        raise SystemExit(EXIT_USAGE if isinstance(error, OptionError) else EXIT_ERROR) from None
    except OSError as error:
        _print_error(f"error: {type(error).__name__}: {error} (--debug prints the traceback)", debug=debug)
        raise SystemExit(EXIT_ERROR) from None
    except Exception as error:  # noqa: BLE001 - any other exception is a fault of ours
        if is_short_of_memory(error):
            hint = "raise the limit of the process (ulimit -v), or use fewer --workers and a smaller --memory-limit"
            _print_error(f"error: not enough memory: {message_of(error)} ({hint})", debug=debug)
            raise SystemExit(EXIT_ERROR) from None
        what = f"a fault of Branchline: {type(error).__name__}: {error}"
        hint = f"please report it with version {__version__}, the command and what it prints with --debug"
        _print_error(f"error: {InternalError(what, hint=hint)}", debug=debug)
        raise SystemExit(EXIT_ERROR) from None


def _print_error(message: str, *, debug: bool) -> None:
    if debug:
        # Imported here since it takes some ms.
        import traceback

        print_traceback(traceback.format_exc())
    log(message)
