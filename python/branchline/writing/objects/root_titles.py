"""Titles as ROOT draws them: formulas in LaTeX, as matplotlib and hist have them, become TLatex's ``#eta``."""

from __future__ import annotations

import re

#: A formula between two dollars; a dollar after a backslash is a dollar sign.
_FORMULA = re.compile(r"(?<!\\)\$(.+?)(?<!\\)\$")
#: Commands that only choose a font, and spaces: TLatex has no words for them.
_FONTS = re.compile(r"\\(?:mathrm|mathit|mathbf|mathsf|mathcal|text|textrm|operatorname|rm|boldsymbol)\s*(?=[{\s])")
_SPACES = re.compile(r"\\(?:[,;:! ]|quad|qquad)")
_COMMAND = re.compile(r"\\([A-Za-z]+)\s*")
_ESCAPED = re.compile(r"\\([%$#&_{}])")
#: TLatex takes what stands above or below in braces only.
_BARE_SCRIPT = re.compile(r"([_^])\s*(?=[^{\s])(#[A-Za-z]+|.)")
#: What TLatex calls by another name.
_OTHER_NAMES = {"to": "rightarrow", "le": "leq", "ge": "geq", "ne": "neq", "ell": "font[12]{l}", "cdot": "upoint"}


def root_title(text: str) -> str:
    r"""Return a title with the formulas between its dollars in TLatex: ``$p_T$ [GeV]`` is ``p_{T} [GeV]``.

    What stands outside of dollars stays as it is. TLatex is described at ROOT's class reference of that name.
    """
    return _ESCAPED.sub(r"\1", _FORMULA.sub(lambda found: _formula(found.group(1)), text))


def _formula(latex: str) -> str:
    text = _SPACES.sub(" ", _FONTS.sub("", latex))
    text = _COMMAND.sub(lambda found: f"#{_OTHER_NAMES.get(found.group(1), found.group(1))} ", text)
    # A name ends where something else than a letter comes.
    text = re.sub(r"(#[A-Za-z]+(?:\[\d+\]\{\w\})?) (?=[^A-Za-z]|$)", r"\1", text)
    return _BARE_SCRIPT.sub(r"\1{\2}", text)
