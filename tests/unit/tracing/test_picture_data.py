"""The columns that a page draws from are those of the trace, and what is joined of very many has the same sums."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest

from branchline.tracing import trace_page
from branchline.tracing.trace_page import _Clock, _lanes, packed


def unpacked(text: str) -> np.ndarray:
    """What the page makes of it, in whole numbers."""
    count, content = text.split(":")
    planes = np.frombuffer(zlib.decompress(base64.b64decode(content)), "u1").reshape(-1, max(int(count), 1))
    folded = sum((planes[place].astype("u8") << np.uint64(8 * place) for place in range(len(planes))), np.uint64(0))
    folded = np.broadcast_to(folded, int(count)).astype("u8")
    return np.cumsum((folded >> np.uint64(1)).astype("i8") ^ -(folded & np.uint64(1)).astype("i8"))


@pytest.mark.parametrize("values", [[], [0], [-1], [5, 5, 5], [-1, 3, -1, 2**52, 0, 255, 256, -(2**40)]])
def test_columns_come_out_of_the_text_as_they_were(values: list[int]) -> None:
    assert unpacked(packed(np.array(values, "i8"))).tolist() == values


def test_rows_that_are_joined_keep_their_time_and_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(11)
    begin = np.sort(random.integers(0, 10**7, 5000))
    end = begin + random.integers(0, 10**5, 5000)
    kind, counted = random.integers(0, 3, 5000), random.random(5000) < 0.3
    clock = _Clock(0, int(end.max()))
    alone = {name: unpacked(text) for name, text in _lanes(clock, begin, end, kind, counted).items()}
    monkeypatch.setattr(trace_page, "ROWS_MAX", 100)
    monkeypatch.setattr(trace_page, "MOMENTS", 200)
    joined = {name: unpacked(text) for name, text in _lanes(clock, begin, end, kind, counted).items()}
    assert len(joined["begin"]) <= 3 * 200
    for one in range(3):
        mine, theirs = joined["kind"] == one, alone["kind"] == one
        assert joined["busy"][mine].sum() == alone["busy"][theirs].sum()
        assert joined["count"][mine].sum() == alone["count"][theirs].sum()
    # In the middle of the time as many are at work as there are.
    middle = clock.end // 2
    at = (joined["begin"] <= middle) & (joined["begin"] + joined["took"] > middle)
    low, high = joined["begin"][at][0], (joined["begin"] + joined["took"])[at][0]
    covered = np.maximum(np.minimum(end, high) - np.maximum(begin, low), 0).sum()
    assert joined["busy"][at].sum() == covered
