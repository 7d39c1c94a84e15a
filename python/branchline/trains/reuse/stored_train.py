"""A train as it was planned, and what its first sub-jobs found out, as they are kept for later processes.

The user's Python files are stored as they were when the train began, so that they can run again after changes. They are
also sent to workers that may not see them.
"""

from __future__ import annotations

import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

from branchline.base.limits import SHIPPED_MAX_BYTES
from branchline.errors import WagonError
from branchline.jobs.program import ModuleFile, Source
from branchline.jobs.workers.worker import load_module
from branchline.trains.plan import LoadedWagons, TrainPlan
from branchline.trains.reuse.module_finder import user_modules
from branchline.trains.subjobs.share_result import PackedWagons
from branchline.trains.subjobs.shares import ChunkSizes, Share, merge_parts
from branchline.trains.wagons.wagons import Wagon


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


@dataclass(frozen=True)
class StoredModule:
    """A module of the user: its name, where its file lay, and what the file held."""

    name: str
    path: str
    content: bytes

    @property
    def sha256(self) -> str:
        """The checksum of its file."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def is_changed(self) -> bool:
        """Whether the file holds something else now. One that is gone is not changed: the stored one is used."""
        try:
            return Path(self.path).read_bytes() != self.content
        except OSError:
            return False


@dataclass(frozen=True)
class StoredSources:
    """All modules of the user that a train needs, and where Python looked for others."""

    modules: tuple[StoredModule, ...]
    path: tuple[str, ...]

    @classmethod
    def of(cls, wagons: Sequence[Wagon], modules: Sequence[ModuleFile]) -> StoredSources:
        """Those that wagons need. What is installed is taken from where the jobs run."""
        found = user_modules(wagons, modules)
        stored = [StoredModule(one.name, str(one.path), one.path.read_bytes()) for one in found]
        return cls(tuple(stored), tuple(sys.path))

    def install(self) -> None:
        """From now on these modules are imported as they are stored."""
        known = set(sys.path)
        sys.path += [one for one in self.path if one not in known]
        sys.meta_path.insert(0, _StoredFinder({one.name: one for one in self.modules}))

    def changed(self) -> list[str]:
        """The files that hold something else by now."""
        return sorted({one.path for one in self.modules if one.is_changed})


class _StoredFinder(importlib.abc.MetaPathFinder):
    def __init__(self, modules: dict[str, StoredModule]) -> None:
        self._modules = modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        stored = self._modules.get(fullname)
        if stored is None:
            return None
        # With its place, so that a module finds the files that lie next to it.
        return importlib.util.spec_from_file_location(fullname, stored.path, loader=_StoredLoader(stored))


class _StoredLoader(importlib.abc.SourceLoader):
    def __init__(self, stored: StoredModule) -> None:
        self._stored = stored

    def get_filename(self, fullname: str) -> str:
        del fullname
        return self._stored.path

    def get_data(self, path: str | bytes) -> bytes:
        # Python also looks for compiled files this way.
        if path != self._stored.path:
            raise OSError(f"{path!r} is not stored")
        return self._stored.content


def load_names(modules: Iterable[ModuleFile]) -> list[ModuleFile]:
    """The modules to load first, with where each lies below the folder that they travel to."""
    return [ModuleFile(one.name, Path(one.path).name) for one in modules]


def sources_of(wagons: Sequence[Wagon], modules: Sequence[ModuleFile]) -> list[Source]:
    """The files of wagons, and of all modules that they need. What is installed stays where it is.

    Raises WagonError if they are too large, and for two files of which workers could import only one.
    """
    found: dict[str, Path] = {}
    for one in user_modules(wagons, modules):
        path = found.setdefault(one.place, one.path)
        if path != one.path:
            what = f"the wagons need both {path} and {one.path}, which workers elsewhere would import as one module"
            raise WagonError(what, hint="give one of them another name")
    sources = [Source(place, path.read_bytes()) for place, path in sorted(found.items())]
    size_bytes = sum(len(one.content) for one in sources)
    if size_bytes > SHIPPED_MAX_BYTES:
        what = f"the modules of the wagons have {size_bytes / 1e6:.0f} MB of Python, too much to send to workers"
        raise WagonError(what, hint="install them where the workers run")
    return sources
