"""Creates names that are valid in file systems and ROOT files, and converts titles to TLatex, ROOT's math notation.

For example, the LaTeX command for eta, as used with matplotlib and hist, becomes ``#eta``.
"""

from __future__ import annotations

import re

#: Matches characters that are replaced in names.
_UNSAFE = re.compile(r"[^A-Za-z0-9_.+=-]+")
NAME_LENGTH_MAX = 80  # long enough to distinguish outputs, short enough for every file system

#: Matches a formula between dollar signs; escaped dollar signs do not count.
_FORMULA = re.compile(r"(?<!\\)\$(.+?)(?<!\\)\$")
#: Matches LaTeX commands for fonts and spaces, which TLatex does not have.
_FONTS = re.compile(r"\\(?:mathrm|mathit|mathbf|mathsf|mathcal|text|textrm|operatorname|rm|boldsymbol)\s*(?=[{\s])")
_SPACES = re.compile(r"\\(?:[,;:! ]|quad|qquad)")
_COMMAND = re.compile(r"\\([A-Za-z]+)\s*")
_ESCAPED = re.compile(r"\\([%$#&_{}])")
#: Matches sub- and superscripts without braces, which TLatex requires.
_BARE_SCRIPT = re.compile(r"([_^])\s*(?=[^{\s])(#[A-Za-z]+|.)")
#: LaTeX commands and their different names in TLatex.
_OTHER_NAMES = {"to": "rightarrow", "le": "leq", "ge": "geq", "ne": "neq", "ell": "font[12]{l}", "cdot": "upoint"}


class SafeNames:
    """Assigns a unique and safe form to each name in a directory."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def give(self, name: str) -> str:
        """Return the safe form of ``name``: ASCII letters, digits and ``_.+=-``, without a leading dot."""
        stem = _UNSAFE.sub("_", name)[:NAME_LENGTH_MAX].lstrip("._").rstrip("_") or "_"
        safe, number = stem, 1
        # Names must be unique in case-insensitive file systems too.
        while safe.lower() in self._used:
            number += 1
            safe = f"{stem}_{number}"
        self._used.add(safe.lower())
        return safe


def root_title(text: str) -> str:
    r"""Convert the formulas between dollar signs in a title to TLatex: ``$p_T$ [GeV]`` becomes ``p_{T} [GeV]``.

    Text outside of dollar signs is not changed. TLatex is documented in the reference of ROOT's class TLatex.
    """
    return _ESCAPED.sub(r"\1", _FORMULA.sub(lambda found: _formula(found.group(1)), text))


def _formula(latex: str) -> str:
    text = _SPACES.sub(" ", _FONTS.sub("", latex))
    text = _COMMAND.sub(lambda found: f"#{_OTHER_NAMES.get(found.group(1), found.group(1))} ", text)
    # Remove the space after a command if no letter follows: the next character ends the command anyway.
    text = re.sub(r"(#[A-Za-z]+(?:\[\d+\]\{\w\})?) (?=[^A-Za-z]|$)", r"\1", text)
    return _BARE_SCRIPT.sub(r"\1{\2}", text)
