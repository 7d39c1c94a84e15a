"""Contents that are stored compressed are returned unchanged, and other sizes are refused."""

from __future__ import annotations

import random

import pytest
import zstandard

from branchline.base.compression import COMPRESSED_MIN_BYTES, compressed, decompressed

#: Maximum size of a block in zstd's format.
BLOCK_BYTES = 131_072


@pytest.mark.parametrize("random_bytes", [0, 10, COMPRESSED_MIN_BYTES, BLOCK_BYTES])
def test_contents_are_returned_unchanged(random_bytes: int) -> None:
    for zeros in range(64):
        content = random.Random(zeros).randbytes(random_bytes) + bytes(zeros)
        stored = compressed(content)
        assert len(stored) <= len(content)
        assert decompressed(stored, len(content)) == content


def test_a_content_of_the_size_of_its_compressed_form_is_stored_itself() -> None:
    contents = [random.Random(1).randbytes(BLOCK_BYTES) + bytes(zeros) for zeros in range(64)]
    compressor = zstandard.ZstdCompressor(level=1)
    same = [one for one in contents if len(compressor.compress(one)) == len(one)]
    assert same
    assert all(compressed(one) == one for one in same)


def test_histograms_become_small_and_other_sizes_are_refused() -> None:
    content = bytes(10_000_000)
    stored = compressed(content)
    assert len(stored) < 2000
    for wrong in (0, 9_999_999, 10_000_001):
        with pytest.raises(ValueError, match="decompress"):
            decompressed(stored, wrong)
    with pytest.raises(ValueError, match="decompress"):
        decompressed(b"not compressed", 100)
