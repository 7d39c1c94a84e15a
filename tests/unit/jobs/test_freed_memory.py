"""Memory that wagons freed stays in their process, so that the system need not clear new pages for each array."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import branchline
from branchline.jobs.workers.memory import CHOSEN_BY_USERS

ROUNDS, SIZE = 50, 3 * 2**20


def faults() -> Callable[[Any], Any]:
    """A wagon: how many pages the system had to give for arrays that are dropped at once. It is made here so that it
    goes to workers by value.
    """

    def faulting(events: Any) -> Any:
        import resource

        import numpy as np

        np.ones(SIZE, np.uint8)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(ROUNDS):
            np.ones(SIZE, np.uint8)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    return faulting


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is of the C library of GNU")
def test_arrays_get_the_memory_of_those_before_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with branchline.recreate(tmp_path / "a.root") as file:
        file.mktree("events", {"x": [1.0, 2.0]})
    all_pages = ROUNDS * SIZE // 4096
    # A Dask cluster that lived in this process leaves its own setting in the environment.
    for name in CHOSEN_BY_USERS:
        monkeypatch.delenv(name, raising=False)
    kept = branchline.run(faults(), tmp_path / "a.root", workers=1)
    assert kept.outputs["faulting"] < all_pages / 10
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "4096")
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")
    given_back = branchline.run(faults(), tmp_path / "a.root", workers=1)
    assert given_back.outputs["faulting"] > all_pages / 2
