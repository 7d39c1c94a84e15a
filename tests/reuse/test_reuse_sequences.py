"""A few of the random sequences of `make test-reuse`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.reuse.sequences import Runner, run_seed, runner


@pytest.fixture(scope="module")
def run() -> Iterator[Runner]:
    with runner() as made:
        yield made


@pytest.mark.parametrize("seeds", [range(first, first + 5) for first in range(0, 30, 5)], ids=str)
def test_what_is_reused_is_what_a_run_would_make(run: Runner, seeds: range) -> None:
    reused = sum(run_seed(seed, run) for seed in seeds)
    assert reused > 0, "no result is reused"
