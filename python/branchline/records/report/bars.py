"""Stacked bars of the report: converts values to widths, which the templates draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

#: Width of a letter in per cent of a full-width bar, and the background brightness (0 to 255) above which text is dark.
LETTER_WIDTH, LIGHT_ABOVE = 1.0, 175.0


class Slice(NamedTuple):
    """One segment of a stacked bar; start and width are in per cent of the whole bar."""

    start: float
    width: float
    colour: str
    label: str

    @property
    def label_fits(self) -> bool:
        """Whether the label fits into the slice, if the bar is as wide as the page."""
        return self.width > 1.5 + LETTER_WIDTH * len(self.label)

    @property
    def is_light(self) -> bool:
        """Whether dark letters are easier to read on the slice than white ones."""
        red, green, blue = bytes.fromhex(self.colour.removeprefix("#"))
        return 0.299 * red + 0.587 * green + 0.114 * blue > LIGHT_ABOVE


def stack(parts: Sequence[tuple[str, float, str]], whole: float) -> list[Slice]:
    """Return the slices of a bar of length ``whole`` for consecutive parts, given as (label, value, colour)."""
    slices = []
    start = 0.0
    for label, value, colour in parts:
        width = 100.0 * value / whole if whole > 0 else 0.0
        if width > 0:
            slices.append(Slice(round(start, 3), round(width, 3), colour, label))
        start += width
    return slices
