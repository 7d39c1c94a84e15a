"""Sites: the location of workers, their distance to files, and the hosts, storage elements and caches of each site.

A distance is a round-trip time, either measured or estimated from the host and the site. The site configuration file
has the settings of the batch systems and a section per site:

[sites.GSI]
hosts = ["lxbk*.gsi.de"]
storage = ["root://*.gsi.de:1094", "/lustre"]
cache = "root://cache.gsi.de:1094"
"""

from __future__ import annotations

import enum
import os
import platform
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain
from pathlib import Path

from branchline.base import environment
from branchline.base.limits import HOST_ROUND_TRIP_S, NEAR_ROUND_TRIP_S, SITE_ROUND_TRIP_S, WAN_ROUND_TRIP_S
from branchline.errors import OptionError
from branchline.reading.datasets.elements import LOCAL_ELEMENT, ElementSites, server_of
from branchline.reading.locations import is_url

#: Name of the environment variable with the path of the site configuration file.
SITE_FILE_VARIABLE = environment.SITE_CONFIG
#: Name of the section for sites in the site configuration file.
_SECTION = "sites"
#: Keys of a site in this section whose values are lists of patterns, and all keys.
_PATTERN_KEYS = ("hosts", "storage", "cache_origins")
_KEYS = ("hosts", "storage", "cache", "cache_origins")
#: Matches the server in the URL of a file on XRootD, and of a cache.
_XROOTD_SERVER = re.compile(r"x?roots?://[^/?#|\s]+", re.IGNORECASE)
#: Environment variables that contain a worker's site, in order of precedence: Branchline's own; CMS and OSG pilots;
#: ATLAS, in the order of Rucio's client; DIRAC; ALICE.
SITE_VARIABLES = (
    environment.SITE,
    "GLIDEIN_CMSSite",
    "ATLAS_SITE_NAME",
    "OSG_SITE_NAME",
    "GLIDEIN_Site",
    "DIRACSITE",
    "ALIEN_SITE",
)
#: Values of `SITE_VARIABLES` that are not the name of a site.
_NO_SITES = ("unknown", "none")
#: Names that refer to the machine itself.
_OWN_HOSTS = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, order=True)
class Spot:
    """A machine and its site; both are empty if unknown."""

    host: str = ""
    site: str = ""

    @classmethod
    def of(cls, host: str, variables: Mapping[str, str], sites: SiteMap) -> Spot:
        """Return the location of a worker on ``host``.

        The site is taken from environment variables, otherwise from the site file, otherwise from the host's domain.
        """
        for name in SITE_VARIABLES:
            site = variables.get(name, "").strip()
            if site and site.lower() not in _NO_SITES:
                return cls(host, site)
        return cls(host, sites.site_of_host(host) or host.partition(".")[2])


def own_spot() -> Spot:
    """Return the location of this process. Raises OptionError for an invalid site file."""
    return Spot.of(platform.node() or "localhost", os.environ, SiteMap.load())


# --- how far files are ------------------------------------------------------------------------------------------------


class Nearness(enum.Enum):
    """How far a storage element is from a worker, estimated from their names."""

    HOST = "host"
    SITE = "site"
    ELSEWHERE = "elsewhere"

    @property
    def is_local(self) -> bool:
        """Whether the storage element is on the worker's host or at the worker's site."""
        return self is not Nearness.ELSEWHERE


_ROUND_TRIPS_S: Mapping[Nearness, float] = {
    Nearness.HOST: HOST_ROUND_TRIP_S,
    Nearness.SITE: SITE_ROUND_TRIP_S,
    Nearness.ELSEWHERE: WAN_ROUND_TRIP_S,
}


def nearness_of(
    spot: Spot, location: str, listed: ElementSites, sites: SiteMap, hosts: Collection[str] = ()
) -> Nearness:
    """Return how near a path or URL is to a worker. ``hosts`` are the hosts that hold the file, according to the file
    list.

    The dataset's list and the site file take precedence. Otherwise, a path counts as on the worker's host. A server
    counts as at the worker's site if it belongs to the domain of the worker's host, or if the site's name is a domain
    to which the server belongs.
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
    """Return whether a host is in ``hosts``. A name without a domain matches the same name with a domain."""
    return bool(host) and any(one == host or _is_short_for(one, host) or _is_short_for(host, one) for one in hosts)


def _is_short_for(short: str, full: str) -> bool:
    return bool(short) and "." not in short and full.startswith(f"{short}.")


def holding_most(hosts: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return the hosts that hold the largest number of files, given the hosts of each file."""
    held = Counter(chain.from_iterable(hosts))
    most = max(held.values(), default=0)
    return tuple(host for host, count in held.items() if count == most)


