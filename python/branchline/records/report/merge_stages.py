"""The costs of the stages of a merge, in words."""

from __future__ import annotations

from collections.abc import Iterable

from branchline.base.quantities import count, counted, duration
from branchline.records.sensors.record import MergeStage


def merge_stages_text(stages: Iterable[MergeStage]) -> str:
    """Return what each stage folded and how long that took; empty without stages."""
    return "; ".join(
        f"stage {one.stage}: {counted(one.results, 'result')} into {count(one.nodes)} in {duration(one.seconds)}"
        for one in stages
    )
