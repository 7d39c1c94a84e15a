"""Which parameters of a test are tried on every change, and which by `make test-long` alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

Value = TypeVar("Value")


def long_but(values: Iterable[Value], kept: Collection[Value]) -> list[ParameterSet]:
    """The parameters of a test: the ``kept`` ones are tried on every change, the others are marked `long`.

    A value that is a tuple has several parameters.
    """
    given = list(values)
    unknown = [one for one in kept if one not in given]
    assert not unknown, f"no parameters: {unknown}"
    return [
        pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=() if one in kept else pytest.mark.long)
        for one in given
    ]
