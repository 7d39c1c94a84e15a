"""A stored train: its plan, and the branches and chunk sizes that its first sub-jobs have learned. Later processes read
it.

The user's Python files are stored as they were at the start of the train, so that this code can run again after
changes. The files are also sent to workers that cannot access the originals.
"""

from __future__ import annotations

import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

from branchline.base.limits import SHIPPED_MAX_BYTES
from branchline.base.quantities import size
from branchline.errors import WagonError
from branchline.jobs.program import ModuleFile, SourceFile
from branchline.jobs.workers.worker import load_module
from branchline.reading.datasets.identity import content_identity
from branchline.trains.plan import LoadedWagons, TrainPlan
from branchline.trains.reuse.module_finder import user_modules
from branchline.trains.subjobs.share_result import PackedWagons
from branchline.trains.subjobs.shares import ChunkSizes, Share, merge_parts
from branchline.trains.wagons.wagons import Wagon


@dataclass(frozen=True)
class Learning:
    """The branches and chunk sizes that the first sub-jobs of a train have learned.

    ``branches`` are the branches to read. ``sizes`` are the chunk sizes; None if nothing was learned. The first
    ``shares_count`` sub-jobs start with a chunk of a different size, for learning, also when they are rerun.
    """

    branches: tuple[str, ...]
    sizes: ChunkSizes | None
    shares_count: int
    #: The branches that wagons used for the first events, by wagon.
    touched: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def step(self) -> int | None:
        """Number of entries per chunk; None if unknown."""
        return None if self.sizes is None else self.sizes.step

    def plan(self, plan: TrainPlan) -> TrainPlan:
        """Return the plan with its final sub-jobs: split files may get fewer, larger parts."""
        if self.sizes is None or plan.step is not None:
            return plan
        return replace(plan, shares=merge_parts(plan.shares, self.sizes, max(0, self.shares_count - 1)))

    def share(self, index: int, share: Share, branches: Iterable[str], stopped: Iterable[str]) -> Share:
        """Return a share as the train sends it to a worker: with branches, chunk size, and stopped wagons."""
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
    """A train as planned.

    - ``plan`` has no wagons.
    - ``wagons`` are the pickled wagons.
    - ``directory`` is the directory to which relative file names refer.
    - ``path`` is the import path.
    - ``sources`` has the user's Python files; None if unknown.
    """

    plan: TrainPlan
    wagons: PackedWagons
    directory: str
    path: tuple[str, ...]
    sources: StoredSources | None = None

    @classmethod
    def of(cls, plan: TrainPlan, sources: StoredSources | None = None) -> StoredTrain:
        """Create a stored train from a plan in this process. Raises the errors of pickling the wagons."""
        settings = replace(plan.settings, on=None)
        stored = replace(plan, settings=settings, loaded=LoadedWagons((), plan.loaded.modules))
        return cls(stored, PackedWagons.of(plan.loaded.wagons), str(Path.cwd()), tuple(sys.path), sources)

    def loaded(self) -> TrainPlan:
        """Return the plan with its wagons, whose modules are loaded from their current files."""
        sys.path += [one for one in self.path if one not in sys.path]
        for module in self.plan.loaded.modules:
            load_module(module.name, module.path)
        return replace(self.plan, loaded=LoadedWagons(self.wagons.unpacked(), self.plan.loaded.modules))

    def loaded_as_it_was(self) -> TrainPlan:
        """Return the plan with its wagons, whose modules are loaded from the stored files. This affects all later
        imports of these modules in this process.
        """
        if self.sources is None:
            return self.loaded()
        self.sources.install()
        return replace(self.plan, loaded=LoadedWagons(self.wagons.unpacked(), ()))


@dataclass(frozen=True)
class StoredModule:
    """A user module: its name, and the path and content of its file."""

    name: str
    path: str
    content: bytes

    @property
    def sha256(self) -> str:
        """The SHA-256 checksum of the module's file."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def is_changed(self) -> bool:
        """Whether the file on disk differs from the stored content. False if there is no such file any more: the stored
        content is then used.
        """
        try:
            return Path(self.path).read_bytes() != self.content
        except OSError:
            return False


@dataclass(frozen=True)
class StoredSources:
    """All user modules that a train needs, and the import path for other modules."""

    modules: tuple[StoredModule, ...]
    path: tuple[str, ...]

    @classmethod
    def of(cls, wagons: Sequence[Wagon], modules: Sequence[ModuleFile]) -> StoredSources:
        """Find and store the user modules that wagons need. Installed packages are not stored; each machine that runs
        jobs uses its own.
        """
        found = user_modules(wagons, modules)
        stored = [StoredModule(one.name, str(one.path), one.path.read_bytes()) for one in found]
        return cls(tuple(stored), tuple(sys.path))

    def install(self) -> None:
        """Make this process import these modules from the stored files from now on."""
        known = set(sys.path)
        sys.path += [one for one in self.path if one not in known]
        sys.meta_path.insert(0, _StoredFinder({one.name: one for one in self.modules}))

    def changed(self) -> list[str]:
        """Return the paths of files that have changed."""
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
        # The original path lets the module find neighbouring files.
        return importlib.util.spec_from_file_location(fullname, stored.path, loader=_StoredLoader(stored))


class _StoredLoader(importlib.abc.SourceLoader):
    def __init__(self, stored: StoredModule) -> None:
        self._stored = stored

    def get_filename(self, fullname: str) -> str:
        del fullname
        return self._stored.path

    def get_data(self, path: str | bytes) -> bytes:
        # Python also calls this function to look for compiled files, which are not stored.
        if path != self._stored.path:
            raise OSError(f"{path!r} is not stored")
        return self._stored.content


def load_names(modules: Iterable[ModuleFile]) -> list[ModuleFile]:
    """Return the modules that workers load first, with the paths of their files in the folder that is sent to
    workers.
    """
    return [ModuleFile(one.name, Path(one.path).name) for one in modules]


def identities_of_modules(wagons: Sequence[Wagon], modules: Sequence[ModuleFile]) -> dict[str, str]:
    """Return the identities of the files of all user modules that wagons need, by real path."""
    found: dict[str, str] = {}
    for one in user_modules(wagons, modules):
        with suppress(OSError):
            found[os.path.realpath(one.path)] = content_identity(str(one.path))
    return found


def sources_of(wagons: Sequence[Wagon], modules: Sequence[ModuleFile]) -> list[SourceFile]:
    """Return the files of wagons and of all modules that they need, without installed packages.

    Raises WagonError if the files are too large, or if two files have the same import path.
    """
    found: dict[str, Path] = {}
    for one in user_modules(wagons, modules):
        path = found.setdefault(one.place, one.path)
        if path != one.path:
            what = f"the wagons need both {path} and {one.path}, which remote workers would import as the same module"
            raise WagonError(what, hint="rename one of them")
    sources = [SourceFile(place, path.read_bytes()) for place, path in sorted(found.items())]
    size_bytes = sum(len(one.content) for one in sources)
    if size_bytes > SHIPPED_MAX_BYTES:
        what = f"the modules of the wagons have {size(size_bytes)} of Python, too much to send to workers"
        raise WagonError(what, hint="install them where the workers run")
    return sources
