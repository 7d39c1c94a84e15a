"""Immutable requests to readers, created from the arguments of a call and validated.

Options of uproot that have no effect here are accepted; options that would change the result are rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from branchline.base.quantities import GIB, parse_bytes
from branchline.errors import BAD_FILE_ERRORS, BranchlineError, NoSuchKeyError, OptionError
from branchline.reading.access import PLANNED, Access, access_of
from branchline.reading.arrays.libraries import NESTED, check_how, library_of
from branchline.reading.expressions.functions import FUNCTIONS
from branchline.reading.expressions.name_filters import near_names_hint

# uproot's options for sources and caches, which the engine handles in its own way.
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

# Step size larger than any tree, so that the whole range becomes one step.
ONE_STEP = "1000 TB"


@dataclass(frozen=True, kw_only=True)
class ReadRequest:
    """A request to read one or more trees, including the format of the result.

    ``expressions`` None means all branches that pass the filters. The entry range follows slice semantics and counts
    across all trees. ``library`` is ``ak``, ``np``, ``arrow`` or ``pd``, ``how`` the format of several columns
    together, ``add_doc`` the branch attributes to attach to awkward arrays. Sizes are in bytes. Files that are not open
    yet are opened with ``access``.

    Raises OptionError for invalid values.
    """

    expressions: tuple[str, ...] | None = None
    cut: str | None = None
    filter_name: Any = None
    filter_typename: Any = None
    filter_branch: Callable[[Any], object] | None = None
    aliases: Mapping[str, str] | None = None
    entry_start: int | None = None
    entry_stop: int | None = None
    step: ChunkLength = field(default_factory=lambda: ChunkLength.of("100 MB"))
    library: str = "ak"
    how: Any = None
    add_doc: bool | Mapping[str, str] = False
    workers: int = 1
    memory_limit_bytes: int = GIB
    access: Access = PLANNED
    skip_bad_files: bool = False
    allow_missing: bool = False

    def __post_init__(self) -> None:
        check_how(self.library, self.how)
        if self.cut is not None and not isinstance(self.cut, str):
            raise OptionError(
                f"invalid cut {self.cut!r}",
                hint='give an expression such as "pt > 3"; to limit the entries, use entry_start and entry_stop',
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
        """Create a request from uproot's arguments; ``others`` are passed on unchanged as fields."""
        check_reading_options(language, ak_add_doc)
        return cls(
            library=library_of(library),
            expressions=_expressions(expressions),
            aliases=_aliases(aliases),
            step=ChunkLength.of(step_size),
            add_doc=ak_add_doc,
            workers=check_workers(workers),
            memory_limit_bytes=positive_bytes("memory_limit", memory_limit),
            access=access_of(access),
            **others,
        )

    @property
    def is_everything(self) -> bool:
        """Whether all branches are wanted, without computed fields or a cut."""
        wanted = (self.expressions, self.cut, self.filter_name, self.filter_typename, self.filter_branch, self.aliases)
        return all(one is None for one in wanted)

    @property
    def is_nested(self) -> bool:
        """Whether to combine related branches into records."""
        return isinstance(self.how, str) and self.how == NESTED

    @property
    def skippable(self) -> tuple[type[BranchlineError], ...]:
        """The errors for which a file is skipped."""
        return _skippable(skip_bad_files=self.skip_bad_files, allow_missing=self.allow_missing)

    def range_in(self, entries_count: int) -> tuple[int, int]:
        """The entry range within a tree of ``entries_count`` entries; the end is exclusive."""
        return check_entries(self.entry_start, self.entry_stop, entries_count)

    def stream(
        self, branches: Sequence[str] | None, *, step: ChunkLength | None = None, keeps_values: bool = False
    ) -> StreamRequest:
        """Return the request for a stream of these branches. ``keeps_values`` means that the caller keeps the values,
        so they do not count towards the memory limit.
        """
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
class ChunkLength:
    """The length of a chunk: ``size_bytes`` after decompression, or ``entries`` if given. With ``is_even`` all chunks
    of a source have the same length, as close to ``entries`` as possible.
    """

    size_bytes: int
    entries: int | None = None
    is_even: bool = False

    def entries_in(self, entries_count: int) -> int | None:
        """Number of entries per chunk for a source of ``entries_count`` entries; None if chunks are limited by
        bytes.
        """
        return self.entries if self.entries is None or not self.is_even else even_step(self.entries, entries_count)

    @classmethod
    def of(cls, size: int | str) -> ChunkLength:
        """Parse a number of entries (int) or a size in bytes (such as "100 MB"). Raises OptionError."""
        if isinstance(size, int | np.integer):  # NumPy's integers are numbers of entries, too
            if size < 1:
                raise OptionError(f"step_size cannot be {size} entries", hint="give 1 or more")
            return cls(parse_bytes("100 MB"), int(size))
        return cls(positive_bytes("step_size", size))


