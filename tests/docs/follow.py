"""Follows a page to the letter in the current folder: python -m tests.docs.follow PAGE

Files are written, patches applied, commands run, Python is executed in one namespace, and an output that the page shows
is compared with what was printed: `...` in it stands for anything, and spaces count as one.
"""

from __future__ import annotations

import doctest
import linecache
import os
import subprocess
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.docs.changes import apply
from tests.docs.snippets import Snippet, snippets_of

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class FollowError(Exception):
    """A step of the page does not do what the page says."""


@contextmanager
def _printed() -> Iterator[list[str]]:
    """Collects what this process and its children print on standard output."""
    sys.stdout.flush()
    kept = os.dup(1)
    text: list[str] = []
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            yield text
        finally:
            sys.stdout.flush()
            os.dup2(kept, 1)
            os.close(kept)
            file.seek(0)
            text.append(file.read().decode(errors="replace"))
            print(text[0], end="", flush=True)


def _python(snippet: Snippet, page: Path, namespace: dict[str, object]) -> None:
    # Blank lines in front, so that a traceback has the line of the page.
    source = "\n" * (snippet.line - 1) + snippet.text
    name = f"{page}#{snippet.line}"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), namespace)


def _followed(snippet: Snippet, page: Path, namespace: dict[str, object]) -> str:
    """What a step printed."""
    with _printed() as text:
        if snippet.kind == "python":
            _python(snippet, page, namespace)
        elif snippet.kind == "shell":
            subprocess.run(["bash", "-euo", "pipefail", "-c", snippet.text], stdin=subprocess.DEVNULL, check=True)
        elif snippet.kind == "patch":
            apply(snippet.text)
        elif snippet.kind == "file":
            path = Path(snippet.note)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(snippet.text, encoding="utf-8")
    return text[0]


def follow(page: Path) -> None:
    """Does all that a page says, in its order. Raises what the first step raises that fails."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    printed = ""
    checker = doctest.OutputChecker()
    for snippet in snippets_of(page):
        start_s = time.monotonic()
        try:
            if snippet.kind == "output":
                if not checker.check_output(snippet.text, printed, FLAGS):
                    example = doctest.Example("", snippet.text)
                    raise FollowError(checker.output_difference(example, printed, FLAGS | doctest.REPORT_NDIFF))
            else:
                printed = _followed(snippet, page, main.__dict__)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a page may raise anything
            traceback.print_exc()
            raise SystemExit(f"{page}:{snippet.line}: this {snippet.kind} block fails: {error}") from None
        print(f"{page.name}:{snippet.line}: {snippet.kind}, {time.monotonic() - start_s:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    follow(Path(sys.argv[1]))
