"""Storage elements by the text of a file's location, which is the same on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from branchline.errors import DatasetError
from branchline.reading.locations import links_in

#: The storage element of all files with a plain path: which mount they lie on differs from machine to machine.
LOCAL_ELEMENT = "local files"


def server_of(location: str) -> str:
    """``scheme://host:port`` of a URL, without its user; LOCAL_ELEMENT for a path. Of a chain of fsspec its last link
    counts.

    >>> server_of("root://me@se.site.org:1094//store/f.root")
    'root://se.site.org:1094'
    """
    if "://" not in location:
        return LOCAL_ELEMENT
    *_, location = links_in(location)
    scheme, separator, rest = location.partition("://")
    if not separator or scheme.lower() == "file":
        return LOCAL_ELEMENT
    host = rest.partition("/")[0].partition("?")[0]
    return f"{scheme.lower()}://{host.rpartition('@')[2]}"


class ReplicaRank(NamedTuple):
    """The rank of all replicas whose locations have this beginning; those with the lowest rank are read first."""

    beginning: str
    rank: int


@dataclass(frozen=True)
class ElementSites:
    """What a dataset's list says of storage elements: ``beginnings`` are pairs of how locations there begin and of the
    site, the longest beginning first.
    """

    beginnings: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, given: object, source: str = "") -> ElementSites:
        """From a mapping of beginnings to sites, as ``{"root://se.gsi.de": "GSI"}``. Raises DatasetError."""
        if not isinstance(given, Mapping) or not all(
            isinstance(one, str) and one for pair in given.items() for one in pair
        ):
            hint = 'write it like {"root://se.gsi.de:1094": "GSI", "/lustre": "GSI"}'
            raise DatasetError("the sites of storage elements are texts by texts", path=source or None, hint=hint)
        pairs = ((beginning.rstrip("/") or "/", site) for beginning, site in given.items())
        return cls(tuple(sorted(pairs, key=lambda one: (-len(one[0]), one))))

    def _listed(self, location: str) -> tuple[str, str] | None:
        if not self.beginnings:
            return None
        server = server_of(location)
        for beginning, site in self.beginnings:
            is_below = location.startswith(beginning) and location[len(beginning) :][:1] in ("", "/")
            if beginning == server or is_below or beginning == "/" == location[:1]:
                return beginning, site
        return None

    def element_of(self, location: str) -> str:
        """The storage element of a location: how the list names it, else its server, or LOCAL_ELEMENT."""
        listed = self._listed(location)
        return server_of(location) if listed is None else listed[0]

    def site_of(self, location: str) -> str:
        """The site that the list names for a location; empty where it names none."""
        listed = self._listed(location)
        return "" if listed is None else listed[1]
