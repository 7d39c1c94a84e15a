"""Determines, in a worker, which inputs a sub-job actually used. Results are cached only if these inputs match the
cache key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from branchline.jobs.package_versions import VersionCheck
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.identity import content_identity


@dataclass(frozen=True)
class PlannedCode:
    """The code on which the cache keys of a train's wagons depend: versions of packages, and identities of files by
    path.
    """

    packages: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class UsedCode:
    """The packages and files of the code that differ from the plan, with their versions and identities on the machine
    ``host``.
    """

    host: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_as_planned(self) -> bool:
        """Whether all packages and files are as planned."""
        return not self.packages and not self.files


class CodeCheck:
    """Compares the code of a worker with the plan. The check runs after each sub-job, when all code has been
    imported.
    """

    def __init__(self, planned: PlannedCode, host: str) -> None:
        self._files = planned.files
        self._versions = VersionCheck(planned.packages)
        self._host = host

    def used(self) -> UsedCode:
        """Return all differences found so far."""
        files = {path: now for path, planned in self._files.items() if (now := content_identity(path)) != planned}
        return UsedCode(self._host, self._versions.differences(), files)


def identities_of(files: Iterable[DataFile]) -> dict[str, str]:
    """Return the identities of the local files of a sub-job, and of their companions, by path."""
    found = {}
    for one in files:
        for path in (one.path, *(companion.path_for(one.path)[0] for companion in one.companions)):
            if path not in found and (identity := content_identity(path)):
                found[path] = identity
    return found


def unchanged(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Return the identities of files that were read, by path. If a file changed while it was read, the value is a text
    that differs from every identity.
    """
    return {
        path: before[path] if before[path] == after.get(path, "") else f"{before[path]}, and other content at the end"
        for path in before
    }
