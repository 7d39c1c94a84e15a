"""Bar charts as SVG, with colours for light and dark mode."""

from __future__ import annotations

import html
from collections.abc import Mapping

WIDTH, LABEL, NUMBER, ROW, BAR = 720, 190, 90, 30, 18
# Width of a chart in a grid of charts, height of its title, and height of the space below it.
PANEL, TITLE, GAP = 520, 30, 16
STYLE = """<style>
text { font: 14px system-ui, sans-serif; fill: #1f2328 } .title { font-weight: 600 }
.card { fill: #f6f8fa } .bar { fill: #8c959f } .first { fill: #0969da }
@media (prefers-color-scheme: dark) {
  .card { fill: #161b22 } text { fill: #e6edf3 } .bar { fill: #6e7681 } .first { fill: #58a6ff }
}
</style>"""


def bars(seconds: Mapping[str, float]) -> str:
    """Return a chart with a horizontal bar for each label. The first bar has a different colour."""
    return _picture(WIDTH, ROW * len(seconds) + 8, _rows(seconds, 0, 8, WIDTH))


def panels(charts: Mapping[str, Mapping[str, float]]) -> str:
    """Return a picture with several titled charts in two columns."""
    rows = max(len(seconds) for seconds in charts.values())
    height = TITLE + ROW * rows + GAP
    lines = []
    for index, (title, seconds) in enumerate(charts.items()):
        left, top = index % 2 * PANEL, index // 2 * height + GAP
        lines.append(f'<text class="title" x="{left + 16}" y="{top + 16}">{html.escape(title)}</text>')
        lines += _rows(seconds, left, top + TITLE, PANEL)
    return _picture(2 * PANEL, (len(charts) + 1) // 2 * height + GAP, lines)


def _rows(seconds: Mapping[str, float], left: int, top: int, width: int) -> list[str]:
    longest = max(seconds.values())
    lines = []
    for row, (label, value) in enumerate(seconds.items()):
        y = top + row * ROW
        length = max((width - LABEL - NUMBER) * value / longest, 1)
        lines.append(f'<text x="{left + LABEL - 10}" y="{y + 14}" text-anchor="end">{html.escape(label)}</text>')
        kind = "first" if row == 0 else "bar"
        lines.append(f'<rect class="{kind}" x="{left + LABEL}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2"/>')
        lines.append(f'<text x="{left + LABEL + length + 8:.1f}" y="{y + 14}">{value:.3g} s</text>')
    return lines


def _picture(width: int, height: int, lines: list[str]) -> str:
    frame = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        STYLE,
        '<rect class="card" width="100%" height="100%" rx="6"/>',
    ]
    return "\n".join([*frame, *lines, "</svg>", ""])
