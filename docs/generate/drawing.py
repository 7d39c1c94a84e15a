"""Diagrams of boxes and arrows as SVG, with colours for light and dark mode."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field

LINE = 18
STYLE = """<style>
.card { fill: #f6f8fa }
.lane { fill: none; stroke: #d0d7de }
.box { fill: #ffffff; stroke: #57606a }
.ours { fill: #ddf4ff; stroke: #0969da } .yours { fill: #dafbe1; stroke: #1a7f37 }
text { font: 14px system-ui, sans-serif; fill: #1f2328 } .small { font-size: 12px; fill: #57606a }
.title { font-weight: 600 }
.arrow { stroke: #57606a; stroke-width: 1.5; fill: none } .head { fill: #57606a }
.dashed { stroke-dasharray: 5 4 }
@media (prefers-color-scheme: dark) {
  .card { fill: #161b22 } .lane { stroke: #30363d }
  .box { fill: #21262d; stroke: #8b949e } .ours { fill: #0c2d6b; stroke: #58a6ff }
  .yours { fill: #0f3d1d; stroke: #3fb950 }
  text { fill: #e6edf3 } .small { fill: #9da7b3 }
  .arrow { stroke: #9da7b3 } .head { fill: #9da7b3 }
}
</style>
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">
<path class="head" d="M0 0 10 5 0 10z"/></marker></defs>"""

Point = tuple[float, float]


@dataclass
class Box:
    """A box with centred lines of text. The first line is a title."""

    x: float
    y: float
    width: float
    height: float
    lines: Sequence[str]
    kind: str = "box"

    @property
    def left(self) -> Point:
        return self.x, self.y + self.height / 2

    @property
    def right(self) -> Point:
        return self.x + self.width, self.y + self.height / 2

    @property
    def top(self) -> Point:
        return self.x + self.width / 2, self.y

    @property
    def bottom(self) -> Point:
        return self.x + self.width / 2, self.y + self.height

    def svg(self) -> str:
        parts = [
            f'<rect class="{self.kind}" x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" rx="6"/>'
        ]
        first = self.y + self.height / 2 - (len(self.lines) - 1) * LINE / 2 + 5
        for number, line in enumerate(self.lines):
            style = "title" if number == 0 else "small"
            parts.append(
                f'<text class="{style}" x="{self.x + self.width / 2}" y="{first + number * LINE}" '
                f'text-anchor="middle">{html.escape(line)}</text>'
            )
        return "\n".join(parts)


@dataclass
class Picture:
    """A diagram. ``parts`` are its SVG elements in drawing order."""

    width: float
    height: float
    title: str
    parts: list[str] = field(default_factory=list)

    def lane(self, y: float, height: float, name: str) -> None:
        """Draw a labelled band across the whole width."""
        self.parts.append(f'<rect class="lane" x="10" y="{y}" width="{self.width - 20}" height="{height}" rx="6"/>')
        self.label(20, y + 20, name)

    def label(self, x: float, y: float, text: str, anchor: str = "start") -> None:
        self.parts.append(f'<text class="small" x="{x}" y="{y}" text-anchor="{anchor}">{html.escape(text)}</text>')

    def box(self, x: float, y: float, width: float, height: float, *lines: str, kind: str = "box") -> Box:
        box = Box(x, y, width, height, lines, kind)
        self.parts.append(box.svg())
        return box

    def arrow(self, *points: Point, dashed: bool = False) -> None:
        """Draw a line through the points, with an arrowhead at the last one."""
        path = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        dash = " dashed" if dashed else ""
        self.parts.append(f'<path class="arrow{dash}" d="{path}" marker-end="url(#head)"/>')

    def svg(self) -> str:
        size = f'viewBox="0 0 {self.width} {self.height}" role="img"'
        card = '<rect class="card" width="100%" height="100%" rx="8"/>'
        title = f"<title>{html.escape(self.title)}</title>"
        return "\n".join(
            [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', title, STYLE, card, *self.parts, "</svg>\n"]
        )
