"""Sizes in bytes as people write them."""

from __future__ import annotations

import operator
import re

from branchline.errors import OptionError

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
# What the operating system counts with.
SIZE_BYTES_END = 2**63
_SIZE_HINT = 'write it like "100 MB" or "1 GiB"'
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def parse_bytes(text: str | int) -> int:
    """``"100 MB"`` -> 100 000 000, ``"1 GiB"`` -> 2**30; a number is bytes. Raises OptionError if it is neither."""
    if not isinstance(text, str):
        try:
            return _checked_bytes(operator.index(text), text)
        except TypeError:
            raise OptionError(f"{text!r} is not a size", hint=_SIZE_HINT) from None
    # So many digits are more than any size, and fit into a float.
    found = re.fullmatch(r"\s*([0-9]{1,100}(?:\.[0-9]{1,100})?)\s*([A-Za-z]*)\s*", text)
    if found is None or found.group(2).upper() not in _UNITS:
        raise OptionError(f"{text!r:.80} is not a size", hint=_SIZE_HINT)
    return _checked_bytes(int(float(found.group(1)) * _UNITS[found.group(2).upper()]), text)


def _checked_bytes(size_bytes: int, given: str | int) -> int:
    if not 0 <= size_bytes < SIZE_BYTES_END:
        raise OptionError(f"a size of {given} is impossible", hint="no file and no memory is larger than 8 EiB")
    return size_bytes
