"""Draw charts as SVG: step lines and points over axes, and tables whose cells are coloured by their values.

Reports, studies and the control room show these charts. A chart is as wide as the page, and its text keeps its size.
Colours follow the page's text, so that charts can be read in dark mode. No style attributes are used, because the pages
of the control room forbid them. The style sheets of the pages reserve the space for tick labels (`svg.chart`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from branchline.base.palette import BLUE
from branchline.base.texts import one_line, printable
from branchline.records.charts.axes import Axis

#: Width and height of the box in which curves are drawn before they are stretched to the size of the chart.
BOX = 1000.0
#: Height of a chart in pixels, with tick labels.
HEIGHT = 230
#: Number of columns and rows of the grid to which points are rounded, which limits the size of a chart.
POINT_COLUMNS, POINT_ROWS = 400, 200
#: Maximum number of characters of a name in a legend, and of a name beside or above the cells of a table.
NAME_MAX, CELL_NAME_MAX = 60, 20
#: Width of the row names, width and height of a cell, and height of the column names of a table of cells, in pixels.
_ROW_NAME, _CELL, _ROW, _HEAD = 150, 130, 34, 30
#: Opacity of the cells with the lowest and the highest value: text on them can be read in light and dark mode.
_FAINTEST, _STRONGEST = 0.06, 0.55
#: Label inside charts of simulated jobs.
SIMULATED = "simulated"


@dataclass(frozen=True)
class Curve:
    """A step line: ``y[i]`` is the value between ``x[i]`` and ``x[i + 1]``; None leaves a gap.

    ``note`` is shown after the name in the legend.
    """

    name: str
    colour: str
    x: Sequence[float]
    y: Sequence[float | None]
    note: str = ""
    is_filled: bool = False


@dataclass(frozen=True)
class Points:
    """Vertical lines from ``low`` to ``high`` at ``x``, rounded to a grid, so that their number is limited."""

    name: str
    colour: str
    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


@dataclass(frozen=True)
class Chart:
    """Curves and points over common axes.

    ``note`` is a sentence below the chart. ``borders`` are values of the y axis with a line of their own. A chart
    without curves and points is shown as the sentence ``empty``.
    """

    title: str
    x: Axis
    y: Axis
    curves: Sequence[Curve] = ()
    points: Sequence[Points] = ()
    borders: Sequence[float] = ()
    note: str = ""
    empty: str = ""
    is_simulated: bool = False
    height: int = HEIGHT

    def figure(self) -> Markup:
        """Return the chart as an HTML figure with title, legend and note."""
        marks: list[Curve | Points] = [*self.curves, *self.points]
        if not marks:
            return _empty_figure(self.title, self.empty)
        keys = [(one.name, one.colour, one.note if isinstance(one, Curve) else "") for one in marks]
        return _figure(self.title, keys if len(marks) > 1 or keys[0][2] else [], self._svg(), self.note)

    def _svg(self) -> Markup:
        parts = [
            Markup('<svg class="chart" width="100%" height="{}" role="img" aria-label="{}">').format(
                self.height, _label(f"{self.title}, {self.y.label} over {self.x.label}", self.is_simulated)
            ),
            *map(self._y_tick, self.y.ticks),
            *map(self._x_tick, self.x.ticks, _is_second(len(self.x.ticks))),
            _text(0, "0", "start", self.y.label, dx=-50, dy=-14),
            _text(100, "100%", "end", self.x.label, dy=36),
            *([_simulated()] if self.is_simulated else []),
            Markup('<svg width="100%" height="100%" viewBox="0 0 1000 1000" preserveAspectRatio="none">'),
            *map(self._border, self.borders),
            *map(self._points, self.points),
            *map(self._curve, self.curves),
            Markup("</svg></svg>"),
        ]
        return Markup("").join(parts)

    def _y_tick(self, tick: tuple[float, str]) -> Markup:
        at = f"{100 * (1 - self.y.at(tick[0])):.2f}%"
        line = Markup('<line x1="0" x2="100%" y1="{}" y2="{}" stroke="currentColor" stroke-opacity="0.15"/>').format(
            at, at
        )
        return line + _text(0, at, "end", tick[1], dx=-8, dy=4)

    def _x_tick(self, tick: tuple[float, str], is_second: bool) -> Markup:
        at = 100 * self.x.at(tick[0])
        return _text(at, "100%", "end" if at > 97 else "middle", tick[1], dy=18, is_second=is_second)

    def _border(self, value: float) -> Markup:
        at = BOX * (1 - self.y.at(value))
        return Markup('<path d="M0 {:.1f}H1000" stroke="currentColor" stroke-opacity="0.35" {}/>').format(at, _THIN)

    def _points(self, points: Points) -> Markup:
        """Draw each cell of the grid that a line passes. Neighbouring cells of a column are one line."""
        column = self.x.grid(points.x, POINT_COLUMNS)
        first, last = (self.y.grid(one, POINT_ROWS) for one in (points.low, points.high))
        columns: dict[int, set[int]] = {}
        for place, low, high in set(zip(column, first, last, strict=True)):
            columns.setdefault(place, set()).update(range(low, high + 1))
        path = "".join(
            f"M{(place + 0.5) / POINT_COLUMNS * BOX:.1f} {BOX * (1 - begin / POINT_ROWS):.0f}"
            f"V{BOX * (1 - end / POINT_ROWS):.0f}"
            for place, rows in sorted(columns.items())
            for begin, end in _runs(rows)
        )
        return Markup('<path d="{}" stroke="{}" stroke-width="2" {}/>').format(path, points.colour, _UNSCALED)

    def _curve(self, curve: Curve) -> Markup:
        path = self.path(curve)
        line = Markup('<path d="{}" fill="none" stroke="{}" stroke-width="1.8" {}/>').format(
            path, curve.colour, _UNSCALED
        )
        if not curve.is_filled or None in curve.y:
            return line
        area = Markup('<path d="{}V1000H{:.1f}Z" fill="{}" fill-opacity="0.14"/>')
        return area.format(path, BOX * self.x.at(curve.x[0]), curve.colour) + line

    def path(self, curve: Curve) -> str:
        """Return the path of a curve in a box of ``BOX`` by ``BOX``."""
        path, is_begun = "", False
        for left, right, value in zip(curve.x, curve.x[1:], curve.y, strict=False):
            if value is None:
                is_begun = False
                continue
            y = BOX * (1 - self.y.at(value))
            path += f"V{y:.1f}" if is_begun else f"M{BOX * self.x.at(left):.1f} {y:.1f}"
            path += f"H{BOX * self.x.at(right):.1f}"
            is_begun = True
        return path


@dataclass(frozen=True)
class ColouredCell:
    """A cell of a table: its row and column, the value that selects its colour, and its text, one string per line."""

    row: str
    column: str
    value: float
    text: Sequence[str]


@dataclass(frozen=True)
class CellTable:
    """A table whose cells are coloured by the logarithm of their values; higher values are stronger.

    ``row_notes`` are shown below the names of rows.
    """

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    cells: Sequence[ColouredCell] = field(default_factory=list)
    row_notes: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    empty: str = ""
    is_simulated: bool = False

    def figure(self) -> Markup:
        """Return the table as an HTML figure that scrolls horizontally."""
        if not self.cells:
            return _empty_figure(self.title, self.empty)
        width, height = _ROW_NAME + _CELL * len(self.columns), _HEAD + _ROW * len(self.rows)
        positive = [one.value for one in self.cells if one.value > 0]
        scale = Axis("", min(positive, default=1.0), max(positive, default=1.0), [], is_log=True)
        left = {name: _ROW_NAME + _CELL * number for number, name in enumerate(self.columns)}
        top = {name: _HEAD + _ROW * number for number, name in enumerate(self.rows)}
        parts = [
            Markup('<svg class="cells" width="{}" height="{}" role="img" aria-label="{}">').format(
                width, height + 14, _label(self.title, self.is_simulated)
            ),
            *(_named(left[one] + _CELL / 2, _HEAD - 8, "middle", one) for one in self.columns),
            *(_named(_ROW_NAME - 8, top[one] + self._name_at(one), "end", one) for one in self.rows),
            *(_fixed_text(_ROW_NAME - 8, top[one] + 28, "end", note) for one, note in self.row_notes.items()),
            *(_cell(left[one.column], top[one.row], one, scale) for one in self.cells),
            *([_simulated(height + 10)] if self.is_simulated else []),
            Markup("</svg>"),
        ]
        scroll = Markup('<div class="scroll" tabindex="0" role="group" aria-label="{}">{}</div>')
        return _figure(self.title, [], scroll.format(self.title, Markup("").join(parts)), self.note)

    def _name_at(self, row: str) -> int:
        """Return the distance of a row's name from the top of the row, which depends on whether it has a note."""
        return 14 if row in self.row_notes else 21


