"""Plots histograms with one numeric axis as SVG without matplotlib, in about a millisecond.

The plots look like those of `matplotlib_pictures`, which draws all other histograms. Loading matplotlib takes longer
than a short job. Formulas in labels (``$p_T$ [GeV]``) are split into pieces, each with one size, slant and height.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from xml.sax.saxutils import escape

import boost_histogram
import numpy

from branchline.base.array_types import Floats
from branchline.base.palette import NAVY, WARNING
from branchline.base.texts import one_line
from branchline.base.whole_files import whole_file
from branchline.records.pictures.meaning import (
    ERROR_BARS_BINS_MAX,
    Title,
    finite,
    height_words,
    inner_bins,
    is_logarithmic,
    remark_on,
    spans_decades,
)
from branchline.records.result_files.job_files import PICTURES
from branchline.writing.objects.forms import axis_label, is_category

# Sizes in points: the whole picture, the frame, and the fonts.
_WIDTH, _HEIGHT = 576.0, 432.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 86.0, 550.0, 30.0, 376.0
_LABEL, _NUMBER, _SMALL, _BOLD = 18.0, 15.0, 14.0, 18.0
# Maximum number of tick labels along each axis; more labels would touch each other.
_X_TICKS_MAX, _Y_TICKS_MAX, _DECADES_MAX = 8, 9, 12
# Maximum number of bins; histograms with more bins are drawn by matplotlib.
_BINS_MAX = 2000
# Outside of this range of powers of ten, the power is written next to the axis instead of in each tick label.
_POWER_LOW, _POWER_HIGH = -4, 5
# Lengths of major and minor ticks.
_TICK, _MINOR_TICK = 9.0, 5.0
# Maximum number of digits of a tick label.
_DIGITS_MAX = 5
_FONTS = "TeX Gyre Heros, Helvetica, Arial, DejaVu Sans, sans-serif"

# Maximum number of characters in a label.
_LENGTH_MAX = 60
# Approximate width of a Helvetica letter as a fraction of the font size; East Asian characters are square.
_LETTER_WIDTH = 0.56
# Text that is too long is shrunk down to this fraction of its font size, then truncated.
_SMALLEST = 0.65
# Font size and vertical offsets of subscripts and superscripts, as fractions of the font size, and the maximum nesting
# depth of formulas.
_INDEX_SIZE, _LOWERED, _RAISED = 0.7, -0.22, 0.38
_DEPTH_MAX = 4
# LaTeX commands that formulas may contain.
_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi "
    "omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
)
_SYMBOLS = {
    **{
        name: unicodedata.lookup(f"GREEK {'CAPITAL' if name[0].isupper() else 'SMALL'} LETTER {greek}")
        for name in _GREEK.split()
        for greek in [name.upper().replace("LAMBDA", "LAMDA")]
    },
    "varepsilon": "\N{GREEK SMALL LETTER EPSILON}",
    "varphi": "\N{GREEK SMALL LETTER PHI}",
    "ell": "\N{SCRIPT SMALL L}",
    "pm": "\N{PLUS-MINUS SIGN}",
    "times": "\N{MULTIPLICATION SIGN}",
    "cdot": "\N{MIDDLE DOT}",
    "to": "\N{RIGHTWARDS ARROW}",
    "rightarrow": "\N{RIGHTWARDS ARROW}",
    "leq": "\N{LESS-THAN OR EQUAL TO}",
    "geq": "\N{GREATER-THAN OR EQUAL TO}",
    "le": "\N{LESS-THAN OR EQUAL TO}",
    "ge": "\N{GREATER-THAN OR EQUAL TO}",
    "approx": "\N{ALMOST EQUAL TO}",
    "infty": "\N{INFINITY}",
    "sum": "\N{N-ARY SUMMATION}",
    "prime": "\N{PRIME}",
    ",": "\N{THIN SPACE}",
    ";": " ",
    " ": " ",
    "%": "%",
    "cos": "cos",
    "sin": "sin",
    "log": "log",
    "ln": "ln",
    "min": "min",
    "max": "max",
}
_UPRIGHT = ("mathrm", "text", "rm", "mathregular")
_ACCENTS = {"bar": "\N{COMBINING MACRON}", "overline": "\N{COMBINING MACRON}", "hat": "\N{COMBINING CIRCUMFLEX ACCENT}"}
_TOKEN = re.compile(r"\\([A-Za-z]+|.)|(.)", re.DOTALL)


def write_light_picture(
    out_dir: Path, path: tuple[str, ...], histogram: boost_histogram.Histogram, title: Title
) -> str | None:
    """Draw a histogram to ``pictures/<path>.svg``.

    Returns the path relative to ``out_dir``, or None for a histogram that only `matplotlib_pictures` can draw. Raises
    StorageError.
    """
    drawn = light_picture(histogram, title)
    if drawn is None:
        return None
    relative = Path(PICTURES, *path[:-1], f"{path[-1]}.svg")
    with whole_file(out_dir / relative) as temporary:
        temporary.write_text(drawn, encoding="utf-8")
    return str(relative)


def light_picture(histogram: boost_histogram.Histogram, title: Title) -> str | None:
    """Return the plot as SVG, or None if the histogram or a label is not simple.

    A histogram is not simple if it has several axes, categories, means or a logarithmic axis. A label is not simple if
    it has a formula with more than letters, subscripts and superscripts.
    """
    if len(histogram.axes) != 1 or histogram.kind == boost_histogram.Kind.MEAN:
        return None
    axis = histogram.axes[0]
    if is_category(axis) or not 1 <= len(axis) <= _BINS_MAX:
        return None
    if is_logarithmic(axis):
        return None
    edges = numpy.asarray(axis.edges, dtype=numpy.float64)
    with numpy.errstate(all="ignore"):
        x = _Scale.linear(float(edges[0]), float(edges[-1]), _LEFT, _RIGHT, _X_TICKS_MAX)
        inner = inner_bins(axis)
        values, variances = finite(histogram.values(flow=True)[inner]), histogram.variances(flow=True)
        errors = None if variances is None else numpy.sqrt(numpy.maximum(finite(variances[inner]), 0))
        y = _heights(values, errors)
    if x is None or y is None:
        return None
    written = _written(histogram, axis, edges, title)
    if written is None:
        return None
    parts = [*_axes(x, y), *_contents(values, errors, edges, x, y), *written]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" width="{_WIDTH:.0f}pt" '
        f'height="{_HEIGHT:.0f}pt" font-family="{_FONTS}">\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


# --- scales -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scale:
    """The range of values along one side of the frame, and its ticks."""

    low: float
    high: float
    begin: float
    end: float
    ticks: Sequence[float]
    minor: Sequence[float]
    labels: Sequence[str]
    power: int = 0
    is_logarithmic: bool = False

    def at(self, values: Sequence[float] | Floats) -> Floats:
        """Return the coordinates of values in the picture, clipped to the limits of the scale."""
        values, low, high = numpy.asarray(values, dtype=numpy.float64), self.low, self.high
        if self.is_logarithmic:
            values, low, high = numpy.log10(numpy.maximum(values, low)), math.log10(low), math.log10(high)
        return self.begin + (numpy.clip(values, low, high) - low) / (high - low) * (self.end - self.begin)

    @classmethod
    def linear(cls, low: float, high: float, begin: float, end: float, ticks_max: int) -> _Scale | None:
        """Return a linear scale, or None if its tick labels would need too many digits."""
        span = high - low
        if not (math.isfinite(span) and span > 0 and 1e-290 < max(abs(low), abs(high)) < 1e290):
            return None
        unit = 10.0 ** math.floor(math.log10(span / ticks_max))
        factor = next((one for one in (1, 2, 2.5, 5) if span / (unit * one) <= ticks_max), 10)
        step, parts = unit * factor, 5 if factor in (1, 2.5, 5, 10) else 4
        largest = max(abs(low), abs(high))
        if math.log10(largest / step) > _DIGITS_MAX:
            return None
        power = math.floor(math.log10(largest))
        power = power if power < _POWER_LOW + 1 or power >= _POWER_HIGH else 0
        numbers = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
        shown = step / 10.0**power
        digits = next((count for count in range(12) if math.isclose(round(shown, count), shown, rel_tol=1e-9)), 12)
        small = step / parts
        minor = [
            one * small
            for one in range(math.ceil(low / small - 1e-9), math.floor(high / small + 1e-9) + 1)
            if one % parts
        ]
        labels = [_number(one * shown, digits) for one in numbers]
        return cls(low, high, begin, end, [one * step for one in numbers], minor, labels, power)

    @classmethod
    def logarithmic(cls, low: float, high: float, begin: float, end: float) -> _Scale | None:
        """Return a logarithmic scale, or None if its limits are too large or too small."""
        if not 1e-290 < low < high < 1e290:
            return None
        first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
        every = -(-(last - first + 1) // _DECADES_MAX)
        powers = range(first, last + 1, max(1, every))
        minor = [
            digit * 10.0**power
            for power in range(first - 1, last + 1)
            for digit in range(2, 10)
            if every <= 1 and low <= digit * 10.0**power <= high
        ]
        ticks = [10.0**power for power in powers]
        return cls(low, high, begin, end, ticks, minor, [f"10^{power}" for power in powers], is_logarithmic=True)


def _number(value: float, digits: int) -> str:
    written = f"{value:.{digits}f}"
    return written.replace("-", "\N{MINUS SIGN}") if float(written) else written.lstrip("-")


# --- lines, ticks and frame -------------------------------------------------------------------------------------------


def _heights(values: Floats, errors: Floats | None) -> _Scale | None:
    """Return the scale for bins with these heights; the errors are None if the histogram does not store them."""
    drawn = numpy.zeros_like(values) if errors is None else errors
    highest, lowest = float((values + drawn).max()), float((values - drawn).min())
    if spans_decades(values):
        least = float(values[values > 0].min())
        top = highest * (highest / least) ** 0.15
        return _Scale.logarithmic(least * 0.5, top, _BOTTOM, _TOP)
    if values.min() >= 0:
        return _Scale.linear(0.0, highest * 1.15 or 1.0, _BOTTOM, _TOP, _Y_TICKS_MAX)
    margin = 0.08 * (max(highest, 0.0) - lowest)
    return _Scale.linear(lowest - margin, max(highest, 0.0) + margin, _BOTTOM, _TOP, _Y_TICKS_MAX)


def _contents(values: Floats, errors: Floats | None, edges: Floats, x: _Scale, y: _Scale) -> Iterable[str]:
    across, heights = x.at(edges), y.at(values)
    steps = "".join(f"V{height:.2f}H{right:.2f}" for height, right in zip(heights, across[1:], strict=True))
    path = f"M{across[0]:.2f} {heights[0]:.2f}{steps}"
    yield f'<path d="{path}" fill="none" stroke="{NAVY}" stroke-width="1.6"/>'
    if errors is not None and len(values) <= ERROR_BARS_BINS_MAX:
        low, high = y.at(values - errors), y.at(values + errors)
        middles = x.at((edges[:-1] + edges[1:]) / 2)
        lines = "".join(
            f"M{middle:.2f} {start:.2f}V{stop:.2f}"
            for middle, start, stop in zip(middles, low, high, strict=True)
            if start != stop
        )
        yield f'<path d="{lines}" fill="none" stroke="{NAVY}" stroke-width="1.6"/>'


def _axes(x: _Scale, y: _Scale) -> Iterable[str]:
    marks = [f"M{_LEFT} {_TOP}H{_RIGHT}V{_BOTTOM}H{_LEFT}Z"]
    for places, length in ((x.ticks, _TICK), (x.minor, _MINOR_TICK)):
        marks += [f"M{at:.2f} {_BOTTOM}v{-length}M{at:.2f} {_TOP}v{length}" for at in x.at(places)]
    for places, length in ((y.ticks, _TICK), (y.minor, _MINOR_TICK)):
        marks += [f"M{_LEFT} {at:.2f}h{length}M{_RIGHT} {at:.2f}h{-length}" for at in y.at(places)]
    yield f'<path d="{"".join(marks)}" fill="none" stroke="#000"/>'
    for at, label in zip(x.at(x.ticks), x.labels, strict=True):
        yield _text(Words.plain(label), at, _BOTTOM + 24, _NUMBER, "middle")
    for at, label in zip(y.at(y.ticks), y.labels, strict=True):
        yield _text(_of_power(label), _LEFT - 9, at + 5, _NUMBER, "end")
    if x.power:
        yield _text(_of_power(f"\N{MULTIPLICATION SIGN}10^{x.power}"), _LEFT, _BOTTOM + 44, _NUMBER, "start")
    if y.power:
        yield _text(_of_power(f"\N{MULTIPLICATION SIGN}10^{y.power}"), 8, _TOP - 6, _NUMBER, "start")


def _of_power(label: str) -> Words:
    base, is_power, power = label.partition("^")
    if not is_power:
        return Words.plain(label)
    raised = Letters(power.replace("-", "\N{MINUS SIGN}"), _INDEX_SIZE, _RAISED)
    return Words((Letters(base), raised))


# --- labels and titles ------------------------------------------------------------------------------------------------


def _written(
    histogram: boost_histogram.Histogram, axis: boost_histogram.axis.Axis, edges: Floats, title: Title
) -> list[str] | None:
    """Return the labels and titles as SVG elements, or None if matplotlib has to draw one of them."""
    across, along = words_of(axis_label(axis)), words_of(height_words(histogram, axis, edges))
    wagon, name, right = map(words_of, title)
    if across is None or along is None or wagon is None or name is None or right is None:
        return None
    above = _TOP - 6
    written = [_text(right, _RIGHT, above, _SMALL, "end")]
    room = _RIGHT - _LEFT - right.width(_SMALL) - 20
    begin = _LEFT
    for words, size, part, style in (
        (wagon, _BOLD, 0.6 if title.name else 1.0, 'font-weight="bold"'),
        (name, _NUMBER, 1.0, 'font-style="italic"'),
    ):
        # Divided by 1.1 because bold letters are wider.
        shown, fitted = words.within(room * part / 1.1, size)
        written.append(_text(shown, begin, above, fitted, "start", style))
        begin += shown.width(fitted) * 1.1 + 6
        room -= shown.width(fitted) * 1.1 + 6
    shown, size = across.within(_RIGHT - _LEFT - 60, _LABEL)
    written.append(_text(shown, _RIGHT, _HEIGHT - 8, size, "end"))
    shown, size = along.within(_BOTTOM - _TOP, _LABEL)
    turned = f'<g transform="translate(22 {_TOP}) rotate(-90)">{_text(shown, 0, 0, size, "end")}</g>'
    written.append(turned)
    remark = remark_on(histogram)
    if remark:
        written.append(_text(Words.plain(remark), _LEFT + 14, _TOP + 26, _SMALL, "start", f'fill="{WARNING}"'))
    return written


def _text(words: Words, x: float, y: float, size: float, anchor: str, style: str = "") -> str:
    spans, level = [], 0.0
    for piece in words.pieces:
        # The vertical shift in SVG is relative to the preceding letters.
        shift = (level - piece.raised) * size
        level = piece.raised
        slant = ' font-style="italic"' if piece.is_italic else ""
        of_size = f' font-size="{size * piece.size:.1f}"' if piece.size != 1 else ""
        if shift or slant or of_size:
            spans.append(f'<tspan dy="{shift:.1f}"{of_size}{slant}>{escape(piece.text)}</tspan>')
        else:
            spans.append(escape(piece.text))
    return (
        f'<text x="{x:.2f}" y="{y:.2f}" font-size="{size:.1f}" text-anchor="{anchor}" {style}>{"".join(spans)}</text>'
    )


# --- formulas ---------------------------------------------------------------------------------------------------------


def words_of(written: str) -> Words | None:
    """Parse a user's text; return None if it contains, or may contain, a formula that is not simple."""
    shown = one_line(written, 10 * _LENGTH_MAX if "$" in written else _LENGTH_MAX)
    if "$" not in shown:
        return Words.plain(shown)
    parts = shown.split("$")
    if len(parts) % 2 == 0 or "\\$" in shown:
        return None
    pieces: list[Letters] = []
    for number, part in enumerate(parts):
        if number % 2 == 0:
            pieces += [Letters(part)] if part else []
            continue
        formula = _Formula(part).pieces()
        if formula is None:
            return None
        pieces += formula
    return Words(tuple(pieces))


