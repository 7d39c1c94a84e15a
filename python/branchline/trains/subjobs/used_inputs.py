"""What a sub-job really used, as its worker saw it, so that results are kept only under keys that describe it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from branchline.jobs.package_versions import VersionCheck
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.identity import content_identity


@dataclass(frozen=True)
class PlannedCode:
    """What the keys of a train's wagons say of their code: versions of packages, and identities of files."""

    packages: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class UsedCode:
    """Packages and files of the code that differ from what was planned, with what they are on ``host``."""

    host: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_as_planned(self) -> bool:
        """Whether nothing differs."""
        return not self.packages and not self.files


class CodeCheck:
    """Compares the code that a worker runs with that of the plan, after each sub-job, when all of it was imported."""

    def __init__(self, planned: PlannedCode, host: str) -> None:
        self._files = planned.files
        self._versions = VersionCheck(planned.packages)
        self._host = host

    def used(self) -> UsedCode:
        """Return what differs now, or did before."""
        files = {path: now for path, planned in self._files.items() if (now := content_identity(path)) != planned}
        return UsedCode(self._host, self._versions.differences(), files)


def identities_of(files: Iterable[DataFile]) -> dict[str, str]:
    """Return the identities of the local files among those of a sub-job and their companions, by path."""
    found = {}
    for one in files:
        for path in (one.path, *(companion.path_for(one.path)[0] for companion in one.companions)):
            if path not in found and (identity := content_identity(path)):
                found[path] = identity
    return found


def unchanged(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Return the identities of files that were read: for one that changed meanwhile a text that is none."""
    return {
        path: before[path] if before[path] == after.get(path, "") else f"{before[path]}, and other content at the end"
        for path in before
    }