_UNSCALED = Markup('vector-effect="non-scaling-stroke" stroke-linejoin="round" stroke-linecap="round"')
_THIN = Markup('vector-effect="non-scaling-stroke"')


def _cell(x: float, y: float, cell: ColouredCell, scale: Axis) -> Markup:
    strength = scale.at(cell.value) if cell.value > 0 and scale.high > scale.low else float(cell.value > 0)
    box = Markup('<rect x="{:.0f}" y="{:.0f}" width="{}" height="{}" fill="{}" fill-opacity="{:.2f}"/>').format(
        x + 1, y + 1, _CELL - 2, _ROW - 2, BLUE, _FAINTEST + (_STRONGEST - _FAINTEST) * strength
    )
    middle = y + _ROW / 2 + 4 - 7 * (len(cell.text) - 1)
    lines = (_fixed_text(x + _CELL / 2, middle + 14 * number, "middle", text) for number, text in enumerate(cell.text))
    return box + Markup("").join(lines)


def _named(x: float, y: float, anchor: str, name: str) -> Markup:
    """Return a name, shortened in its middle, with the whole name as its tooltip."""
    kept = (CELL_NAME_MAX - 3) // 2
    shown = one_line(name, 1000)
    shown = shown if len(shown) <= CELL_NAME_MAX else f"{shown[:kept]}...{shown[-kept:]}"
    return Markup("<g><title>{}</title>{}</g>").format(one_line(name, 1000), _fixed_text(x, y, anchor, shown))


