"""Sanitize text from outside, and write text to the terminal and to logs.

Only this module writes there. Names, labels and messages from outside lose their control characters and are cut, so
that they cannot move the cursor, forge lines or reorder letters.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO

# Characters that no HTML or XML page and no picture may contain.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# Marks that change the order in which letters are shown, end a line, or are not seen at all.
_BIDIRECTIONAL = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_HIDDEN = "\u2028\u2029\ufff9-\ufffb\U000e0000-\U000e007f"
_MISLEADING = re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff{_BIDIRECTIONAL}{_HIDDEN}]")
_REORDERING = re.compile(f"[{_BIDIRECTIONAL}]")


def printable(text: str) -> str:
    """Return the text with a replacement mark for each character that cannot be shown, or that reorders others."""
    return _REORDERING.sub("\N{REPLACEMENT CHARACTER}", _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text))


def escaped(text: str) -> str:
    """Return the text on one line, with Python's escape for each character that a terminal obeys or hides."""
    return _MISLEADING.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)


def one_line(text: str, length_max: int) -> str:
    """Return the text on one line, printable, and cut to ``length_max``."""
    # Cut first: what comes from outside may be megabytes long, and blanks only make it shorter.
    text = " ".join(printable(text[: 4 * length_max]).split())
    return text if len(text) <= length_max else text[: length_max - 3] + "..."


def message_of(error: BaseException) -> str:
    """Return what an error says; the name of its type if it says nothing, or if its ``__str__`` fails."""
    kind = type(error).__name__
    try:
        return str(error) or kind
    except Exception as failure:  # noqa: BLE001 - errors of users may do anything
        return f"{kind}, whose __str__ failed with {type(failure).__name__}"


def is_short_of_memory(error: BaseException) -> bool:
    """Return whether there was too little memory for an object, or to load a library."""
    if isinstance(error, ImportError):
        return any(one in message_of(error) for one in ("failed to map segment", "Cannot allocate memory"))
    return isinstance(error, MemoryError)


def print_line(text: object, stream: TextIO | None = None) -> None:
    """Write one line, at once; newlines in the text are escaped. The default is the standard output."""
    _write(escaped(str(text)), stream)


def print_lines(lines: Iterable[object], stream: TextIO | None = None) -> None:
    """Write lines, each as ``print_line`` does."""
    _write("\n".join(escaped(str(line)) for line in lines), stream)


def print_block(text: object, stream: TextIO | None = None) -> None:
    """Write a text of several lines, as a traceback or a help; its newlines stay."""
    print_lines(str(text).split("\n"), stream)


def json_text(value: Any) -> str:
    """Return indented JSON in ASCII, without any control character in its texts."""
    return json.dumps(value, indent=1).replace("\x7f", "\\u007f")


def _write(text: str, stream: TextIO | None) -> None:
    stream = sys.stdout if stream is None else stream
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(f"{text.encode(encoding, 'backslashreplace').decode(encoding)}\n")
    stream.flush()
