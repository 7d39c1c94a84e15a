"""Zstandard compression of stored results, which are often histograms with many equal bins."""

from __future__ import annotations

from branchline.base.quantities import KIB

#: Smaller contents are not compressed: importing the package takes longer than writing them.
COMPRESSED_MIN_BYTES = 16 * KIB
#: The fastest level with the usual format: half a gigabyte per second, for histograms a hundredth of the size.
_LEVEL = 1


def compressed(content: bytes) -> bytes:
    """Return the compressed content, or the content itself if it is small or does not become smaller."""
    if len(content) < COMPRESSED_MIN_BYTES:
        return content
    import zstandard

    packed: bytes = zstandard.ZstdCompressor(level=_LEVEL).compress(content)
    # A compressed content of the same size would be taken for the content itself.
    return packed if len(packed) < len(content) else content


def decompressed(stored: bytes, size_bytes: int) -> bytes:
    """Return the content of ``size_bytes`` bytes that ``compressed`` has stored. Raises ValueError for other bytes."""
    if len(stored) == size_bytes:
        return stored
    import zstandard

    try:
        content: bytes = zstandard.ZstdDecompressor().decompress(stored, max_output_size=size_bytes)
    except zstandard.ZstdError as error:
        raise ValueError(f"cannot decompress: {error}") from None
    if len(content) != size_bytes:
        raise ValueError(f"decompressed to {len(content)} bytes instead of {size_bytes}")
    return content
