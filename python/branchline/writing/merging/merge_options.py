"""The options of `merge` that `skim` and `slim` hand on to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

from branchline.writing.merging.merge import MergeProgress
from branchline.writing.merging.merge_request import Order


class MergeOptions(TypedDict, total=False):
    """Options of `merge`, which has their meanings and defaults."""

    order: Order
    codec: str | None
    basket_size: int | str | None
    cluster_events: int | None
    cluster_bytes: int | str | None
    max_size: int | str | None
    fill_missing_branches: bool
    skip_bad_files: bool
    verify: bool
    memory_limit: int | str
    force: bool
    resume: bool
    sync: bool
    progress: Callable[[MergeProgress], None] | None
