"""Requests to a reader as values: made once from the arguments of a call, checked, and never changed.

Options of uproot's functions that have no effect here are accepted; those that would change the result are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from branchline.base.limits import parse_bytes
from branchline.errors import BAD_FILE_ERRORS, BranchlineError, NoSuchKeyError, OptionError
from branchline.reading.access import PLANNED, Access, access_of
from branchline.reading.arrays.libraries import NESTED, check_how, library_of
from branchline.reading.expressions.functions import FUNCTIONS
from branchline.reading.expressions.name_filters import near_names_hint

# Options for how uproot gets at the bytes, and what it keeps of them: the engine does both in its own way.
IGNORED = frozenset(
    {
        "array_cache",
        "begin_chunk_size",
        "decompression_executor",
        "handler",
        "http_max_header_bytes",
        "interpretation_executor",
        "max_num_elements",
        "minimal_ttree_metadata",
        "num_fallback_workers",
        "num_workers",
        "object_cache",
        "timeout",
        "use_threads",
    }
)

# No range of entries is larger, so the whole range is one step.
ONE_STEP = "1000 TB"


@dataclass(frozen=True, kw_only=True)
class ReadRequest:
    """What is read of a tree, or of many, and how it is given back.

    ``expressions`` None are all branches that the filters keep. The entry range is as in a slice, over all trees
    together. ``library`` is ``ak``, ``np``, ``arrow`` or ``pd``, ``how`` the form of several columns together,
    ``add_doc`` what awkward arrays carry of the branches. Sizes are bytes. Files that are not open yet are read as
    ``access`` says.

    Raises OptionError for what is impossible.
    """

    expressions: tuple[str, ...] | None = None
    cut: str | None = None
    filter_name: Any = None
    filter_typename: Any = None
    filter_branch: Callable[[Any], object] | None = None
    aliases: Mapping[str, str] | None = None
    entry_start: int | None = None
    entry_stop: int | None = None
    step: Step = field(default_factory=lambda: Step.of("100 MB"))
    library: str = "ak"
    how: Any = None
    add_doc: bool | Mapping[str, str] = False
    workers: int = 1
    memory_limit_bytes: int = 2**30
    access: Access = PLANNED
    skip_bad_files: bool = False
    allow_missing: bool = False

    def __post_init__(self) -> None:
        check_how(self.library, self.how)
        if self.cut is not None and not isinstance(self.cut, str):
            raise OptionError(
                f"a cut of {self.cut!r} is impossible",
                hint='a cut is an expression such as "pt > 3"; entries are limited by entry_start and entry_stop',
            )

    @classmethod
    def of(
        cls,
        *,
        expressions: Any = None,
        aliases: Any = None,
        language: Any = None,
        step_size: int | str = "100 MB",
        library: str = "ak",
        ak_add_doc: bool | Mapping[str, str] = False,
        workers: int | None = None,
        memory_limit: int | str = "1 GiB",
        access: Access | str | None = None,
        **others: Any,
    ) -> ReadRequest:
        """The request of a call with uproot's arguments; ``others`` are fields under their own names."""
        check_reading_options(language, ak_add_doc)
        return cls(
            library=library_of(library),
            expressions=_expressions(expressions),
            aliases=_aliases(aliases),
            step=Step.of(step_size),
            add_doc=ak_add_doc,
            workers=check_workers(workers),
            memory_limit_bytes=positive_bytes("memory_limit", memory_limit),
            access=access_of(access),
            **others,
        )

    @property
    def is_everything(self) -> bool:
        """Whether all branches are wanted, as they are."""
        wanted = (self.expressions, self.cut, self.filter_name, self.filter_typename, self.filter_branch, self.aliases)
        return all(one is None for one in wanted)

    @property
    def is_nested(self) -> bool:
        """Whether branches that belong together are to come as records."""
        return isinstance(self.how, str) and self.how == NESTED

    @property
    def skippable(self) -> tuple[type[BranchlineError], ...]:
        """The errors for which a file is left out."""
        return _skippable(skip_bad_files=self.skip_bad_files, allow_missing=self.allow_missing)

    def range_in(self, entries_count: int) -> tuple[int, int]:
        """The first entry and the one after the last, in a tree of ``entries_count`` entries."""
        return check_entries(self.entry_start, self.entry_stop, entries_count)

    def stream(
        self, branches: Sequence[str] | None, *, step: Step | None = None, keeps_values: bool = False
    ) -> StreamRequest:
        """The request for a stream of these branches. With ``keeps_values`` the values that are read are the result."""
        return StreamRequest(
            branches=None if branches is None else tuple(branches),
            step=step or self.step,
            threads=self.workers,
            memory_limit_bytes=self.memory_limit_bytes,
            keeps_values=keeps_values,
            access=self.access,
            skip_bad_files=self.skip_bad_files,
            allow_missing=self.allow_missing,
        )


