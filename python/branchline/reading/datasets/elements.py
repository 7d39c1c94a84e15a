"""Derives storage elements from the locations of files alone, so the results are the same on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from branchline.errors import DatasetError
from branchline.reading.locations import links_in

#: The storage element of all local paths. Mount points are not used, because they differ between machines.
LOCAL_ELEMENT = "local files"


def server_of(location: str) -> str:
    """Return ``scheme://host:port`` of a URL, without the user; LOCAL_ELEMENT for a path.

    For an fsspec chain, the last link is used.

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
    """The rank of all replicas whose locations start with a prefix. Replicas with a lower rank are read first."""

    beginning: str
    rank: int


@dataclass(frozen=True)
class ElementSites:
    """The sites of storage elements, as specified in a dataset's list.

    ``beginnings`` are pairs of location prefix and site, longest prefix first.
    """

    beginnings: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, given: object, source: str = "") -> ElementSites:
        """Parse a mapping of location prefixes to sites, such as ``{"root://se.gsi.de": "GSI"}``. Raises
        DatasetError.
        """
        if not isinstance(given, Mapping) or not all(
            isinstance(one, str) and one for pair in given.items() for one in pair
        ):
            hint = 'use the form {"root://se.gsi.de:1094": "GSI", "/lustre": "GSI"}'
            raise DatasetError(
                "the sites of storage elements are not a mapping of text to text", path=source or None, hint=hint
            )
        pairs = ((beginning.rstrip("/") or "/", site) for beginning, site in given.items())
        return cls(tuple(sorted(pairs, key=lambda one: (-len(one[0]), one))))

    def with_others(self, others: ElementSites) -> ElementSites:
        """Return both lists of sites. The site in ``others`` counts if both have the same prefix."""
        return ElementSites.of({**dict(self.beginnings), **dict(others.beginnings)})

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
        """Return the storage element of a location: the matching prefix in the list, else the result of `server_of`."""
        listed = self._listed(location)
        return server_of(location) if listed is None else listed[0]

    def site_of(self, location: str) -> str:
        """Return the site of a location; empty if no prefix in the list matches."""
        listed = self._listed(location)
        return "" if listed is None else listed[1]
