"""Sites: where a worker is, how far a file is from it, and which machines and storage elements belong to which site.

A distance is a measured round trip, else an estimate by host and site. The configuration file of a site has the
settings of its batch systems, and a section for each site:

[sites.GSI]
hosts = ["lxbk*.gsi.de"]
storage = ["root://*.gsi.de:1094", "/lustre"]
"""

from __future__ import annotations

import enum
import os
import platform
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from branchline.base.limits import HOST_ROUND_TRIP_S, NEAR_ROUND_TRIP_S, SITE_ROUND_TRIP_S, WAN_ROUND_TRIP_S
from branchline.errors import OptionError
from branchline.reading.datasets.elements import LOCAL_ELEMENT, ElementSites, server_of
from branchline.reading.locations import is_url

#: The variable that names the configuration file of the site.
VARIABLE = "BRANCHLINE_SITE_CONFIG"
#: Its section of sites, and the keys of each.
SECTION = "sites"
KEYS = ("hosts", "storage")
#: Variables by which workers know their site, the first that is set holds: ours; CMS's and OSG's pilots; ATLAS, as
#: Rucio's client looks for it; DIRAC; ALICE.
SITE_VARIABLES = (
    "BRANCHLINE_SITE",
    "GLIDEIN_CMSSite",
    "ATLAS_SITE_NAME",
    "OSG_SITE_NAME",
    "GLIDEIN_Site",
    "DIRACSITE",
    "ALIEN_SITE",
)
#: Values of these variables that name no site.
_NO_SITES = ("unknown", "none")
#: Names that a machine has for itself.
_OWN_HOSTS = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, order=True)
class Spot:
    """A machine and its site; each is empty if unknown."""

    host: str = ""
    site: str = ""

    @classmethod
    def of(cls, host: str, environment: Mapping[str, str], sites: SiteMap) -> Spot:
        """By the environment, else by the site's file, else by the domain of the machine's name."""
        for name in SITE_VARIABLES:
            site = environment.get(name, "").strip()
            if site and site.lower() not in _NO_SITES:
                return cls(host, site)
        return cls(host, sites.site_of_host(host) or host.partition(".")[2])


def own_spot() -> Spot:
    """The place of this process. Raises OptionError for an invalid site file."""
    return Spot.of(platform.node() or "localhost", os.environ, SiteMap.load())


# --- how far files are ------------------------------------------------------------------------------------------------


class Nearness(enum.Enum):
    """How far a storage element is from a worker, by their names."""

    HOST = "host"
    SITE = "site"
    ELSEWHERE = "elsewhere"

    @property
    def is_local(self) -> bool:
        """At the worker's own site."""
        return self is not Nearness.ELSEWHERE


_ROUND_TRIPS_S: Mapping[Nearness, float] = {
    Nearness.HOST: HOST_ROUND_TRIP_S,
    Nearness.SITE: SITE_ROUND_TRIP_S,
    Nearness.ELSEWHERE: WAN_ROUND_TRIP_S,
}


def nearness_of(
    spot: Spot, location: str, listed: ElementSites, sites: SiteMap, hosts: Collection[str] = ()
) -> Nearness:
    """How near a path or URL is to a worker. ``hosts`` are machines that hold the file, as its list names them.

    What the dataset's list or the site's file says of a location holds. Else a path is on the worker's machine, and a
    server is at the worker's site if it has the domain of that name, or of the machine.
    """
    if is_among(spot.host, hosts):
        return Nearness.HOST
    site = listed.site_of(location) or sites.site_of_storage(location)
    if site:
        return Nearness.SITE if site == spot.site else Nearness.ELSEWHERE
    server = server_of(location)
    if server == LOCAL_ELEMENT:
        return Nearness.HOST
    address = server.partition("://")[2]
    host = address if address.endswith("]") else address.rpartition(":")[0] or address
    if host in _OWN_HOSTS or host == spot.host:
        return Nearness.HOST
    domains = {one for one in (spot.site, spot.host.partition(".")[2]) if "." in one}
    is_at_site = any(host == domain or host.endswith(f".{domain}") for domain in domains)
    return Nearness.SITE if is_at_site else Nearness.ELSEWHERE


def is_among(host: str, hosts: Collection[str]) -> bool:
    """Whether a machine is one of some that are named, with its domain or without."""
    return bool(host) and any(one == host or _is_short_for(one, host) or _is_short_for(host, one) for one in hosts)


def _is_short_for(short: str, full: str) -> bool:
    return bool(short) and "." not in short and full.startswith(f"{short}.")


def holding_most(hosts: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Of the machines that hold each of some files, those that hold most of them."""
    held = Counter(host for one in hosts for host in one)
    return tuple(host for host, count in held.items() if count == max(held.values()))


@dataclass(frozen=True)
class RoundTrip:
    """A measured round trip to a server."""

    server: str
    took_s: float


class Distances:
    """Round trips from sites to storage elements: measured ones, else estimates from their names."""

    def __init__(self, sites: SiteMap) -> None:
        self._sites = sites
        self._measured_s: dict[tuple[str, str], float] = {}

    def measured(self, site: str, server: str, round_trip_s: float) -> None:
        """A worker at a site has measured a round trip; the shortest counts."""
        known_s = self._measured_s.get((site, server), round_trip_s)
        self._measured_s[site, server] = min(known_s, round_trip_s)

    def from_site(self, site: str) -> tuple[RoundTrip, ...]:
        """The measured round trips from a site, for its other workers."""
        return tuple(RoundTrip(server, took_s) for (own, server), took_s in self._measured_s.items() if own == site)

    def round_trip_s(self, spot: Spot, location: str, listed: ElementSites) -> float:
        """From a worker to a path or URL, in seconds."""
        measured_s = self._measured_s.get((spot.site, server_of(location)))
        if measured_s is not None:
            return measured_s
        return _ROUND_TRIPS_S[nearness_of(spot, location, listed, self._sites)]

    def to_nearest_s(self, spot: Spot, locations: Iterable[str], listed: ElementSites) -> float:
        """From a worker to the nearest of the replicas of a file, in seconds."""
        return min(self.round_trip_s(spot, one, listed) for one in locations)


def is_near(round_trip_s: float, shortest_s: float) -> bool:
    """Whether no other worker is much nearer."""
    return round_trip_s <= max(NEAR_ROUND_TRIP_S, 2 * shortest_s)


# --- the site's configuration -----------------------------------------------------------------------------------------


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


@dataclass(frozen=True)
class SiteFile:
    """The content of a site's configuration file, and its path."""

    path: Path
    content: Mapping[str, object]

    @classmethod
    def load(cls) -> SiteFile:
        """The configuration of this site; empty if there is no file. Raises OptionError."""
        path = site_path()
        try:
            return cls(path, tomllib.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            if os.environ.get(VARIABLE):
                raise OptionError(f"{VARIABLE} names a file that is not there", path=str(path)) from None
            return cls(path, {})
        except (OSError, ValueError) as error:
            what = f"the configuration of the site cannot be read: {error}"
            raise OptionError(what, path=str(path), hint="write TOML") from None

    def section(self, name: str, hint: str) -> Mapping[str, object]:
        """A section of it; empty if there is none. Raises OptionError, with ``hint``, for another value."""
        found = self.content.get(name, {})
        if not isinstance(found, Mapping):
            raise OptionError(f"{name} is not a section", path=str(self.path), hint=hint)
        return found


def site_path() -> Path:
    """The path of the configuration."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "branchline" / "site.toml"
