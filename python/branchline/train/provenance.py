"""Where the code of a train comes from: its files with their state in git, packages, and the environment."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from branchline.limits import PROVENANCE_GIT_S
from branchline.sensors.source_record import CHANGED, COMMITTED, NOT_IN_GIT, SourceRecord
from branchline.train.module_finder import find_module, imported_by, package_of, parsed
from branchline.train.plan import LoadedWagons
from branchline.train.stored_sources import StoredModule, StoredSources

#: Variables by which numbers can change: random order of sets, threads, instruction sets. None of them has a secret.
_VARIABLES = ("PYTHONHASHSEED", "PYTHONOPTIMIZE", "LANG", "LC_ALL", "TZ")
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
        try:
            stored = StoredSources.of(loaded.wagons, loaded.modules)
        except OSError:
            return cls(environment=_environment())
        git = _Git()
        sources = tuple(git.record_of(one) for one in stored.modules)
        return cls(stored, sources, _versions(stored), _environment())


def _environment() -> dict[str, str]:
    return {
        name: value for name, value in sorted(os.environ.items()) if name in _VARIABLES or name.startswith(_PREFIXES)
    }


def _versions(stored: StoredSources) -> dict[str, str]:
    """Versions of the installed packages that the files import by name."""
    found: dict[str, str] = {}
    for module in stored.modules:
        with suppress(SyntaxError, ValueError):
            names = imported_by(parsed(module.content), package_of(module.name, module.path))
            for top in sorted({name.partition(".")[0] for name, _ in names} - found.keys()):
                package = find_module(top)
                version = None if package is None else package.installed_version
                if version not in (None, "python", "built in"):
                    found[top] = str(version)
    return found


class _Git:
    """Asks git about files, once for each folder that git has."""

    def __init__(self) -> None:
        self._commits: dict[Path, str] = {}

    def record_of(self, module: StoredModule) -> SourceRecord:
        """The record of a file: its commit, and whether it is as it was committed."""
        path = Path(module.path)
        record = SourceRecord(module.name, module.path, module.sha256, len(module.content))
        top = next((one for one in path.parents if (one / ".git").exists()), None)
        if top is None:
            return record
        if top not in self._commits:
            self._commits[top] = self._said(top, "rev-parse", "HEAD")
        record.commit = self._commits[top]
        name = str(path.relative_to(top))
        if not record.commit or not self._said(top, "ls-files", "--", name):
            record.state = NOT_IN_GIT
        else:
            record.state = CHANGED if self._said(top, "status", "--porcelain", "--", name) else COMMITTED
        return record

    def _said(self, folder: Path, *words: str) -> str:
        """What git says; nothing where it cannot."""
        # These two settings of a repository name programs that git would start, which may be of somebody else.
        settings = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]
        try:
            ended = subprocess.run(  # noqa: S603 - no shell, and names of files come behind --
                ["git", *settings, "-C", str(folder), *words],  # noqa: S607 - that of the user
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=PROVENANCE_GIT_S,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        return ended.stdout.decode(errors="replace").strip()
