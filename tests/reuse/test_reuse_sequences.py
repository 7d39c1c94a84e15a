"""A few of the random sequences of `make test-reuse`."""

from __future__ import annotations

from tests.reuse.sequences import run_seed, runner

SEEDS = range(30)


def test_what_is_reused_is_what_a_run_would_make() -> None:
    with runner() as run:
        reused = sum(run_seed(seed, run) for seed in SEEDS)
    # Results are reused at all.
    assert reused > len(SEEDS)
