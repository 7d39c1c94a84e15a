"""The only place that writes text to the terminal and to logs: what others named cannot move the cursor, forge lines or
change the order of letters there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from branchline.base.texts import escaped


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
