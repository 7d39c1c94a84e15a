"""Digests of results: the same for the same, and other ones for all that differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tests.unit.trains.wagons.conftest import run_in_chunks

from branchline.trains.sums.digests import digest_of


def frame(values: Any = (1.0, 2.0), *, name: str = "x", texts: tuple[str, str] = ("a", "b"), index: Any = None) -> Any:
    return pd.DataFrame({name: np.array(values), "text": list(texts)}, index=index)


def test_frames_of_pandas_count_by_what_they_hold() -> None:
    seen = frame()
    # What pandas keeps beside the values of a frame that somebody looked at is no part of it.
    assert seen.x.sum() == 3.0
    assert seen.text[0] == "a"
    assert digest_of(seen) == digest_of(frame())
    others = [frame((1.0, 3.0)), frame((1, 2)), frame(name="y"), frame(texts=("a", "c")), frame(index=[5, 6])]
    assert len({digest_of(one) for one in [seen, *others]}) == 6


def test_columns_of_pandas_count_by_what_they_hold() -> None:
    series = [pd.Series([1.0, 2.0]), pd.Series([1.0, 3.0]), pd.Series([1.0, 2.0], name="a"), pd.Series(["a", "b"])]
    assert digest_of(series[0]) == digest_of(pd.Series([1.0, 2.0]))
    assert len({digest_of(one) for one in series}) == 4


def test_masked_arrays_count_with_their_masks() -> None:
    values = np.arange(3.0)
    masks = ([False] * 3, [True, False, False], [False, False, True])
    arrays = [values, *(np.ma.MaskedArray(values, mask) for mask in masks)]
    assert len({digest_of(one) for one in arrays}) == len(arrays)
    assert digest_of(np.ma.MaskedArray(values, masks[1])) == digest_of(np.ma.MaskedArray(values.copy(), masks[1]))


def test_a_sub_job_with_a_frame_can_be_compared(folder: Path) -> None:
    def framed(events: Any) -> Any:
        found = pd.DataFrame({"px": np.asarray(events.px)})
        return found[found.px > 0]

    first, again = (run_in_chunks(framed, f"{folder}/f0.root").outputs["framed"] for _ in range(2))
    assert len(first) > 0
    assert digest_of(first) == digest_of(again)
