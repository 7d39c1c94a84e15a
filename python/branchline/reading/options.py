"""Options of uproot's functions: those that mean nothing here, and those that would give something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from branchline.errors import OptionError
from branchline.reading.arrays.libraries import NESTED
from branchline.reading.expressions.functions import FUNCTIONS
from branchline.reading.expressions.name_filters import near_names_hint

# How uproot gets at the bytes, and what it keeps of them: the engine does both in its own way.
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
