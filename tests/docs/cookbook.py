"""Recipes of the cookbook that need servers or a batch system, for the tests that have them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.docs.snippets import snippets_of

PAGE = REPOSITORY / "docs" / "guides" / "cookbook.md"


def recipe(words: str) -> str:
    """The only skipped snippet of the page that contains these words."""
    (found,) = [one.text for one in snippets_of(PAGE) if one.kind == "skipped" and words in one.text]
    return found


def write_data(folder: Path) -> None:
    """Write the files and the wagon of the page, and a list of the files, into a folder."""
    for snippet in snippets_of(PAGE):
        if snippet.kind == "file" and snippet.note.endswith(".py"):
            (folder / snippet.note).write_text(snippet.text, encoding="utf-8")
    subprocess.run([sys.executable, "make_nano.py"], cwd=folder, check=True, timeout=100)
    files = sorted(f"nano/{one.name}" for one in (folder / "nano").iterdir())
    (folder / "files.txt").write_text("\n".join(files) + "\n", encoding="utf-8")
