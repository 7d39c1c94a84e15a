"""Contents that are stored compressed are returned unchanged, and other sizes are refused."""

from __future__ import annotations

import os

import pytest

from branchline.base.compression import COMPRESSED_MIN_BYTES, compressed, decompressed


@pytest.mark.parametrize("random_bytes", [0, 10, COMPRESSED_MIN_BYTES, 300_000])
def test_contents_are_returned_unchanged(random_bytes: int) -> None:
    # Among these, some contents have the size of their compressed form.
    for zeros in range(64):
        content = os.urandom(random_bytes) + bytes(zeros)
        stored = compressed(content)
        assert len(stored) <= len(content)
        assert decompressed(stored, len(content)) == content


def test_histograms_become_small_and_other_sizes_are_refused() -> None:
    content = bytes(10_000_000)
    stored = compressed(content)
    assert len(stored) < 2000
    for wrong in (0, 9_999_999, 10_000_001):
        with pytest.raises(ValueError, match="decompress"):
            decompressed(stored, wrong)
    with pytest.raises(ValueError, match="decompress"):
        decompressed(b"not compressed", 100)
