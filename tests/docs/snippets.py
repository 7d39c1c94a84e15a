"""The snippets of a page of documentation, in order, and what becomes of each when the page is followed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

NOT_RUN = re.compile(r"<!--\s*not run:\s*(?P<reason>.*?)\s*-->", re.DOTALL)
CAPTION = re.compile(r"^:caption:\s*(?P<path>\S+)\s*\n+")
LANGUAGES = {"python": "python", "shell": "shell", "diff": "patch"}

Kind = Literal["python", "shell", "patch", "file", "output", "skipped"]


class PageError(Exception):
    """A snippet of which nobody can say what is to be done with it."""


@dataclass(frozen=True)
class Snippet:
    """One fenced block. ``line`` is the line of its first line in the page, counted from 1."""

    kind: Kind
    text: str
    line: int
    #: The path of a file to write, or the reason for which a block is not run.
    note: str = ""


def snippets_of(page: Path) -> list[Snippet]:
    """All fenced blocks of a page. Raises PageError for one that is neither run, written, compared nor excused."""
    tokens = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    found: list[Snippet] = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type == "code_block":
            raise PageError(f"{page}:{(token.map or [0])[0] + 1}: put code between ``` lines, so that it can be run")
        if token.type == "fence":
            found.append(_snippet(token, before, found[-1] if found else None, page))
    return found


def _snippet(token: Token, before: Token | None, previous: Snippet | None, page: Path) -> Snippet:
    assert token.map is not None
    line = token.map[0] + 2
    words = token.info.split()
    language = words[0] if words else ""
    excuse = NOT_RUN.search(before.content) if before is not None and before.type == "html_block" else None
    if excuse is not None:
        if len(excuse["reason"].split()) < 3:
            raise PageError(f"{page}:{line}: say in a sentence why this is not run")
        return Snippet("skipped", token.content, line, excuse["reason"])
    if language == "{code-block}":
        caption = CAPTION.match(token.content)
        if caption is not None:
            return Snippet("file", token.content[caption.end() :], line + 2, caption["path"])
    if language in LANGUAGES:
        return Snippet(LANGUAGES[language], token.content, line)  # type: ignore[arg-type]
    if language == "text" and previous is not None and previous.kind in ("python", "shell"):
        return Snippet("output", token.content, line)
    raise PageError(
        f"{page}:{line}: a block of {language or 'no language'} is neither run nor written to a file; "
        "write <!-- not run: REASON --> above it"
    )
