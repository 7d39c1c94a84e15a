"""What another codec would make of some files: measured on the smallest of them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from branchline.access import Access
from branchline.dataset import DataFile
from branchline.errors import OptionError
from branchline.forecast.laid import LaidFile, laid_file
from branchline.forecast.rates import measured
from branchline.layout.merging import merge

#: A larger file is not recompressed to measure a codec: it would take minutes.
TRIED_BYTES_MAX = 300_000_000


@dataclass(frozen=True)
class OtherCodec:
    """A codec: bytes of the wanted baskets over those of now, and seconds to decompress a byte of what comes out."""

    codec: str
    size_factor: float
    decompress_s_per_byte: float


def try_codec(
    codec: str, files: Sequence[DataFile], laid: Sequence[LaidFile], branches: Sequence[str] | None
) -> OtherCodec:
    """Recompresses the smallest of some files in a temporary folder, and reads both.

    Raises OptionError if all are too large for that, and what writing and reading raise.
    """
    by_path = {one.path: one for one in files}
    least = min(laid, key=lambda one: one.size_bytes)
    if least.size_bytes > TRIED_BYTES_MAX:
        raise OptionError("all files are too large to try another codec on one", hint="name a part of the dataset")
    file = by_path[least.path]
    with tempfile.TemporaryDirectory(prefix="branchline-codec-") as folder:
        path = Path(folder) / "tried.root"
        merge([file.opens], path, codec=codec, sync=False)
        tried = DataFile(str(path), file.tree)
        size = laid_file(tried, branches).wanted_bytes
        rates = measured([tried], branches, Access())
    name = codec.partition(":")[0]
    spent = max(rates.decompress_s_per_byte.values(), default=0.0)
    return OtherCodec(name, size / max(1, least.wanted_bytes), rates.decompress_s_per_byte.get(name, spent))
