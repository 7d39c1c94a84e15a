"""Records the origin of a train's code: its files with their state in git, package versions, and environment
variables.
"""

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

#: Environment variables that can change numerical results, in addition to `_PREFIXES`. None of them contains secrets.
_VARIABLES = ("PYTHONHASHSEED", "PYTHONOPTIMIZE", "LANG", "LC_ALL", "TZ")
#: Maximum number of file names that are passed to one call of git.
NAMES_AT_ONCE = 200
_PREFIXES = ("OMP_", "OPENBLAS_", "MKL_", "NUMBA_", "NPY_", "MALLOC_")


@dataclass(frozen=True)
class Provenance:
    """The code of a train at its start: its files, their records, the versions of the packages that they import, and
    environment variables.
    """

    stored: StoredSources | None = None
    sources: tuple[SourceRecord, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, loaded: LoadedWagons) -> Provenance:
        """Determine the provenance of wagons in this process. If a file cannot be read, no files are recorded, and the
        job continues.
        """
        return Inquiry(loaded).answer()


class Inquiry:
    """Determines the provenance of a train in the background, while the train runs. ``stored`` has the files as they
    were at the start; None if they cannot be read.
    """

    def __init__(self, loaded: LoadedWagons) -> None:
        self.stored: StoredSources | None = None
        with suppress(OSError):
            self.stored = StoredSources.of(loaded.wagons, loaded.modules)
        self._versions = {} if self.stored is None else _versions(self.stored)
        self._environment = {
            name: value
            for name, value in sorted(os.environ.items())
            if name in _VARIABLES or name.startswith(_PREFIXES)
        }
        # Records without the state in git, used until git has answered.
        self._sources: Sequence[SourceRecord] = _records(self.stored.modules, NOT_KNOWN) if self.stored else ()
        # Git is slow, so it runs in a thread. Signals are blocked in this thread, because the main thread handles them.
        self._asks = threading.Thread(target=self._ask, name="branchline-git", daemon=True)
        with signals_blocked():
            self._asks.start()

    def answer(self) -> Provenance:
        """Return the provenance. Waits for git at most ``PROVENANCE_GIT_S``, a short time, because the results of the
        train are not stored yet.
        """
        self._asks.join(PROVENANCE_GIT_S)
        return Provenance(self.stored, tuple(self._sources), self._versions, self._environment)

    def _ask(self) -> None:
        if self.stored is not None:
            self._sources = _source_records(self.stored.modules)


def _versions(stored: StoredSources) -> dict[str, str]:
    """Return the versions, by package name, of the installed packages that the files import."""
    imported: set[str] = set()
    for module in stored.modules:
        with suppress(SyntaxError, ValueError):
            names = imported_by_file(module.content, package_of(module.name, module.path))
            imported.update(name.partition(".")[0] for name in names)
    found: dict[str, str] = {}
    for top in sorted(imported):
        package = find_module(top)
        version = None if package is None else package.installed_version
        if version not in (None, "python", "built in"):
            found[top] = str(version)
    return found


def _records(modules: Sequence[StoredModule], state: str) -> list[SourceRecord]:
    return [SourceRecord(one.name, one.path, one.sha256, len(one.content), state=state) for one in modules]


def _source_records(modules: Sequence[StoredModule]) -> tuple[SourceRecord, ...]:
    """Return the records of files, with the commit of their repository and whether they differ from it."""
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
#: Number of fields before the file name in a line of git's output, by type of the line: "1" for a changed file, "u" for
#: a file with merge conflicts.
_FIELDS = {"1": 8, "u": 10}


def _state_in(line: str) -> tuple[str, str]:
    """Return the name and the state of a file from a line in git's porcelain format, version 2."""
    kind = line[0]
    if kind in "?!":
        return line[2:], NOT_IN_GIT
    return line.split(" ", _FIELDS.get(kind, 8))[-1], CHANGED


class _Git:
    """Asks git about files in one repository."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fill(self, records: Sequence[SourceRecord]) -> None:
        """Set the commits and states in the records of files."""
        names = {str(Path(one.path).relative_to(self._folder)): one for one in records}
        # Use a single call, since most of the time is spent on starting git. Unchanged files are not in the output.
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
        """Return the output of git; None if git fails or times out."""
        # Override settings that name programs for git to start: the repository, with its settings, may belong to
        # another user.
        settings = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]
        try:
            ended = subprocess.run(  # noqa: S603 - no shell, and file names come after --
                ["git", "--no-optional-locks", "--literal-pathspecs", *settings, "-C", str(self._folder), *words],  # noqa: S607 - the user's git
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=PROVENANCE_GIT_S,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return os.fsdecode(ended.stdout)
