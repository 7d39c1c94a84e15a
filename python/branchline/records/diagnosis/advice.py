"""A piece of advice: the current state, the change, its gain and cost, and who can apply it.

`chosen` turns ideas that save enough time into advice, and `best` selects the most useful pieces. Both apply the same
rules to every kind of advice. Only `records/diagnosis` and `lab/advice` create advice; reports and pages only display
it.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from branchline.base.quantities import duration

#: Version of the advice format; increased when a field changes its meaning.
ADVICE_VERSION = 1
#: Who can apply a piece of advice.
ANALYST, MANAGER, SITE = "analyst", "data manager", "site"
#: Advice is given only if it saves at least this fraction of the time.
GAIN_MIN = 0.03
#: Maximum number of pieces of advice shown: users do not follow longer lists.
PIECES_MAX = 5
#: What is known about a change: that it saves time, that it does not, or neither.
Answer = Literal["gain", "no gain", "unclear"]
#: Relative error of a time that is estimated from a job's record alone, if the change speeds the job up by a factor of
#: e.
RECORD_ERROR = 0.25
#: Half-width of a 90 % interval of a normal distribution, in standard deviations.
NINETY = 1.645
#: Maximum number of files that a command lists individually, and maximum number of folders that get a pattern each.
NAMED_MAX, FOLDERS_MAX = 8, 3
#: Command-line option that keeps copies of the data read, in a subfolder of the working directory.
CACHE_OPTION = "--cache-dir branchline-cache"


@dataclass(frozen=True)
class Gain:
    """The fraction of the time that a change saves, with its 90 % confidence interval."""

    value: float
    low: float
    high: float

    @property
    def answer(self) -> Answer:
        """Whether the change saves time. "unclear" if the interval contains both gains above `GAIN_MIN` and losses or
        negligible gains.
        """
        if self.value >= GAIN_MIN and self.low > 0:
            return "gain"
        return "no gain" if self.high < GAIN_MIN else "unclear"

    def words(self) -> str:
        """Return the interval in percent."""
        return f"{100 * self.low:.0f} to {100 * self.high:.0f} %"


@dataclass(frozen=True)
class Advice:
    """A piece of advice.

    - ``id`` identifies the kind of advice; an id never changes its meaning.
    - ``what`` describes the current state with its numbers.
    - ``change`` is the recommended command or option.
    - ``gain`` is the fraction of ``now_s`` seconds that the change saves.
    - ``cost`` describes the cost of the change, and whether it is paid once or each time.
    - ``whom`` is an analyst, a data manager or a site.
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
        """Return the time after the change, rounded to two digits because it is only an estimate."""
        return duration(float(f"{max(0.0, self.now_s * (1 - self.gain.value)):.2g}"), 2)

    def gain_words(self) -> str:
        """Describe the saved fraction with its confidence interval, and the times before and after the change."""
        gain = self.gain
        return (
            f"saves {100 * gain.value:.0f} % of the time ({gain.words()}): about "
            f"{self.then_words()} instead of {duration(self.now_s)}"
        )

    def lines(self, number: int) -> list[str]:
        """Return the advice as lines for a terminal; ``number`` is its position in a list."""
        return [
            f"{number}. {self.what}",
            f"   change: {self.change}",
            f"   {self.gain_words()}",
            f"   costs: {self.cost}; for the {self.whom} [{self.id}]",
        ]


@dataclass(frozen=True)
class Idea:
    """A possible improvement that would reduce the time of the work to ``then_s`` seconds.

    ``error`` is the relative error of ``then_s`` if the time changes by a factor of e. The remaining fields are those
    of `Advice`.
    """

    id: str
    what: str
    change: str
    then_s: float
    cost: str
    whom: str
    error: float = RECORD_ERROR


def chosen(ideas: Iterable[Idea], now_s: float) -> list[Advice]:
    """Return advice for the ideas that save enough time, for work that takes ``now_s`` seconds."""
    if now_s <= 0:
        return []
    return best(
        Advice(one.id, one.what, one.change, gain_between(now_s, one.then_s, one.error), one.cost, one.whom, now_s)
        for one in ideas
    )


def gain_between(now_s: float, then_s: float, error: float, noise: float = 0.0) -> Gain:
    """Return the fraction of the time that a change saves, with its confidence interval.

    Estimates of large changes are less certain than estimates of small changes: the logarithm of the speedup has the
    relative error ``error``, in addition to the ``noise`` of the measurement.
    """
    factor = max(1e-9, then_s / now_s)
    own = NINETY * math.hypot(error * math.log(factor), noise)
    return Gain(*(1 - factor * by for by in (1.0, math.exp(own), math.exp(-own))))


def best(found: Iterable[Advice]) -> list[Advice]:
    """Return at most `PIECES_MAX` pieces of advice, the largest gain first.

    Only the best piece of each kind is kept, because for example two access modes exclude each other. Changes without
    a certain gain are dropped.
    """
    kept: list[Advice] = []
    worth = (one for one in found if one.gain.answer == "gain")
    for one in sorted(worth, key=lambda one: -one.gain.value):
        if not any(one.id.partition("-")[0] == other.id.partition("-")[0] for other in kept):
            kept.append(one)
    return kept[:PIECES_MAX]


def inputs_words(paths: Sequence[str]) -> str:
    """Return paths as command-line arguments that can be copied into a shell.

    A few files are listed individually. Many files are replaced by one pattern per folder, or by a single pattern if
    they are local and in many folders at the same depth. Otherwise all files are listed.
    """
    if len(paths) <= NAMED_MAX:
        return _quoted(paths)
    folders: dict[str, list[str]] = {}
    for path in paths:
        folders.setdefault(path.rpartition("/")[0], []).append(path)
    if len(folders) <= FOLDERS_MAX:
        return _quoted([pattern_of(each) for _, each in sorted(folders.items())])
    # A wildcard for folders only works locally: servers list one folder at a time.
    is_alike = len({path.count("/") for path in paths}) == 1 and not any("://" in path for path in paths)
    return _quoted([pattern_of(paths)] if is_alike else paths)


def names_words(branches: Iterable[str]) -> str:
    """Return branches as the value of an option."""
    return shlex.quote(",".join(branches))


def tree_words(trees: Iterable[str | None]) -> str:
    """Return the command-line option that selects the tree of all files, with a leading space; empty if there is no
    common name.
    """
    named = set(trees)
    one = named.pop() if len(named) == 1 else None
    return f" --tree {shlex.quote(one)}" if one else ""


def _quoted(words: Iterable[str]) -> str:
    return " ".join(shlex.quote(one) for one in words)


def pattern_of(paths: Sequence[str]) -> str:
    """Return the narrowest glob pattern that matches all paths, with one ``*`` in each part that differs. All paths
    must have the same number of parts.
    """
    parts = []
    for names in zip(*(path.split("/") for path in paths), strict=True):
        if len(set(names)) == 1:
            parts.append(names[0])
            continue
        begin = _begin(names)
        end = _begin([name[len(begin) :][::-1] for name in names])[::-1]
        parts.append(f"{begin}*{end}")
    return "/".join(parts)


def _begin(names: Sequence[str]) -> str:
    """Return the common prefix of the names."""
    first, last = min(names), max(names)
    return next((first[:place] for place, letter in enumerate(first) if last[place] != letter), first)
