"""Select the parameters of a test that run on every change. The other parameters only run in `make test-long`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

Value = TypeVar("Value")


def long_but(values: Iterable[Value], kept: Collection[Value]) -> list[ParameterSet]:
    """Return ``values`` as parameters of a test. Values that are not in ``kept`` are marked `long`.

    If a value is a tuple, its items are separate arguments.
    """
    given = list(values)
    unknown = [one for one in kept if one not in given]
    assert not unknown, f"no parameters: {unknown}"
    return [
        pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=() if one in kept else pytest.mark.long)
        for one in given
    ]
