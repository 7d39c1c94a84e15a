"""Texts of labels with simple formulas (``$p_T$ [GeV]``) as pieces of one size, slant and height each."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace

from branchline.base.texts import one_line

_LENGTH_MAX = 60
# A letter of Helvetica takes about this part of its height; those of East Asia are as wide as high.
_LETTER_WIDTH = 0.56
# A text that is too long for its place is made smaller down to this part of its size, then cut.
_SMALLEST = 0.65
_INDEX_SIZE, _LOWERED, _RAISED = 0.7, -0.22, 0.38
_DEPTH_MAX = 4

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


@dataclass(frozen=True)
class Letters:
    """Letters with their size and height as parts of the text's size."""

    text: str
    size: float = 1.0
    raised: float = 0.0
    is_italic: bool = False


@dataclass(frozen=True)
class Words:
    """A text of several pieces."""

    pieces: tuple[Letters, ...]

    @classmethod
    def plain(cls, text: str) -> Words:
        """A text without formulas."""
        return cls((Letters(text),) if text else ())

    @classmethod
    def raised(cls, text: str) -> Words:
        """A power."""
        return cls((Letters(text, _INDEX_SIZE, _RAISED),))

    def then(self, other: Words) -> Words:
        """Both, one behind the other."""
        return Words((*self.pieces, *other.pieces))

    def width(self, size: float) -> float:
        """About how long it is, in the unit of the size of its letters."""
        return sum(size * one.size * _width(one.text) for one in self.pieces)

    def within(self, room: float, size: float) -> tuple[Words, float]:
        """The text and the size of its letters, smaller or cut where there is too little room."""
        width = self.width(size)
        if width <= room:
            return self, size
        size *= max(_SMALLEST, room / width)
        width = self.width(size)
        if width <= room * 1.001:
            return self, size
        whole = "".join(one.text for one in self.pieces)
        return Words.plain(one_line(whole, max(4, int(len(whole) * room / width)))), size


def _width(text: str) -> float:
    return sum(
        0.0 if unicodedata.combining(one) else 1.0 if unicodedata.east_asian_width(one) in "WF" else _LETTER_WIDTH
        for one in text
    )


def words_of(written: str) -> Words | None:
    """A user's text; None if there is a formula in it, or perhaps one, that is not simple."""
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


class _NotSimpleError(Exception):
    """A formula has something that is not known here."""


class _Formula:
    """Takes a formula apart."""

    def __init__(self, written: str) -> None:
        self._tokens = [(one.group(1), one.group(2)) for one in _TOKEN.finditer(written)]
        self._place = 0

    def pieces(self) -> list[Letters] | None:
        """The pieces of all of it, None if it is not simple or empty."""
        try:
            found = self._until_end(Letters(""), depth=0)
        except _NotSimpleError:
            return None
        return found if found and self._place == len(self._tokens) else None

    def _until_end(self, style: Letters, depth: int) -> list[Letters]:
        """Up to the end, or to the brace that closes."""
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