@dataclass(frozen=True)
class RoundTrip:
    """A measured round-trip time to a server."""

    server: str
    took_s: float


class Distances:
    """Round-trip times from sites to storage elements. A time that was not measured is estimated from the names."""

    def __init__(self, sites: SiteMap) -> None:
        self._sites = sites
        self._measured_s: dict[tuple[str, str], float] = {}

    def measured(self, site: str, server: str, round_trip_s: float) -> None:
        """Record a round-trip time measured by a worker at a site; the shortest time counts."""
        known_s = self._measured_s.get((site, server), round_trip_s)
        self._measured_s[site, server] = min(known_s, round_trip_s)

    def from_site(self, site: str) -> tuple[RoundTrip, ...]:
        """Return the measured round-trip times from a site. They are passed to other workers at this site."""
        return tuple(RoundTrip(server, took_s) for (own, server), took_s in self._measured_s.items() if own == site)

    def round_trip_s(self, spot: Spot, location: str, listed: ElementSites) -> float:
        """Return the round-trip time from a worker to a path or URL, in seconds."""
        measured_s = self._measured_s.get((spot.site, server_of(location)))
        if measured_s is not None:
            return measured_s
        return _ROUND_TRIPS_S[nearness_of(spot, location, listed, self._sites)]

    def to_nearest_s(self, spot: Spot, locations: Iterable[str], listed: ElementSites) -> float:
        """Return the round-trip time from a worker to the nearest replica of a file, in seconds."""
        return min(self.round_trip_s(spot, one, listed) for one in locations)


def is_near(round_trip_s: float, shortest_s: float) -> bool:
    """Return whether a round-trip time counts as near: it is at most twice ``shortest_s``, or at most
    ``NEAR_ROUND_TRIP_S``.
    """
    return round_trip_s <= max(NEAR_ROUND_TRIP_S, 2 * shortest_s)


# --- the site's configuration -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SiteCache:
    """An XRootD cache (XCache) at a site. ``origins`` are patterns of the storage elements that it caches; empty for
    all XRootD servers.

    In the plain form, ``url`` is the cache's server, and a file has the same path as at its origin. In the forwarding
    form, ``url`` ends with ``//``, and the whole URL of the file at its origin follows.

        >>> SiteCache("root://cache:1094").location_of("root://se:1094//store/f.root")
        'root://cache:1094//store/f.root'
        >>> SiteCache("root://cache:1094//").location_of("root://se:1094//store/f.root")
        'root://cache:1094//root://se:1094//store/f.root'
    """

    url: str
    origins: tuple[str, ...] = ()

    @property
    def server(self) -> str:
        """The cache's server, such as ``root://cache:1094``."""
        return server_of(self.url)

    def location_of(self, location: str) -> str:
        """Return the location of a file in the cache; empty if it does not cache the file's storage element."""
        found, element = _XROOTD_SERVER.match(location), server_of(location)
        is_cached = not self.origins or any(fnmatchcase(element, one) for one in self.origins)
        if not found or not is_cached or element == self.server:
            return ""
        path = f"//{location[found.end() :].lstrip('/')}"
        return f"{self.url}{element}{path}" if self.url.endswith("//") else f"{self.url}{path}"


