"""The memory that jobs request when they are sent again."""

from __future__ import annotations

import pytest

from branchline.jobs.batch.site_settings import memory_kib, more_memory


@pytest.mark.parametrize(
    ("text", "kib"),
    [
        ("4G", 4 * 2**20),
        ("4 GB", 4 * 2**20),
        ("4000", 4000 * 2**10),
        ("512k", 512),
        ("1T", 2**30),
        ("0", None),
        ("", None),
        ("4X", None),
        ("-1G", None),
        ("2 * RequestCpus", None),
    ],
)
def test_memory_is_read_as_slurm_and_htcondor_write_it(text: str, kib: int | None) -> None:
    assert memory_kib(text) == kib


@pytest.mark.parametrize(
    ("before", "first", "most", "after"),
    [
        ("4G", "4G", None, "8192M"),
        ("8192M", "4G", None, "16384M"),
        # Four times the first is the bound unless the site gives another one.
        ("16384M", "4G", None, "16384M"),
        ("4G", "4G", "6G", "6144M"),
        ("6144M", "4G", "6G", "6144M"),
        ("4G", "4G", "4G", "4G"),
        # The whole node, and an expression of HTCondor: neither can grow.
        ("0", "0", None, "0"),
        ("2 * RequestCpus", "2 * RequestCpus", None, "2 * RequestCpus"),
    ],
)
def test_memory_doubles_up_to_its_bound(before: str, first: str, most: str | None, after: str) -> None:
    assert more_memory(before, first, most) == after
