"""Tables of results as text, Markdown, LaTeX and HTML, with names escaped for each format."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from branchline.base.notebook import html_table
from branchline.base.texts import one_line

# Formulas that are kept in LaTeX and Markdown: letters, digits, and commands that only draw symbols.
_SYMBOLS = (
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|phi|chi|psi|omega|"
    "Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|Phi|Psi|Omega|ell|pm|times|cdot|to|rightarrow|leq|geq|"
    "bar|overline|hat|mathrm|rm|sqrt|prime"
)
_FORMULA = re.compile(rf"(\$(?:[A-Za-z0-9 _^{{}}+\-=.,()/]|\\(?:{_SYMBOLS})(?![A-Za-z])|\\[,; ])+\$)")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\N{PLUS-MINUS SIGN}": r"$\pm$",
    "\N{MINUS SIGN}": r"$-$",
    **{one: rf"\{one}" for one in "&%$#_{}"},
}
# Maximum length of a cell.
_CELL_LENGTH_MAX = 200


@dataclass(frozen=True)
class TextTable:
    """A table of results: ``str(table)`` is plain text, ``markdown()``, ``latex()`` and ``html()`` are for documents.

    The first column is aligned to the left, the others to the right. ``rules`` are the numbers of the rows above which
    a line is drawn in LaTeX. Tables are returned by ``branchline.yields``, ``branchline.cutflows`` and
    ``branchline.largest_variations``, which raise the errors.

        print(branchline.yields("out", {"4j2b": "selected/4j2b"}).latex())
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    rules: Sequence[int] = ()

    def __str__(self) -> str:
        lines = self._cells(str)
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [
            "  ".join(f"{cell:{'>' if at else '<'}{widths[at]}}" for at, cell in enumerate(line)).rstrip()
            for line in lines
        ]
        return "\n".join([*text, *(_tidy(note) for note in self.notes)])

    def markdown(self) -> str:
        """Return the table as Markdown."""
        head, *rows = (f"| {' | '.join(line)} |" for line in self._cells(_markdown))
        rule = f"|{'|'.join('---' if at == 0 else '---:' for at in range(len(self.head)))}|"
        return "\n".join([head, rule, *rows, *(f"\n{_escaped(note, _markdown)}" for note in self.notes)]) + "\n"

    def latex(self) -> str:
        """Return the table as a ``tabular`` of LaTeX, without packages."""
        head, *rows = (" & ".join(line) + r" \\" for line in self._cells(_latex))
        lines = [rf"\begin{{tabular}}{{l{'r' * (len(self.head) - 1)}}}", r"\hline", head, r"\hline"]
        for at, row in enumerate(rows):
            lines += [*([r"\hline"] if at in self.rules else []), row]
        lines += [r"\hline", r"\end{tabular}", *(f"% {_tidy(note)}" for note in self.notes)]
        return "\n".join(lines) + "\n"

    def html(self) -> str:
        """Return the table as HTML."""
        head, *rows = self._cells(str)
        return html_table(_tidy(self.title), head, rows, "; ".join(_tidy(note) for note in self.notes))

    def _repr_html_(self) -> str:
        return self.html()

    def _cells(self, escape: Callable[[str], str]) -> list[list[str]]:
        return [[_escaped(cell, escape) for cell in line] for line in (self.head, *self.rows)]


def _tidy(text: str) -> str:
    return one_line(text, _CELL_LENGTH_MAX)


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    """Return a text on one line, escaped except for formulas."""
    if escape is str:
        return _tidy(text)
    parts = _FORMULA.split(_tidy(text))
    is_kept = [at % 2 == 1 and part.count("{") == part.count("}") for at, part in enumerate(parts)]
    return "".join(part if kept else escape(part) for part, kept in zip(parts, is_kept, strict=True))


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]()#+!|<>~$&])", r"\\\1", text)


def _latex(text: str) -> str:
    return "".join(_LATEX.get(one, one) for one in text)
