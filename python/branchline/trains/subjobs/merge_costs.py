"""What the stages of the merge cost, while it goes on and at its end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from branchline.records.sensors.record import MergeStage


class MergeCosts:
    """Adds up, for each stage of the merge, the results that were folded and the seconds that it took."""

    def __init__(self, stages: Iterable[MergeStage] = ()) -> None:
        self._stages: dict[int, MergeStage] = {}
        for one in stages:
            self.add(one)

    def add(self, cost: MergeStage) -> None:
        """Adds what a stage cost, also elsewhere."""
        known = self._stages.get(cost.stage, MergeStage(cost.stage))
        self._stages[cost.stage] = replace(
            known,
            results=known.results + cost.results,
            nodes=known.nodes + cost.nodes,
            seconds=known.seconds + cost.seconds,
        )

    @contextmanager
    def folding(self, stage: int, results: int = 0, nodes: int = 0) -> Iterator[None]:
        """Adds the time of the block, in which this many results are folded and nodes become whole."""
        begin_s = time.perf_counter()
        try:
            yield
        finally:
            self.add(MergeStage(stage, results, nodes, time.perf_counter() - begin_s))

    def stages(self) -> list[MergeStage]:
        """One value for each stage in which something was folded, the first stage first."""
        return [self._stages[stage] for stage in sorted(self._stages)]
