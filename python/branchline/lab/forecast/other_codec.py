"""What another codec, or other clusters, would make of some files: measured on the smallest of them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from branchline.errors import OptionError
from branchline.lab.forecast.laid_file import LaidFile, laid_file
from branchline.lab.forecast.rates import measured
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.writing.merging.merge import merge

#: A larger file is not recompressed to measure a codec: it would take minutes.
TRIED_BYTES_MAX = 300_000_000
#: Times that both are read.
ROUNDS = 3


@dataclass(frozen=True)
class OtherCodec:
    """A codec: bytes of the wanted baskets over those of now, and the time to decompress and to decode a byte of what
    comes out over that of now. All are factors: a machine that is busy while they are measured is as busy for both.
    """

    codec: str
    size_factor: float
    decompress_factor: float
    decode_factor: float = 1.0


def try_codec(
    codec: str, files: Sequence[DataFile], laid: Sequence[LaidFile], branches: Sequence[str] | None
) -> OtherCodec:
    """Recompresses the smallest of some files in a temporary folder, and reads both.

    Raises OptionError if all are too large for that, and what writing and reading raise.
    """
    found = _tried(files, laid, branches, "another codec", codec=codec)
    # Decoding is the same work for any codec: what differs is noise.
    return OtherCodec(codec.partition(":")[0], found.size_factor, found.decompress_factor)


def try_clusters(
    cluster_bytes: int, files: Sequence[DataFile], laid: Sequence[LaidFile], branches: Sequence[str] | None
) -> OtherCodec:
    """The same for clusters of so many bytes, in the codec that is there: small baskets compress less, and each has a
    cost of its own. Raises as `try_codec` does.
    """
    return _tried(files, laid, branches, "other clusters", cluster_bytes=cluster_bytes)


def _tried(
    files: Sequence[DataFile],
    laid: Sequence[LaidFile],
    branches: Sequence[str] | None,
    what: str,
    *,
    codec: str | None = None,
    cluster_bytes: int | None = None,
) -> OtherCodec:
    by_path = {one.path: one for one in files}
    least = min(laid, key=lambda one: one.size_bytes)
    if least.size_bytes > TRIED_BYTES_MAX:
        raise OptionError(f"all files are too large to try {what} on one", hint="name a part of the dataset")
    file = by_path[least.path]
    with tempfile.TemporaryDirectory(prefix="branchline-codec-") as folder:
        path = Path(folder) / "tried.root"
        merge([file.opens], path, codec=codec, cluster_bytes=cluster_bytes, sync=False)
        tried = DataFile(str(path), file.tree)
        written = laid_file(tried, branches)
        # In turns, and the quickest of each: what else the machine does only makes it slower.
        pairs = [(_spent(file, branches), _spent(tried, branches)) for _ in range(ROUNDS)]
    now, then = ([min(each) for each in zip(*own, strict=True)] for own in zip(*pairs, strict=True))
    return OtherCodec(
        written.codec,
        written.wanted_bytes / max(1, least.wanted_bytes),
        *(after / max(1e-15, before) for before, after in zip(now, then, strict=True)),
    )


def _spent(file: DataFile, branches: Sequence[str] | None) -> tuple[float, float]:
    """Seconds to decompress a byte of a file, over all its codecs, and to decode it."""
    rates = measured([file], branches, Access())
    return max(rates.decompress_s_per_byte.values(), default=0.0), rates.decode_s_per_byte