@dataclass(frozen=True)
class Step:
    """The length of a chunk: ``size_bytes`` after decompression, or ``entries`` if they are given. ``is_even``: all
    chunks of a source have the same length; their number is the nearest to what was asked for.
    """

    size_bytes: int
    entries: int | None = None
    is_even: bool = False

    def entries_in(self, entries_count: int) -> int | None:
        """The entries of a chunk of a source of ``entries_count`` entries; None where bytes decide."""
        return self.entries if self.entries is None or not self.is_even else even_step(self.entries, entries_count)

    @classmethod
    def of(cls, size: int | str) -> Step:
        """A step of entries (an int) or of bytes (as "100 MB"). Raises OptionError."""
        if isinstance(size, int | np.integer):  # NumPy's integers are entries too
            if size < 1:
                raise OptionError(f"steps of {size} entries never end", hint="give 1 or more")
            return cls(parse_bytes("100 MB"), int(size))
        return cls(positive_bytes("step_size", size))


def even_step(entries: int, entries_count: int) -> int:
    """The length of chunks that cut ``entries_count`` entries evenly into about ``entries`` each, as coffea's
    ``chunksize`` does.
    """
    chunks = max(round(entries_count / entries), 1)
    return max(1, -(-entries_count // chunks))


@dataclass(frozen=True, kw_only=True)
class StreamRequest:
    """What a stream of chunks reads of its sources.

    ``branches`` None are all that can be read. Those of them that are ``optional`` are left out of the chunks of trees
    that do not have them, or not in a form that can be read. ``memory_limit_bytes`` is for what reading takes, shared
    by ``memory_parts`` streams. With ``keeps_values`` the values are the caller's result and do not count. With
    ``skip_bad_files`` a file that is missing or damaged is left out, with ``allow_missing`` one without the tree or a
    branch.
    """

    branches: tuple[str, ...] | None = None
    optional: tuple[str, ...] = ()
    step: Step = field(default_factory=lambda: Step.of("100 MB"))
    threads: int = 1
    memory_limit_bytes: int = 2**30
    memory_parts: int = 1
    keeps_values: bool = False
    access: Access = PLANNED
    skip_bad_files: bool = False
    allow_missing: bool = False

    @property
    def skippable(self) -> tuple[type[BranchlineError], ...]:
        """The errors for which a file is left out."""
        return _skippable(skip_bad_files=self.skip_bad_files, allow_missing=self.allow_missing)


def _skippable(*, skip_bad_files: bool, allow_missing: bool) -> tuple[type[BranchlineError], ...]:
    return (BAD_FILE_ERRORS if skip_bad_files else ()) + ((NoSuchKeyError,) if allow_missing else ())


def _expressions(given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    if isinstance(given, str):
        return (given,)
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise OptionError(
            f"expressions cannot be {type(given).__name__}",
            hint="give a name, an expression or a list of them; branches have one interpretation, which is theirs",
        )
    texts = tuple(given)
    for text in texts:
        if not isinstance(text, str):
            raise OptionError(
                f"{text!r} is no name of a branch and no expression",
                hint="branches have one interpretation, which is theirs",
            )
    return texts


def _aliases(given: Any) -> dict[str, str] | None:
    if given is None:
        return None
    if not isinstance(given, Mapping) or not all(isinstance(text, str) for pair in given.items() for text in pair):
        raise OptionError(f"aliases cannot be {given!r}", hint='give a dict such as {"pt": "sqrt(px**2 + py**2)"}')
    return dict(given)


def check_entries(entry_start: int | None, entry_stop: int | None, entries_count: int) -> tuple[int, int]:
    """A range of entries within a tree, from limits that may be None or negative as in a slice. Raises OptionError for
    what is no whole number.
    """
    try:
        start, stop, _ = slice(entry_start, entry_stop).indices(entries_count)
    except TypeError:
        what = f"entries from {entry_start!r} to {entry_stop!r} cannot be read"
        raise OptionError(what, hint="give whole numbers as entry_start and entry_stop") from None
    return start, max(start, stop)


def positive_bytes(what: str, size: object) -> int:
    """A size that something can be read with. Raises OptionError for none, for less, and for what is no size."""
    if not isinstance(size, int | str) or parse_bytes(size) < 1:
        raise OptionError(f"a {what} of {size!r} is impossible", hint='give a size such as "100 MB"')
    return parse_bytes(size)


def check_workers(workers: int | None) -> int:
    """Decoding threads for a number of workers; None is one. Raises OptionError for a number below one."""
    count = 1 if workers is None else int(workers)
    if count < 1:
        raise OptionError(f"{workers} workers cannot read anything", hint="give 1 or more")
    return count


def check_opening_options(options: Mapping[str, Any]) -> None:
    """Accepts options that do not change what is read. Raises OptionError for others."""
    for name, value in options.items():
        if name == "custom_classes":
            if value is not None:
                raise OptionError("custom_classes are not used", hint="objects are read by the file's own descriptions")
        elif name not in IGNORED:
            raise OptionError(f"there is no option {name!r}", hint=near_names_hint(name, sorted(IGNORED)))


def check_virtual(library: str, how: Any, expressions: Any, cut: Any, aliases: Any) -> None:
    """Raises OptionError for what cannot be had of arrays that read when something looks into them."""
    if library != "ak" or how not in (None, NESTED) or cut is not None or aliases is not None:
        what = "library, cut, aliases and most values of how cannot be used with 'virtual=True'"
        raise OptionError(what, hint='virtual arrays are awkward\'s, of branches as they are; how may be "nested"')
    if expressions is not None:
        what = "expressions cannot be used with 'virtual=True'"
        raise OptionError(what, hint="virtual arrays are selected by filters: give filter_name")


def dtype_of(interpretation: Any) -> np.dtype[Any] | None:
    """The type of the numbers that are wanted, in the order of this machine's bytes, if somebody names such a type
    instead of an interpretation; None for anything else.
    """
    named = getattr(interpretation, "to_dtype", interpretation)
    if not isinstance(named, str | np.dtype | type):
        return None
    try:
        return np.dtype(named).newbyteorder("=")
    except TypeError:
        return None


def check_reading_options(language: Any, doc: Any = False) -> None:
    """Raises OptionError for another language of expressions than Python's, or an invalid ``ak_add_doc``."""
    if language is not None and type(language).__name__ != "PythonLanguage":
        raise OptionError(f"expressions are Python, not {language!r}", hint="leave language out")
    if language is not None and set(language.functions) - set(FUNCTIONS):
        raise OptionError("expressions have no functions of the caller", hint="compute with the arrays that are read")
    if not isinstance(doc, bool | Mapping):
        raise OptionError(f"ak_add_doc cannot be {doc!r}", hint='give True, or a dict such as {"unit": "title"}')
