"""Names of outputs that are safe in a file system and in a ROOT file, and titles as ROOT draws them.

Formulas in LaTeX, as matplotlib and hist have them, become TLatex's ``#eta``.
"""

from __future__ import annotations

import re

#: Characters that names do not keep.
_UNSAFE = re.compile(r"[^A-Za-z0-9_.+=-]+")
NAME_LENGTH_MAX = 80  # long enough to tell outputs apart, short enough for every file system

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


class SafeNames:
    """Gives each name at one level a safe form of its own; two names never get the same one."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def give(self, name: str) -> str:
        """Return the safe form of ``name``: ASCII letters, digits and ``_.+=-``, no point in front."""
        stem = _UNSAFE.sub("_", name)[:NAME_LENGTH_MAX].lstrip("._").rstrip("_") or "_"
        safe, number = stem, 1
        # Some file systems do not tell upper from lower case.
        while safe.lower() in self._used:
            number += 1
            safe = f"{stem}_{number}"
        self._used.add(safe.lower())
        return safe


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
