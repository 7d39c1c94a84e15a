"""The program that draws the figures next to those of mplhep still runs, and its pictures are small."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.peers.peers import imported


@pytest.mark.long
def test_ten_small_pictures_are_drawn(tmp_path: Path, repository: Path) -> None:
    imported("scipy")
    from docs.generate.figure_gallery import main

    main(tmp_path)
    drawn = {one.name: one.stat().st_size for one in tmp_path.iterdir()}
    committed = {one.name: one.stat().st_size for one in (repository / "docs" / "guides").glob("figures-*.png")}
    assert drawn.keys() == committed.keys()
    assert len(drawn) == 10
    assert all(size < 60_000 for size in [*drawn.values(), *committed.values()])
    page = (repository / "docs" / "guides" / "figure-gallery.md").read_text(encoding="utf-8")
    assert all(name in page for name in drawn)
