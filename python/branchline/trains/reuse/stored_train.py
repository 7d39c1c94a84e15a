"""A train as it was planned, and what its first sub-jobs found out, as they are kept for later processes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from branchline.jobs.workers.worker import load_module
from branchline.trains.plan import LoadedWagons, TrainPlan
from branchline.trains.reuse.stored_sources import StoredSources
from branchline.trains.subjobs.pickling import PackedWagons
from branchline.trains.subjobs.shares import ChunkSizes, Share, merge_parts


@dataclass(frozen=True)
class Learning:
    """What the first sub-jobs found out: the branches to read, and the chunk sizes, None if they found nothing. The
    first ``shares_count`` sub-jobs find it out once more, since their first chunk is cut differently.
    """

    branches: tuple[str, ...]
    sizes: ChunkSizes | None
    shares_count: int
    #: The branches that wagons touched first, by wagon.
    touched: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def step(self) -> int | None:
        """The entries of a chunk; None if they are not known."""
        return None if self.sizes is None else self.sizes.step

    def plan(self, plan: TrainPlan) -> TrainPlan:
        """The plan with its final sub-jobs."""
        if self.sizes is None or plan.step is not None:
            return plan
        return replace(plan, shares=merge_parts(plan.shares, self.sizes, max(0, self.shares_count - 1)))

    def share(self, index: int, share: Share, branches: Iterable[str], stopped: Iterable[str]) -> Share:
        """A share as it is handed out to be read."""
        learns = index < self.shares_count
        return replace(
            share,
            branches=tuple(branches),
            learn=learns,
            step=self.step or 1,
            learned_step=self.step if learns else None,
            stopped=frozenset(stopped),
        )


@dataclass(frozen=True)
class StoredTrain:
    """A train as it was planned. ``plan`` is without its wagons, which are pickled in ``wagons``; ``directory`` is the
    one below which names of files are, ``path`` where Python looked for modules, ``sources`` the code, if it is known.
    """

    plan: TrainPlan
    wagons: PackedWagons
    directory: str
    path: tuple[str, ...]
    sources: StoredSources | None = None

    @classmethod
    def of(cls, plan: TrainPlan, sources: StoredSources | None = None) -> StoredTrain:
        """A train of this process. Raises what pickling its wagons raises."""
        settings = replace(plan.settings, on=None)
        stored = replace(plan, settings=settings, loaded=LoadedWagons((), plan.loaded.modules))
        return cls(stored, PackedWagons.of(plan.loaded.wagons), str(Path.cwd()), tuple(sys.path), sources)

    def loaded(self) -> TrainPlan:
        """The plan with its wagons, whose modules are loaded as their files are now."""
        sys.path += [one for one in self.path if one not in sys.path]
        for module in self.plan.loaded.modules:
            load_module(module.name, module.path)
        return replace(self.plan, loaded=LoadedWagons(self.wagons.unpacked(), self.plan.loaded.modules))

    def loaded_as_it_was(self) -> TrainPlan:
        """The plan with its wagons, whose modules are imported as they were: only this process has them so."""
        if self.sources is None:
            return self.loaded()
        self.sources.install()
        return replace(self.plan, loaded=LoadedWagons(self.wagons.unpacked(), ()))
