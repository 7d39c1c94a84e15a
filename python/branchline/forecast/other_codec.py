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
#: Times that both are read.
ROUNDS = 3


@dataclass(frozen=True)
class OtherCodec:
    """A codec: bytes of the wanted baskets over those of now, and the time to decompress a byte of what comes out over
    that of now. Both are factors: a machine that is busy while they are measured is as busy for both.
    """

    codec: str
    size_factor: float
    decompress_factor: float


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
        # In turns, and the quickest of each: what else the machine does only makes it slower.
        pairs = [(_decompress_s(file, branches), _decompress_s(tried, branches)) for _ in range(ROUNDS)]
    now_s, then_s = (min(times) for times in zip(*pairs, strict=True))
    return OtherCodec(codec.partition(":")[0], size / max(1, least.wanted_bytes), then_s / max(1e-15, now_s))


def _decompress_s(file: DataFile, branches: Sequence[str] | None) -> float:
    """Seconds to decompress a byte of a file, over all its codecs."""
    rates = measured([file], branches, Access())
    return max(rates.decompress_s_per_byte.values(), default=0.0)
