"""Which machines and storage elements belong to which site, by the site's configuration file.

[sites.GSI]
hosts = ["lxbk*.gsi.de"]
storage = ["root://*.gsi.de:1094", "/lustre"]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from branchline.errors import OptionError
from branchline.jobs.sites.site_file import SiteFile, site_path
from branchline.reading.datasets.elements import server_of
from branchline.reading.locations import is_url

SECTION = "sites"
KEYS = ("hosts", "storage")


@dataclass(frozen=True)
class SiteMap:
    """Patterns of hosts, and of servers or folders, each with its site; the first that matches holds."""

    hosts: tuple[tuple[str, str], ...] = ()
    storage: tuple[tuple[str, str], ...] = ()

    @classmethod
    def load(cls) -> SiteMap:
        """The map in the site's configuration file; empty if there is none. Raises OptionError."""
        path = site_path()
        try:
            changed_ns = path.stat().st_mtime_ns
        except OSError:
            changed_ns = 0
        return _loaded(path, changed_ns)

    @classmethod
    def of(cls, file: SiteFile) -> SiteMap:
        """From the section of a file. Raises OptionError."""
        hosts: list[tuple[str, str]] = []
        storage: list[tuple[str, str]] = []
        path = file.path
        for site, described in file.section(SECTION, hint=f"write [{SECTION}.NAME]").items():
            if not isinstance(described, Mapping) or set(described) - set(KEYS):
                hint = f"write [{SECTION}.{site}] with {' and '.join(KEYS)}"
                raise OptionError(f"the site {site} is not described as it should be", path=str(path), hint=hint)
            for key, patterns in zip(KEYS, (hosts, storage), strict=True):
                given = described.get(key, [])
                if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
                    hint = f'write it like {key} = ["first*", "second"]'
                    raise OptionError(f"{key} of the site {site} is {given!r}", path=str(path), hint=hint)
                patterns += [(one.rstrip("/") or one, site) for one in given]
        return cls(tuple(hosts), tuple(storage))

    def site_of_host(self, host: str) -> str:
        """The site of a machine; empty where no pattern matches."""
        return next((site for pattern, site in self.hosts if fnmatchcase(host, pattern)), "")

    def site_of_storage(self, location: str) -> str:
        """The site of a path or URL; empty where no pattern matches."""
        if is_url(location):
            server = server_of(location)
            return next((site for pattern, site in self.storage if fnmatchcase(server, pattern)), "")
        below = (
            site
            for folder, site in self.storage
            if folder.startswith("/") and f"{location}/".startswith(f"{folder.rstrip('/')}/")
        )
        return next(below, "")


@lru_cache(maxsize=4)
def _loaded(_path: Path, _changed_ns: int) -> SiteMap:
    return SiteMap.of(SiteFile.load())
