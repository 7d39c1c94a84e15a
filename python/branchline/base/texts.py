"""Sanitize untrusted text, and write text to the terminal and to logs.

Only this module writes to the terminal and to logs. Control characters in untrusted names, labels and messages are
replaced and long texts are truncated, so that they cannot move the cursor, forge lines or reorder characters.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable
from typing import IO, TextIO

# Control characters for the direction of text, which reorder characters or are invisible.
_BIDIRECTIONAL = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_HIDDEN = "\u2028\u2029\ufff9-\ufffb\U000e0000-\U000e007f"
# Characters that HTML and XML must not contain, and characters that reorder others.
_FORBIDDEN = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff{_BIDIRECTIONAL}]")
_MISLEADING = re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff{_BIDIRECTIONAL}{_HIDDEN}]")


def printable(text: str) -> str:
    """Replace each character that cannot be shown, or that reorders others, with the Unicode replacement character."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def escaped(text: str) -> str:
    """Return the text on one line, with Python escapes in place of control characters and invisible characters."""
    return _MISLEADING.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)


def one_line(text: str, length_max: int) -> str:
    """Return the text on one line, printable, truncated to ``length_max`` characters."""
    # Truncate first, since untrusted text may be megabytes long. The limit leaves room for whitespace that is removed.
    text = " ".join(printable(text[: 4 * length_max]).split())
    return text if len(text) <= length_max else text[: length_max - 3] + "..."


def message_of(error: BaseException) -> str:
    """Return the message of an error, or the name of its type if the message is empty or ``__str__`` fails."""
    kind = type(error).__name__
    try:
        return str(error) or kind
    except Exception as failure:  # noqa: BLE001 - __str__ of users' exceptions may raise anything
        return f"{kind}, whose __str__ failed with {type(failure).__name__}"


def is_short_of_memory(error: BaseException) -> bool:
    """Return whether the error means that there was not enough memory, for an object or to load a library."""
    if isinstance(error, ImportError):
        return any(one in message_of(error) for one in ("failed to map segment", "Cannot allocate memory"))
    return isinstance(error, MemoryError)


def end_of_log(log: IO[bytes], bytes_max: int) -> str:
    """Return the last ``bytes_max`` bytes of a log file as printable text."""
    log.seek(max(0, log.seek(0, os.SEEK_END) - bytes_max))
    return printable(log.read().decode(errors="replace")).strip()


def json_text(value: object) -> str:
    """Serialize a value to indented JSON in ASCII, with control characters escaped."""
    return json.dumps(value, indent=1).replace("\x7f", "\\u007f")


def print_line(text: object, stream: TextIO | None = None) -> None:
    """Write one line to standard output, or to ``stream``, and flush. Newlines in the text are escaped."""
    _write(escaped(str(text)), stream)


def print_lines(lines: Iterable[object], stream: TextIO | None = None) -> None:
    """Write several lines. Newlines within a line are escaped."""
    _write("\n".join(escaped(str(line)) for line in lines), stream)


def print_block(text: object, stream: TextIO | None = None) -> None:
    """Write text that consists of several lines, such as a traceback or help text. Newlines are kept."""
    print_lines(str(text).split("\n"), stream)


def _write(text: str, stream: TextIO | None) -> None:
    stream = sys.stdout if stream is None else stream
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(f"{text.encode(encoding, 'backslashreplace').decode(encoding)}\n")
    stream.flush()
