"""The user's Python files as they were when a train began, so that they can run again after the files have changed."""

from __future__ import annotations

import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from branchline.jobs.program import ModuleFile
from branchline.trains.reuse.module_finder import user_modules
from branchline.trains.wagons.wagons import Wagon


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
