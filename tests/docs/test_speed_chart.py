"""The chart of the README shows the committed measurements."""

from __future__ import annotations

from pathlib import Path

from docs.generate.measurements import speed_chart


def test_the_chart_is_drawn_from_the_results(repository: Path) -> None:
    drawn = speed_chart(repository / "benches" / "results")
    assert (repository / "docs" / "speed.svg").read_text(encoding="utf-8") == drawn, "run: make docs"
