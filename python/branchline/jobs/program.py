"""What a job gives to the processes that work for it: the callable, the modules that it needs, how they start."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Source:
    """A file of Python that travels with a job: where it lies below a folder of ``sys.path``, and its bytes."""

    path: str
    content: bytes


@dataclass(frozen=True)
class ModuleFile:
    """A module of the user that is loaded from a file: its name, and the path of the file."""

    name: str
    path: str


@dataclass(frozen=True)
class Program:
    """The pickled callable, and the files of the user that it needs where they are not installed.

    ``load`` are those that are loaded before the callable is unpickled; all others are found when they are imported.
    ``sources`` have all of them. ``directory`` is the one of the job, by which relative paths are meant; a worker
    enters it if it is there. ``module`` is that of the callable, ``packages`` are the versions that it was planned
    with.
    """

    work: bytes
    load: tuple[ModuleFile, ...] = ()
    sources: tuple[Source, ...] = ()
    directory: str = ""
    module: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """The same for the same content."""
        digest = hashlib.sha256(self.work + self.directory.encode())
        for one in self.sources:
            digest.update(one.path.encode() + one.content)
        return digest.hexdigest()

    @property
    def size_bytes(self) -> int:
        """What travels."""
        return len(self.work) + sum(len(one.content) for one in self.sources)


@dataclass(frozen=True)
class WorkerStart:
    """What a worker process gets first. ``begin_s`` is when it began to be started (``time.monotonic`` of its machine),
    ``threads`` how many it may use, None where the callable knows. It works in ``directory`` if that is there, else
    where it was started. A process with other versions of ``packages`` refuses to work.
    """

    number: int
    path: tuple[str, ...]
    modules: tuple[ModuleFile, ...]
    work: bytes
    begin_s: float
    threads: int | None = None
    directory: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Versions:
    """What must be the same in a job and its workers, since they send each other Python objects."""

    python: str = field(default_factory=lambda: ".".join(platform.python_version_tuple()[:2]))
    branchline: str = field(default_factory=lambda: importlib.metadata.version("branchline"))

    def difference_from(self, job: Versions) -> str:
        """Says what is another version here than in the job; empty if nothing is."""
        pairs = (("Python", self.python, job.python), ("Branchline", self.branchline, job.branchline))
        return " and ".join(f"{name} {here}, the job {there}" for name, here, there in pairs if here != there)


def own_path() -> tuple[str, ...]:
    """Where this process looks for modules."""
    return tuple(sys.path)
