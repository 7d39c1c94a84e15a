"""A chart of bars as SVG that can be read in the light and in the dark."""

from __future__ import annotations

import html
from collections.abc import Mapping

WIDTH, LABEL, NUMBER, ROW, BAR = 720, 190, 90, 30, 18
STYLE = """<style>
text { font: 14px system-ui, sans-serif; fill: #1f2328 }
.card { fill: #f6f8fa } .bar { fill: #8c959f } .first { fill: #0969da }
@media (prefers-color-scheme: dark) {
  .card { fill: #161b22 } text { fill: #e6edf3 } .bar { fill: #6e7681 } .first { fill: #58a6ff }
}
</style>"""


def bars(seconds: Mapping[str, float]) -> str:
    """Horizontal bars, shorter is better; the first is in another colour."""
    longest = max(seconds.values())
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {ROW * len(seconds) + 8}" role="img">',
        STYLE,
        '<rect class="card" width="100%" height="100%" rx="6"/>',
    ]
    for row, (label, value) in enumerate(seconds.items()):
        top = row * ROW + 8
        width = max((WIDTH - LABEL - NUMBER) * value / longest, 1)
        lines.append(f'<text x="{LABEL - 10}" y="{top + 14}" text-anchor="end">{html.escape(label)}</text>')
        kind = "first" if row == 0 else "bar"
        lines.append(f'<rect class="{kind}" x="{LABEL}" y="{top}" width="{width:.1f}" height="{BAR}" rx="2"/>')
        lines.append(f'<text x="{LABEL + width + 8:.1f}" y="{top + 14}">{value:.3g} s</text>')
    return "\n".join([*lines, "</svg>", ""])