@dataclass(frozen=True)
class Words:
    """A text that consists of several pieces."""

    pieces: tuple[Letters, ...]

    @classmethod
    def plain(cls, text: str) -> Words:
        """Return the words of a text without formulas."""
        return cls((Letters(text),) if text else ())

    def width(self, size: float) -> float:
        """Return the approximate width at a font size, in the same unit as the font size."""
        return sum(size * one.size * _width(one.text) for one in self.pieces)

    def within(self, room: float, size: float) -> tuple[Words, float]:
        """Return the words and their font size, shrunk or truncated to fit into ``room``."""
        width = self.width(size)
        if width <= room:
            return self, size
        size *= max(_SMALLEST, room / width)
        width = self.width(size)
        if width <= room * 1.001:
            return self, size
        whole = "".join(one.text for one in self.pieces)
        return Words.plain(one_line(whole, max(4, int(len(whole) * room / width)))), size


@dataclass(frozen=True)
class Letters:
    """Consecutive letters with the same style; size and height are relative to the font size."""

    text: str
    size: float = 1.0
    raised: float = 0.0
    is_italic: bool = False


def _width(text: str) -> float:
    return sum(
        0.0 if unicodedata.combining(one) else 1.0 if unicodedata.east_asian_width(one) in "WF" else _LETTER_WIDTH
        for one in text
    )