@dataclass(frozen=True)
class SiteMap:
    """The sites of hosts and of storage, as pairs of a pattern and a site, and the caches of sites. The first matching
    pattern counts.
    """

    hosts: tuple[tuple[str, str], ...] = ()
    storage: tuple[tuple[str, str], ...] = ()
    caches: Mapping[str, SiteCache] = field(default_factory=dict, hash=False)

    @classmethod
    def load(cls) -> SiteMap:
        """Return the map from the site configuration file; empty if the file is missing. Raises OptionError."""
        path = site_path()
        try:
            changed_ns = path.stat().st_mtime_ns
        except OSError:
            changed_ns = 0
        return _loaded(path, changed_ns)

    @classmethod
    def of(cls, file: SiteFile) -> SiteMap:
        """Return the map from a site file. Raises OptionError."""
        hosts: list[tuple[str, str]] = []
        storage: list[tuple[str, str]] = []
        caches: dict[str, SiteCache] = {}
        path = file.path
        for site, described in file.section(_SECTION, hint=f"write [{_SECTION}.NAME]").items():
            if not isinstance(described, Mapping) or set(described) - set(_KEYS):
                hint = f"write [{_SECTION}.{site}] with {', '.join(_KEYS)}"
                raise OptionError(f"invalid description of the site {site}", path=str(path), hint=hint)
            origins: list[tuple[str, str]] = []
            for key, patterns in zip(_PATTERN_KEYS, (hosts, storage, origins), strict=True):
                given = described.get(key, [])
                if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
                    hint = f'write it like {key} = ["first*", "second"]'
                    raise OptionError(f"invalid {key} {given!r} of the site {site}", path=str(path), hint=hint)
                patterns += [(one.rstrip("/") or one, site) for one in given]
            cache = described.get("cache", "")
            if cache:
                caches[site] = SiteCache(_cache_url(cache, site, path), tuple(one for one, _ in origins))
            elif origins:
                what = f"the site {site} has cache_origins without a cache"
                raise OptionError(what, path=str(path), hint='add cache = "root://HOST:PORT"')
        return cls(tuple(hosts), tuple(storage), caches)

    def site_of_host(self, host: str) -> str:
        """Return the site of a host; empty if no pattern matches."""
        for pattern, site in self.hosts:
            if fnmatchcase(host, pattern):
                return site
        return ""

    def site_of_storage(self, location: str) -> str:
        """Return the site of a path or URL; empty if no pattern matches."""
        server = server_of(location) if is_url(location) else ""
        for pattern, site in self.storage:
            is_below = pattern.startswith("/") and f"{location}/".startswith(f"{pattern.rstrip('/')}/")
            if fnmatchcase(server, pattern) if server else is_below:
                return site
        return ""


def _cache_url(given: object, site: str, path: Path) -> str:
    """Return the URL of a site's cache, which ends with two slashes in the forwarding form. Raises OptionError."""
    found = _XROOTD_SERVER.match(given) if isinstance(given, str) else None
    rest = given[found.end() :] if isinstance(given, str) and found else None
    if found is None or rest not in ("", "/", "//"):
        hint = "write root://HOST:PORT or, for a cache that forwards to any origin, root://HOST:PORT//"
        raise OptionError(f"invalid cache {given!r:.200} of the site {site}", path=str(path), hint=hint)
    return found[0] + ("//" if rest == "//" else "")


@lru_cache(maxsize=4)
def _loaded(_path: Path, _changed_ns: int) -> SiteMap:
    return SiteMap.of(SiteFile.load())


@dataclass(frozen=True)
class SiteFile:
    """The content and path of a site configuration file."""

    path: Path
    content: Mapping[str, object]

    @classmethod
    def load(cls) -> SiteFile:
        """Return the site configuration file; empty if the file is missing. Raises OptionError."""
        path = site_path()
        try:
            return cls(path, tomllib.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            if os.environ.get(SITE_FILE_VARIABLE):
                what = f"{SITE_FILE_VARIABLE} is set to a file that does not exist"
                raise OptionError(what, path=str(path)) from None
            return cls(path, {})
        except (OSError, ValueError) as error:
            what = f"cannot read the site configuration: {error}"
            raise OptionError(what, path=str(path), hint="write valid TOML") from None

    def section(self, name: str, hint: str) -> Mapping[str, object]:
        """Return a section of the file; empty if it does not exist.

        Raises OptionError with ``hint`` if the value is not a section.
        """
        found = self.content.get(name, {})
        if not isinstance(found, Mapping):
            raise OptionError(f"{name} is not a section", path=str(self.path), hint=hint)
        return found


def site_path() -> Path:
    """Return the path of the site configuration file."""
    named = os.environ.get(SITE_FILE_VARIABLE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "branchline" / "site.toml"
