"""Output of commands: results on standard output, messages on standard error, and each error as a single line."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from branchline._core import __version__
from branchline.base.exit_codes import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE
from branchline.base.texts import is_short_of_memory, json_text, message_of, print_block, print_line
from branchline.errors import BranchlineError, InternalError, OptionError, StorageError

STDERR = 2
STOPPING = b"branchline: stopping; finished parts are kept (press Ctrl-C again to end at once)\n"


def open_closed_streams() -> None:
    """Reopen standard streams that are closed, for example in a daemon, with the null device.

    Otherwise a newly opened file would get the stream's descriptor, and output would be written to that file.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # opens the lowest free descriptor, which belonged to the closed stream
    sys.stdin = sys.stdin or os.fdopen(0, "r", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def print_out(text: str) -> None:
    """Print a line to standard output and flush it. Raises BrokenPipeError, and StorageError on other failures."""
    with output_checked():
        print_line(text)


def print_block_out(text: str) -> None:
    """Print a result of several lines. Raises the same exceptions as ``print_out``."""
    with output_checked():
        print_block(text)


def print_json(value: object) -> None:
    """Print a result as indented JSON. Raises the same exceptions as ``print_out``."""
    print_block_out(json_text(value))


@contextmanager
def output_checked() -> Iterator[None]:
    """Convert errors while writing to standard output to StorageError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        raise StorageError(f"cannot write standard output: {error.strerror}") from None


def print_error(text: str) -> None:
    """Print a text with several lines to standard error and flush it."""
    print_block(text, sys.stderr)


def print_traceback(text: str) -> None:
    """Print a traceback to standard error, indented so that none of its lines looks like a message of Branchline."""
    print_block("\n".join(f"  {line}" for line in text.rstrip("\n").split("\n")), sys.stderr)


def log(message: str) -> None:
    """Print a message to standard error, on one line."""
    print_line(f"branchline: {message}", sys.stderr)


def log_stopping() -> None:
    """Print that the first Ctrl-C stops the command and keeps finished parts.

    The message is written without Python's buffers, because the function is called by a signal handler.
    """
    with contextlib.suppress(OSError):
        os.write(STDERR, STOPPING)


def discard_output() -> None:
    """Discard further output, because the reader of standard output, such as ``head``, has closed the pipe."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


@contextmanager
def errors_printed(*, debug: bool) -> Iterator[None]:
    """Convert exceptions to an error message and an exit code; ``debug`` also prints the traceback."""
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
        # An OptionError has the exit code of parser errors, because in both cases the command line has to be changed.
        raise SystemExit(EXIT_USAGE if isinstance(error, OptionError) else EXIT_ERROR) from None
    except OSError as error:
        _print_error(f"error: {type(error).__name__}: {error} (--debug prints the traceback)", debug=debug)
        raise SystemExit(EXIT_ERROR) from None
    except Exception as error:  # noqa: BLE001 - any other exception is a bug in Branchline
        if is_short_of_memory(error):
            hint = "raise the limit of the process (ulimit -v), or use fewer --workers and a smaller --memory-limit"
            _print_error(f"error: not enough memory: {message_of(error)} ({hint})", debug=debug)
            raise SystemExit(EXIT_ERROR) from None
        what = f"internal error in Branchline: {type(error).__name__}: {error}"
        hint = f"please report it with version {__version__}, the command and what it prints with --debug"
        _print_error(f"error: {InternalError(what, hint=hint)}", debug=debug)
        raise SystemExit(EXIT_ERROR) from None


def _print_error(message: str, *, debug: bool) -> None:
    if debug:
        # Imported here since the import takes a few ms.
        import traceback

        print_traceback(traceback.format_exc())
    log(message)