class _Formula:
    """A parser that splits a formula into pieces."""

    def __init__(self, written: str) -> None:
        self._tokens = [(one.group(1), one.group(2)) for one in _TOKEN.finditer(written)]
        self._place = 0

    def pieces(self) -> list[Letters] | None:
        """Return the pieces of the formula, or None if it is empty or not simple."""
        try:
            found = self._until_end(Letters(""), depth=0)
        except _NotSimpleError:
            return None
        return found if found and self._place == len(self._tokens) else None

    def _until_end(self, style: Letters, depth: int) -> list[Letters]:
        """Parse up to the closing brace or the end of the formula; return the pieces."""
        found: list[Letters] = []
        while self._place < len(self._tokens) and self._tokens[self._place][1] != "}":
            found += self._next(style, depth)
        return found

    def _next(self, style: Letters, depth: int) -> list[Letters]:
        if self._place >= len(self._tokens) or depth > _DEPTH_MAX:
            raise _NotSimpleError
        command, letter = self._tokens[self._place]
        self._place += 1
        if command is not None:
            return self._command(command, style, depth)
        if letter in "_^":
            height = (_LOWERED if letter == "_" else _RAISED) * style.size
            inner = replace(style, size=style.size * _INDEX_SIZE, raised=style.raised + height)
            return self._next(inner, depth + 1)
        if letter == "{":
            found = self._until_end(style, depth + 1)
            if self._place >= len(self._tokens):
                raise _NotSimpleError
            self._place += 1
            return found
        if letter in "}&#~":
            raise _NotSimpleError
        if letter == " ":
            return []
        return [replace(style, text="\N{MINUS SIGN}" if letter == "-" else letter, is_italic=letter.isalpha())]

    def _command(self, command: str, style: Letters, depth: int) -> list[Letters]:
        if command in _UPRIGHT:
            return [replace(one, is_italic=False) for one in self._next(style, depth + 1)]
        if command in _ACCENTS:
            found = self._next(style, depth + 1)
            if len(found) != 1:
                raise _NotSimpleError
            return [replace(found[0], text=found[0].text + _ACCENTS[command])]
        if command not in _SYMBOLS:
            raise _NotSimpleError
        return [replace(style, text=_SYMBOLS[command])]


class _NotSimpleError(Exception):
    """Raised if a formula contains something that this module does not support."""
