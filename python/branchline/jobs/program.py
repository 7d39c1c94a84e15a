"""The code that a job's processes run: the callable, and the user modules that it needs."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

#: Variables with the number of threads of numerical libraries. Each defaults to one in workers, because there are as
#: many workers as cores: with one thread per core in each worker, the threads would only wait for each other.
LIBRARY_THREADS = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)


@dataclass(frozen=True)
class Program:
    """The pickled callable, and the user's files that it needs.

    - ``load`` lists the user modules to load before the callable is unpickled. Further user modules are loaded when
      they are imported.
    - ``sources`` has the files of all user modules, including those in ``load``.
    - ``directory`` is the job's working directory, to which relative paths refer; a worker changes to it if it exists.
    - ``module`` is the callable's module.
    - ``packages`` are the package versions that the callable was planned with.
    """

    work: bytes
    load: tuple[ModuleFile, ...] = ()
    sources: tuple[SourceFile, ...] = ()
    directory: str = ""
    module: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """A hash of the program's content."""
        digest = hashlib.sha256(self.work + self.directory.encode())
        for one in self.sources:
            digest.update(one.path.encode() + one.content)
        return digest.hexdigest()

    @property
    def size_bytes(self) -> int:
        """Number of bytes to transfer to a worker."""
        return len(self.work) + sum(len(one.content) for one in self.sources)


@dataclass(frozen=True)
class SourceFile:
    """A Python file that is sent with a job: its path relative to a folder in ``sys.path``, and its content."""

    path: str
    content: bytes


@dataclass(frozen=True)
class ModuleFile:
    """A user module that is loaded from a file: the module's name and the file's path."""

    name: str
    path: str


@dataclass(frozen=True)
class WorkerStart:
    """The first message to a worker process.

    - ``begin_s`` is the time at which the worker's startup began (``time.monotonic`` on the worker's machine).
    - ``threads`` is the number of threads that the worker may use; None if the callable decides.
    - ``directory`` is the working directory, to which the worker changes if it exists.
    - ``packages`` are the planned package versions; the worker rejects the job if its own versions differ.
    """

    number: int
    path: tuple[str, ...]
    modules: tuple[ModuleFile, ...]
    work: bytes
    begin_s: float
    threads: int | None = None
    directory: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)


def own_path() -> tuple[str, ...]:
    """Return the module search path of this process."""
    return tuple(sys.path)


@dataclass(frozen=True)
class Versions:
    """Versions that must be the same in a job and its workers, because they exchange Python objects."""

    python: str = field(default_factory=lambda: ".".join(platform.python_version_tuple()[:2]))
    branchline: str = field(default_factory=lambda: importlib.metadata.version("branchline"))

    def difference_from(self, job: Versions) -> str:
        """Return a text that compares the versions that differ from the job's; empty if all versions match."""
        pairs = (("Python", self.python, job.python), ("Branchline", self.branchline, job.branchline))
        return " and ".join(f"{name} {here}, the job {there}" for name, here, there in pairs if here != there)
