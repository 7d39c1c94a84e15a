"""How files and trees are compressed, in our words, in ROOT's numbers or as uproot's objects."""

from __future__ import annotations

import re
from typing import Any

from branchline.errors import OptionError

#: Compresses better than zlib, in less time, and ROOT has it since 6.14.
USUAL = "zstd:5"
_CALL = re.compile(r"(\w+)\((\d+)\)")


def codec_of(compression: Any) -> str:
    """The codec of ``"zstd:5"``, ``"ZSTD(5)"``, ``505``, ``None`` for none, or of uproot's ``uproot.ZSTD(5)``.

    Raises OptionError for anything else.
    """
    if compression is None:
        return "none"
    code = getattr(compression, "code", compression)
    if isinstance(code, int) and not isinstance(code, bool):
        return str(code)
    if isinstance(code, str):
        return _CALL.sub(r"\1:\2", code.strip())
    raise OptionError(f"{compression!r} is no compression", hint='write it like "zstd:5", "lz4", 505 or None')
