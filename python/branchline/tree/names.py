"""Names of branches and trees: near ones for an error, and those that a filter keeps."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from branchline.errors import NoSuchKeyError

NEAR_NAMES = 4


@contextmanager
def with_near_names(name: str, names: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Adds the nearest names to a NoSuchKeyError that has no hint yet."""
    try:
        yield
    except NoSuchKeyError as error:
        if error.hint is None:
            error.hint = near_names_hint(name, names())
        raise


def near_names_hint(name: str, names: Sequence[str]) -> str | None:
    """`did you mean ...?`, or some of the names, or None if there are none."""
    folded = {one.lower(): one for one in names}
    folded |= {one.rsplit("/", 1)[-1].lower(): one for one in names}
    near = difflib.get_close_matches(name.lower(), folded, n=NEAR_NAMES, cutoff=0.5)
    found = list(dict.fromkeys(folded[one] for one in near))
    if found:
        return f"did you mean {' or '.join(found)}?"
    return f"there are {', '.join(names[:NEAR_NAMES])}{', ...' if len(names) > NEAR_NAMES else ''}" if names else None


def name_filter(wanted: Any) -> Callable[[str], bool]:
    """A test of names as uproot's ``filter_name`` takes it: a name, a glob, ``/regex/``, a function, or several."""
    if wanted is None:
        return lambda _: True
    if callable(wanted):
        return lambda name: bool(wanted(name))
    if isinstance(wanted, str):
        if len(wanted) > 1 and wanted.startswith("/") and wanted.rstrip("i").endswith("/"):
            flags = re.IGNORECASE if wanted.endswith("i") else 0
            pattern = re.compile(wanted.rstrip("i")[1:-1], flags)
            return lambda name: pattern.match(name) is not None
        return lambda name: name == wanted or fnmatch.fnmatchcase(name, wanted)
    tests = [name_filter(one) for one in wanted]
    return lambda name: any(test(name) for test in tests)
