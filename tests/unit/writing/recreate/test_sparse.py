"""Filled cells that do not belong together are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import branchline
from branchline.errors import OptionError

EDGES = [np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0])]


@pytest.mark.parametrize(
    ("coordinates", "values", "edges", "match"),
    [
        ([[1, 1]], [1.0, 2.0], EDGES, "shape"),
        ([[1, 1, 1]], [1.0], EDGES, "2 axes"),
        ([[0.5, 1.0]], [1.0], EDGES, "type float64"),
        ([[4, 1]], [1.0], EDGES, "outside"),
        ([[-1, 1]], [1.0], EDGES, "outside"),
        ([[1, 1], [1, 1]], [1.0, 2.0], EDGES, "a cell has several values"),
        ([[1]], [1.0], [np.array([0.0, 0.0])], "do not increase"),
        ([], [], [], "0 axes"),
    ],
)
def test_what_does_not_belong_together_is_refused(coordinates: Any, values: Any, edges: Any, match: str) -> None:
    with pytest.raises(OptionError, match=match):
        branchline.as_THnSparse(coordinates, values, edges)


@pytest.mark.parametrize(
    ("dtype", "values", "match"),
    [
        ("int32", [1.5], "int32 cannot hold"),
        ("int32", [2.0**31], "int32 cannot hold"),
        ("int32", [float("nan")], "int32 cannot hold"),
        ("float32", [1e300], "float32 cannot hold"),
        ("int64", [1], "unsupported dtype 'int64'"),
        ("nothing", [1], "unsupported dtype 'nothing'"),
    ],
)
def test_cells_that_cannot_hold_their_values_are_refused(dtype: str, values: list[float], match: str) -> None:
    with pytest.raises(OptionError, match=match):
        branchline.as_THnSparse([[1, 1]], values, EDGES, dtype=dtype)


def test_variances_have_the_shape_of_the_values() -> None:
    with pytest.raises(OptionError, match="shape"):
        branchline.as_THnSparse([[1, 1]], [1.0], EDGES, variances=[1.0, 2.0])
