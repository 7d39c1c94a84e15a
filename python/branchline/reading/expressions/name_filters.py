"""Branch and tree names: similar names for error hints, and filters."""

from __future__ import annotations

import difflib
import fnmatch
import functools
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from branchline.errors import NoSuchKeyError, OptionError

NEAR_NAMES = 4
# ``/pattern/`` followed by flags of `re`.
REGULAR = re.compile(r"/(.*)/([iLmsux]*)", re.DOTALL)
WILDCARDS = frozenset("*?[")

NameFilter = Callable[[str], bool]


@contextmanager
def with_near_names(name: str, names: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Add the nearest names to a NoSuchKeyError without a hint."""
    try:
        yield
    except NoSuchKeyError as error:
        if error.hint is None:
            error.hint = near_names_hint(name, names())
        raise


def near_names_hint(name: str, names: Sequence[str]) -> str | None:
    """Return a hint that suggests similar names, or else lists the first names; None if there are no names."""
    folded = {one.lower(): one for one in names}
    folded |= {one.rsplit("/", 1)[-1].lower(): one for one in names}
    near = difflib.get_close_matches(name.lower(), folded, n=NEAR_NAMES, cutoff=0.5)
    found = list(dict.fromkeys(folded[one] for one in near))
    if found:
        return f"did you mean {' or '.join(found)}?"
    if len(names) < 2:
        return f"the only name is {names[0]}" if names else None
    return f"the names are {', '.join(names[:NEAR_NAMES])}{', ...' if len(names) > NEAR_NAMES else ''}"


def name_filter(wanted: object, option: str = "filter_name") -> NameFilter | None:
    """Create a predicate on names from one of uproot's filters: a name, a glob, ``/regex/i``, a function, or a list of
    these.

    Returns None for None, which keeps all names. A regular expression matches from the beginning of the name, a glob
    the whole name. Raises OptionError.
    """
    if wanted is None:
        return None
    if callable(wanted):
        return lambda name: bool(wanted(name))
    if isinstance(wanted, str):
        return pattern(wanted) or functools.partial(operator.eq, wanted)
    if isinstance(wanted, Iterable) and not isinstance(wanted, bytes):
        tests = [name_filter(one, option) or _any_name for one in wanted]
        return lambda name: any(test(name) for test in tests)
    raise OptionError(
        f"{option} cannot be {wanted!r}",
        hint='give a name, "wild*cards", "/regular expression/i", a function, or a list',
    )


def _any_name(_: str) -> bool:
    return True


def pattern(text: str) -> NameFilter | None:
    """The predicate of a ``/regular expression/`` or a glob pattern; None for a plain name. Raises OptionError."""
    regular = REGULAR.fullmatch(text)
    if regular is not None:
        try:
            compiled = re.compile(regular[1], functools.reduce(operator.or_, map(_flag, regular[2]), re.NOFLAG))
        except (re.error, ValueError, OverflowError) as error:
            raise OptionError(f"{text!r} is not a valid regular expression: {error}") from None
        return lambda name: compiled.match(name) is not None
    if WILDCARDS.isdisjoint(text):
        return None
    # A name with brackets also matches itself.
    return lambda name: name == text or fnmatch.fnmatchcase(name, text)


def _flag(letter: str) -> re.RegexFlag:
    return re.RegexFlag[letter.upper()]
