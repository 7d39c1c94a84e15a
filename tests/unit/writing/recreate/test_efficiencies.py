"""What cannot be an efficiency is refused, with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest

import branchline
from branchline.errors import OptionError, UnsupportedBranchError

BINS = np.array([0.0, 1.0, 2.0])
PASSED, TOTAL = (np.array([1, 3]), BINS), (np.array([2, 4]), BINS)
WEIGHTED = hist.Hist.new.Var(BINS).Weight()


@pytest.mark.parametrize(
    ("passed", "total", "options", "reason"),
    [
        (TOTAL, PASSED, {}, r"more entries passed than in total, in bin \(1,\)"),
        (PASSED, (np.array([2, 4]), BINS + 1), {}, "different bins"),
        (PASSED, (np.array([[2, 4]]), [0, 1], BINS), {}, "different bins"),
        (WEIGHTED, TOTAL, {}, "one histogram of an efficiency has weights"),
        (WEIGHTED, WEIGHTED, {"statistics": "Wilson"}, "not support Wilson intervals for weighted"),
        (PASSED, TOTAL, {"statistics": "exact"}, "unknown statistics 'exact'"),
        (PASSED, TOTAL, {"confidence_level": 68}, "invalid confidence level 68"),
        (PASSED, TOTAL, {"statistics": "Bayesian", "prior": (0, 1)}, "prior"),
        ((np.array([np.nan, 1.0]), BINS), TOTAL, {}, "NaN"),
        (hist.Hist.new.Var(BINS).Mean(), hist.Hist.new.Var(BINS).Mean(), {}, "counts over one to three axes"),
    ],
)
def test_histograms_that_do_not_belong_together_are_refused(
    passed: Any, total: Any, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(OptionError, match=reason):
        branchline.as_TEfficiency(passed, total, **options)


def test_what_is_no_histogram_is_refused() -> None:
    with pytest.raises(UnsupportedBranchError, match="a list is not a histogram"):
        branchline.as_TEfficiency([1], [2])
    categories = hist.Hist.new.StrCat(["a", "b"]).Var(BINS).Double()
    with pytest.raises(UnsupportedBranchError, match="both category and numeric axes"):
        branchline.as_TEfficiency(categories, categories)


def test_profiles_over_four_axes_are_refused(tmp_path: Path) -> None:
    profile = hist.Hist(*[hist.axis.Regular(2, 0, 1) for _ in range(4)], storage=hist.storage.Mean())
    with (
        pytest.raises(UnsupportedBranchError, match="4 axes; ROOT's histograms have up to 3"),
        branchline.recreate(tmp_path / "p.root") as file,
    ):
        file["p"] = profile
