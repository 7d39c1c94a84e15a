"""The distance from a worker to a storage element: measured round trips, else by host and site."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from branchline.base.limits import HOST_ROUND_TRIP_S, NEAR_ROUND_TRIP_S, SITE_ROUND_TRIP_S, WAN_ROUND_TRIP_S
from branchline.jobs.sites.site_map import SiteMap
from branchline.jobs.sites.spot import Spot
from branchline.reading.datasets.elements import LOCAL_ELEMENT, ElementSites, server_of

_OWN_HOSTS = ("localhost", "127.0.0.1", "[::1]")


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


def holding_most(hosts: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Of the machines that hold each of some files, those that hold most of them."""
    held = Counter(host for one in hosts for host in one)
    return tuple(host for host, count in held.items() if count == max(held.values()))


def _is_short_for(short: str, full: str) -> bool:
    return bool(short) and "." not in short and full.startswith(f"{short}.")


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