def even_step(entries: int, entries_count: int) -> int:
    """Return the chunk length, close to ``entries``, that divides ``entries_count`` entries evenly, like coffea's
    ``chunksize``.
    """
    chunks = max(round(entries_count / entries), 1)
    return max(1, -(-entries_count // chunks))


@dataclass(frozen=True, kw_only=True)
class StreamRequest:
    """A request to a stream of chunks.

    ``branches`` None means all readable branches. ``optional`` branches are omitted for trees in which they are missing
    or unreadable. ``memory_limit_bytes`` limits the memory of reading, shared by ``memory_parts`` streams. With
    ``keeps_values``, the values are the caller's result and do not count towards the limit. ``skip_bad_files`` skips
    missing and damaged files, ``allow_missing`` skips files without the tree or a branch.
    """

    branches: tuple[str, ...] | None = None
    optional: tuple[str, ...] = ()
    step: ChunkLength = field(default_factory=lambda: ChunkLength.of("100 MB"))
    threads: int = 1
    memory_limit_bytes: int = GIB
    memory_parts: int = 1
    keeps_values: bool = False
    access: Access = PLANNED
    skip_bad_files: bool = False
    allow_missing: bool = False

    @property
    def skippable(self) -> tuple[type[BranchlineError], ...]:
        """The errors for which a file is skipped."""
        return _skippable(skip_bad_files=self.skip_bad_files, allow_missing=self.allow_missing)


def _skippable(*, skip_bad_files: bool, allow_missing: bool) -> tuple[type[BranchlineError], ...]:
    return (BAD_FILE_ERRORS if skip_bad_files else ()) + ((NoSuchKeyError,) if allow_missing else ())


def _expressions(given: object) -> tuple[str, ...] | None:
    if given is None:
        return None
    if isinstance(given, str):
        return (given,)
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise OptionError(
            f"expressions cannot be {type(given).__name__}",
            hint="give a name, an expression or a list of them; interpretations are not supported",
        )
    texts = tuple(given)
    for text in texts:
        if not isinstance(text, str):
            raise OptionError(
                f"{text!r} is neither a branch name nor an expression",
                hint="give text; interpretations are not supported",
            )
    return texts


def _aliases(given: object) -> dict[str, str] | None:
    if given is None:
        return None
    if not isinstance(given, Mapping) or not all(isinstance(text, str) for pair in given.items() for text in pair):
        raise OptionError(f"aliases cannot be {given!r}", hint='give a dict such as {"pt": "sqrt(px**2 + py**2)"}')
    return dict(given)


def check_entries(entry_start: int | None, entry_stop: int | None, entries_count: int) -> tuple[int, int]:
    """Clip an entry range to a tree; limits may be None or negative as in a slice. Raises OptionError for values that
    are not integers.
    """
    try:
        start, stop, _ = slice(entry_start, entry_stop).indices(entries_count)
    except TypeError:
        what = f"invalid entry range from {entry_start!r} to {entry_stop!r}"
        raise OptionError(what, hint="give integers as entry_start and entry_stop") from None
    return start, max(start, stop)


def positive_bytes(what: str, size: object) -> int:
    """Parse a size of at least one byte. Raises OptionError for smaller or invalid sizes."""
    size_bytes = parse_bytes(size) if isinstance(size, int | str) else 0
    if size_bytes < 1:
        raise OptionError(f"invalid {what} {size!r}", hint='give a size such as "100 MB"')
    return size_bytes


def check_workers(workers: int | None) -> int:
    """Return the number of decoding threads: ``workers``, or 1 for None. Raises OptionError for a number below 1."""
    count = 1 if workers is None else int(workers)
    if count < 1:
        raise OptionError(f"workers cannot be {workers}", hint="give 1 or more")
    return count


def check_opening_options(options: Mapping[str, object]) -> None:
    """Accept options that do not change the result. Raises OptionError for others."""
    for name, value in options.items():
        if name == "custom_classes":
            if value is not None:
                raise OptionError(
                    "custom_classes are not supported",
                    hint="leave it out; objects are read by their descriptions in the file",
                )
        elif name not in IGNORED:
            raise OptionError(f"unknown option {name!r}", hint=near_names_hint(name, sorted(IGNORED)))


def check_virtual(library: str, how: object, expressions: object, cut: object, aliases: object) -> None:
    """Raise OptionError for options that virtual arrays do not support."""
    if library != "ak" or how not in (None, NESTED) or cut is not None or aliases is not None:
        what = "library, cut, aliases and most values of how cannot be used with 'virtual=True'"
        raise OptionError(what, hint='use library="ak" without cut and aliases; how may be "nested"')
    if expressions is not None:
        what = "expressions cannot be used with 'virtual=True'"
        raise OptionError(what, hint="select branches with filter_name instead")


def dtype_of(interpretation: object) -> np.dtype[Any] | None:
    """Return a dtype in native byte order (uproot accepts one in place of an interpretation); None if the argument is
    not a dtype.
    """
    named = getattr(interpretation, "to_dtype", interpretation)
    if not isinstance(named, str | np.dtype | type):
        return None
    try:
        return np.dtype(named).newbyteorder("=")
    except TypeError:
        return None


def check_reading_options(language: Any, doc: Any = False) -> None:
    """Raise OptionError for a language other than Python, or an invalid ``ak_add_doc``."""
    if language is not None and type(language).__name__ != "PythonLanguage":
        raise OptionError(f"unsupported language {language!r}", hint="leave it out; expressions are Python")
    if language is not None and set(language.functions) - set(FUNCTIONS):
        raise OptionError(
            "custom functions are not supported in expressions", hint="apply them to the arrays after reading"
        )
    if not isinstance(doc, bool | Mapping):
        raise OptionError(f"ak_add_doc cannot be {doc!r}", hint='give True, or a dict such as {"unit": "title"}')
