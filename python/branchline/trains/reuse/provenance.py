"""Where the code of a train comes from: its files with their state in git, packages, and the environment."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from branchline.base.limits import PROVENANCE_GIT_S
from branchline.jobs.interruption import signals_blocked
from branchline.records.sensors.record_parts import CHANGED, COMMITTED, NOT_IN_GIT, NOT_KNOWN, SourceRecord
from branchline.trains.plan import LoadedWagons
from branchline.trains.reuse.module_finder import find_module, imported_by_file, package_of
from branchline.trains.reuse.stored_train import StoredModule, StoredSources

#: Variables by which numbers can change: random order of sets, threads, instruction sets. None of them has a secret.
_VARIABLES = ("PYTHONHASHSEED", "PYTHONOPTIMIZE", "LANG", "LC_ALL", "TZ")
#: Names of files that git is given at a time.
NAMES_AT_ONCE = 200
_PREFIXES = ("OMP_", "OPENBLAS_", "MKL_", "NUMBA_", "NPY_", "MALLOC_")


@dataclass(frozen=True)
class Provenance:
    """The code of a train when it began: its files, their records, versions of packages that they import, and variables
    of the environment.
    """

    stored: StoredSources | None = None
    sources: tuple[SourceRecord, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, loaded: LoadedWagons) -> Provenance:
        """That of wagons of this process. A file that cannot be read stops no job: then nothing is known of any."""
        return Inquiry(loaded).answer()


class Inquiry:
    """Finds out the provenance of a train that runs meanwhile. ``stored`` are its files as they are now, if they can be
    read.
    """

    def __init__(self, loaded: LoadedWagons) -> None:
        self.stored: StoredSources | None = None
        with suppress(OSError):
            self.stored = StoredSources.of(loaded.wagons, loaded.modules)
        self._versions = {} if self.stored is None else _versions(self.stored)
        self._environment = _environment()
        # As long as git has not answered.
        self._sources: Sequence[SourceRecord] = _records(self.stored.modules, NOT_KNOWN) if self.stored else ()
        # Git takes long. The thread hears no signals: those are for the main thread, which blocks them at times.
        self._asks = threading.Thread(target=self._ask, name="branchline-git", daemon=True)
        with signals_blocked():
            self._asks.start()

    def answer(self) -> Provenance:
        """Waits for git, but not longer than ``PROVENANCE_GIT_S``: the results of the train are not stored yet."""
        self._asks.join(PROVENANCE_GIT_S)
        return Provenance(self.stored, tuple(self._sources), self._versions, self._environment)

    def _ask(self) -> None:
        if self.stored is not None:
            self._sources = _source_records(self.stored.modules)


def _environment() -> dict[str, str]:
    return {
        name: value for name, value in sorted(os.environ.items()) if name in _VARIABLES or name.startswith(_PREFIXES)
    }


def _versions(stored: StoredSources) -> dict[str, str]:
    """Versions of the installed packages that the files import by name."""
    found: dict[str, str] = {}
    for module in stored.modules:
        with suppress(SyntaxError, ValueError):
            names = imported_by_file(module.content, package_of(module.name, module.path))
            for top in sorted({name.partition(".")[0] for name in names} - found.keys()):
                package = find_module(top)
                version = None if package is None else package.installed_version
                if version not in (None, "python", "built in"):
                    found[top] = str(version)
    return found


def _records(modules: Sequence[StoredModule], state: str) -> list[SourceRecord]:
    return [SourceRecord(one.name, one.path, one.sha256, len(one.content), state=state) for one in modules]


def _source_records(modules: Sequence[StoredModule]) -> tuple[SourceRecord, ...]:
    """The records of files: their commits, and whether they are as they were committed."""
    records = _records(modules, NOT_IN_GIT)
    by_folder: dict[Path, list[SourceRecord]] = {}
    for record in records:
        if top := next((one for one in Path(record.path).parents if (one / ".git").exists()), None):
            by_folder.setdefault(top, []).append(record)
    for top, there in by_folder.items():
        for start in range(0, len(there), NAMES_AT_ONCE):
            _Git(top).fill(there[start : start + NAMES_AT_ONCE])
    return tuple(records)


_COMMIT = "# branch.oid "
#: Fields before the name in lines of git: of a file that changed, and of one with a conflict.
_FIELDS = {"1": 8, "u": 10}


def _state_in(line: str) -> tuple[str, str]:
    """The name of a file, and its state, of a line of git's second format."""
    kind = line[0]
    if kind in "?!":
        return line[2:], NOT_IN_GIT
    return line.split(" ", _FIELDS.get(kind, 8))[-1], CHANGED


class _Git:
    """Asks git about files of a folder that it has, about all of them at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fill(self, records: Sequence[SourceRecord]) -> None:
        """Sets commits and states of the files."""
        names = {str(Path(one.path).relative_to(self._folder)): one for one in records}
        # One question, since most of an answer is the start of the program. What is as committed is not in it.
        which = ("--branch", "--no-renames", "--untracked-files=all", "--ignored", "-z")
        said = self._said("status", "--porcelain=v2", *which, "--", *names)
        if said is None:
            for record in records:
                record.state = NOT_KNOWN
            return
        lines = said.split("\0")
        commit = next((line.removeprefix(_COMMIT) for line in lines if line.startswith(_COMMIT)), "")
        if commit in ("", "(initial)"):
            return
        states = dict(_state_in(line) for line in lines if line and not line.startswith("#"))
        for name, record in names.items():
            record.commit = commit
            record.state = states.get(name, COMMITTED)

    def _said(self, *words: str) -> str | None:
        """What git says; None where it cannot, or not in time."""
        # These two settings of a repository name programs that git would start, which may be of somebody else.
        settings = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]
        try:
            ended = subprocess.run(  # noqa: S603 - no shell, and names of files come behind --
                ["git", "--no-optional-locks", "--literal-pathspecs", *settings, "-C", str(self._folder), *words],  # noqa: S607 - that of the user
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=PROVENANCE_GIT_S,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return os.fsdecode(ended.stdout)
