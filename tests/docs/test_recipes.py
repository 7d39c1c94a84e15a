"""The changes that pages under docs/extending show fit the sources; `make docs-recipes` also does what they say."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.conftest import REPOSITORY
from tests.docs.changes import apply, files_changed
from tests.docs.snippets import snippets_of

PAGES = sorted((REPOSITORY / "docs" / "extending").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_changes_fit_the_sources(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for snippet in snippets_of(page):
        if snippet.kind == "file":
            path = Path(snippet.note)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(snippet.text, encoding="utf-8")
        elif snippet.kind == "patch":
            for path in files_changed(snippet.text):
                if not path.exists():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(REPOSITORY / path, path)
            apply(snippet.text)


def test_a_codec_takes_three_files() -> None:
    """One for the codec, and a row in the table of each language."""
    snippets = snippets_of(REPOSITORY / "docs" / "extending" / "codec.md")
    written = [snippet.note for snippet in snippets if snippet.kind == "file"]
    changed = [path for snippet in snippets if snippet.kind == "patch" for path in files_changed(snippet.text)]
    assert len({*written, *map(str, changed)}) == 3