def _fixed_text(x: float, y: float, anchor: str, text: str) -> Markup:
    return Markup('<text x="{:.0f}" y="{:.0f}" text-anchor="{}">{}</text>').format(x, y, anchor, text)


def _text(x: float, y: str, anchor: str, text: str, *, dx: int = 0, dy: int = 0, is_second: bool = False) -> Markup:
    kind = Markup(' class="second"') if is_second else Markup("")
    return Markup('<text{} x="{:.2f}%" y="{}" dx="{}" dy="{}" text-anchor="{}">{}</text>').format(
        kind, x, y, dx, dy, anchor, one_line(text, NAME_MAX)
    )


def _simulated(y: float | None = None) -> Markup:
    """Return the label of simulated data, at the upper right of a chart, or at a height of its own."""
    at = Markup('y="0" dy="-14"') if y is None else Markup('y="{:.0f}"').format(y)
    return Markup('<text x="100%" {} text-anchor="end" font-weight="700">{}</text>').format(at, SIMULATED)


def _is_second(count: int) -> list[bool]:
    """Return for each tick whether it may be left out on narrow screens."""
    return [count > 4 and number % 2 == 1 for number in range(count)]


def _runs(rows: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first number and the number after the last one of each run of consecutive numbers."""
    found: list[tuple[int, int]] = []
    for one in sorted(rows):
        if found and found[-1][1] == one:
            found[-1] = (found[-1][0], one + 1)
        else:
            found.append((one, one + 1))
    return found


def _label(text: str, is_simulated: bool) -> str:
    return one_line(f"{text} ({SIMULATED})" if is_simulated else text, 200)


def _empty_figure(title: str, sentence: str) -> Markup:
    return Markup('<figure class="plot"><figcaption><b>{}</b> {}</figcaption></figure>').format(
        one_line(title, 200), sentence
    )


def _figure(title: str, keys: Iterable[tuple[str, str, str]], content: Markup, note: str) -> Markup:
    swatch = Markup('<svg width="10" height="10" aria-hidden="true"><rect width="10" height="10" fill="{}"/></svg>')
    legend = Markup("").join(
        Markup(' <span class="series">{} {}</span>').format(
            swatch.format(colour), one_line(", ".join(filter(None, [name, said])), NAME_MAX)
        )
        for name, colour, said in keys
    )
    below = Markup('<p class="note">{}</p>').format(printable(note)) if note else Markup("")
    return Markup('<figure class="plot"><figcaption><b>{}</b>{}</figcaption>{}{}</figure>').format(
        escape(one_line(title, 200)), legend, content, below
    )
