"""A piece of advice: the present state, the change, what that gains and costs, and for whom it is.

An idea becomes advice where it saves enough: `chosen` and `best` apply the rules that all kinds of advice share. Only
`records/diagnosis` and `lab/advice` make advice. Reports and pages show what they are handed.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from branchline.base.quantities import duration

#: Increased when a field changes its meaning.
ADVICE_VERSION = 1
#: For whom advice is.
ANALYST, MANAGER, SITE = "analyst", "data manager", "site"
#: Least part of the time that is worth a sentence.
GAIN_MIN = 0.03
#: Most pieces of advice: more are not followed.
PIECES_MAX = 5
#: The error of a time that was estimated from the record of a job alone, as a part, for a change by a factor of e.
RECORD_ERROR = 0.25
#: Half the width of a 90 % interval of a normal distribution, in standard deviations.
NINETY = 1.645
#: Most files that a command names one by one, and most folders for which it has a pattern each.
NAMED_MAX, FOLDERS_MAX = 8, 3
#: The option that keeps copies of what is read, in a folder below the one in which the command is run.
CACHE_OPTION = "--cache-dir branchline-cache"


@dataclass(frozen=True)
class Gain:
    """The part of the time that is saved, with its 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Advice:
    """``id`` never changes its meaning. ``what`` is how it is, with its numbers; ``change`` is the command or option;
    ``gain`` is the part of ``now_s`` seconds that is saved. ``cost`` is what it costs, and whether once or each time;
    ``whom`` it is for is an analyst, a data manager or a site.
    """

    id: str
    what: str
    change: str
    gain: Gain
    cost: str
    whom: str
    now_s: float
    advice_version: int = ADVICE_VERSION

    def then_words(self) -> str:
        """The time with it, in two digits: it is known no better."""
        return duration(float(f"{max(0.0, self.now_s * (1 - self.gain.value)):.2g}"), 2)

    def gain_words(self) -> str:
        """The part that is saved with its interval, and the times."""
        gain = self.gain
        return (
            f"saves {100 * gain.value:.0f} % of the time ({100 * gain.low:.0f} to {100 * gain.high:.0f} %): about "
            f"{self.then_words()} instead of {duration(self.now_s)}"
        )

    def lines(self, number: int) -> list[str]:
        """The advice for a terminal; ``number`` is its place in a list."""
        return [
            f"{number}. {self.what}",
            f"   change: {self.change}",
            f"   {self.gain_words()}",
            f"   costs: {self.cost}; for the {self.whom} [{self.id}]",
        ]


@dataclass(frozen=True)
class Idea:
    """Something that may help: the work takes ``then_s`` seconds with it. The other fields are those of `Advice`.
    ``error`` is that of the time, as a part, for a change by a factor of e.
    """

    id: str
    what: str
    change: str
    then_s: float
    cost: str
    whom: str
    error: float = RECORD_ERROR


def chosen(ideas: Iterable[Idea], now_s: float) -> list[Advice]:
    """Those ideas that are worth it, for work that takes ``now_s`` seconds."""
    return best(_advice(one, now_s) for one in ideas) if now_s > 0 else []


def _advice(idea: Idea, now_s: float) -> Advice:
    gain = gain_between(now_s, idea.then_s, idea.error)
    return Advice(idea.id, idea.what, idea.change, gain, idea.cost, idea.whom, now_s)


def gain_between(now_s: float, then_s: float, error: float, noise: float = 0.0) -> Gain:
    """The part of the time that is saved. What changes a little is known well, what changes much is known less well:
    the logarithm of the factor is uncertain by a part of itself, and by the ``noise`` of what was measured.
    """
    factor = max(1e-9, then_s / now_s)
    own = NINETY * math.hypot(error * math.log(factor), noise)
    return Gain(*(1 - factor * by for by in (1.0, math.exp(own), math.exp(-own))))


def best(found: Iterable[Advice]) -> list[Advice]:
    """At most `PIECES_MAX`, the largest gain first, the best of each kind: two access modes at once are impossible. A
    gain below `GAIN_MIN`, or whose interval reaches 0, is none.
    """
    kept: list[Advice] = []
    worth = (one for one in found if one.gain.value >= GAIN_MIN and one.gain.low > 0)
    for one in sorted(worth, key=lambda one: -one.gain.value):
        if not any(one.id.partition("-")[0] == other.id.partition("-")[0] for other in kept):
            kept.append(one)
    return kept[:PIECES_MAX]


def inputs_words(paths: Sequence[str]) -> str:
    """Files as the input of a command that runs as it is printed: few are named each, many by a pattern for each of
    their folders, or one for all where local folders are many and alike. Files that no pattern stands for are named.
    """
    if len(paths) <= NAMED_MAX:
        return _quoted(paths)
    folders: dict[str, list[str]] = {}
    for path in paths:
        folders.setdefault(path.rpartition("/")[0], []).append(path)
    if len(folders) <= FOLDERS_MAX:
        return _quoted([pattern_of(each) for _, each in sorted(folders.items())])
    # Servers list one folder at a time.
    is_alike = len({path.count("/") for path in paths}) == 1 and not any("://" in path for path in paths)
    return _quoted([pattern_of(paths)] if is_alike else paths)


def names_words(branches: Iterable[str]) -> str:
    """Branches as the value of an option."""
    return shlex.quote(",".join(branches))


def tree_words(trees: Iterable[str | None]) -> str:
    """The option that names the tree of all files, with a blank before it; empty where none is named."""
    named = set(trees)
    one = named.pop() if len(named) == 1 else None
    return f" --tree {shlex.quote(one)}" if one else ""


def _quoted(words: Iterable[str]) -> str:
    return " ".join(shlex.quote(one) for one in words)


def pattern_of(paths: Sequence[str]) -> str:
    """The narrowest pattern with one ``*`` in each part in which the paths, of as many parts each, differ."""
    return "/".join(_part(each) for each in zip(*(path.split("/") for path in paths), strict=True))


def _part(names: Sequence[str]) -> str:
    if len(set(names)) == 1:
        return names[0]
    begin = _begin(names)
    end = _begin([name[len(begin) :][::-1] for name in names])[::-1]
    return f"{begin}*{end}"


def _begin(names: Sequence[str]) -> str:
    """The letters with which all begin."""
    first, last = min(names), max(names)
    return next((first[:place] for place, letter in enumerate(first) if last[place] != letter), first)
