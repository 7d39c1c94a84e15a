"""Changes of files as pages show them: a unified diff whose hunks have no line numbers.

A hunk is found by its lines, which have to be in the file exactly once. So a page stays true while other lines of the
file move.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


class ChangeError(Exception):
    """A change does not fit its file."""


def apply(text: str) -> None:
    """Applies a diff to the files in the current folder. Raises ChangeError."""
    for path, old, new in _hunks(text):
        lines = path.read_text(encoding="utf-8").splitlines()
        starts = [start for start in range(len(lines)) if lines[start : start + len(old)] == old]
        if len(starts) != 1:
            raise ChangeError(f"{path} has these lines {len(starts)} times:\n" + "\n".join(old))
        lines[starts[0] : starts[0] + len(old)] = new
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def files_changed(text: str) -> list[Path]:
    """The files that a diff changes."""
    return list(dict.fromkeys(path for path, _, _ in _hunks(text)))


def _hunks(text: str) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Each hunk: its file, the lines that are there, and the lines that replace them."""
    path: Path | None = None
    old: list[str] = []
    new: list[str] = []
    for line in [*text.splitlines(), "@@"]:
        if line.startswith(("@@", "--- ", "+++ ")):
            if path is not None and (old or new):
                yield path, old, new
            old, new = [], []
            if line.startswith("+++ b/"):
                path = Path(line.removeprefix("+++ b/"))
        elif line.startswith("-"):
            old.append(line[1:])
        elif line.startswith("+"):
            new.append(line[1:])
        else:
            old.append(line[1:])
            new.append(line[1:])
