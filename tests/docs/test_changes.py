"""Changes that pages show are applied where their lines are, once, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.changes import ChangeError, apply

CHANGE = """--- a/list.txt
+++ b/list.txt
@@
 two
+two and a half
 three
@@
-five
"""


def test_lines_are_added_and_removed_where_their_neighbours_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list.txt").write_text("one\ntwo\nthree\nfour\nfive\n")
    apply(CHANGE)
    assert Path("list.txt").read_text().split("\n") == ["one", "two", "two and a half", "three", "four", ""]


@pytest.mark.parametrize("content", ["one\ntwo\nfour\nfive\n", "two\nthree\ntwo\nthree\nfive\n"])
def test_lines_that_are_not_there_once_are_an_error(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list.txt").write_text(content)
    with pytest.raises(ChangeError, match=r"list\.txt has these lines"):
        apply(CHANGE)
