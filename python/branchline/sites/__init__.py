"""Sites: the places of workers and storage elements, and the distance between them."""

from typing import TYPE_CHECKING

from branchline.lazily import lazily
from branchline.sites.elements import LOCAL_ELEMENT, ElementSites, server_of

if TYPE_CHECKING:
    from branchline.sites.nearness import Distances, Nearness, RoundTrip, holding_most, is_among, is_near, nearness_of
    from branchline.sites.site_file import VARIABLE, SiteFile, site_path
    from branchline.sites.site_map import SiteMap
    from branchline.sites.spot import Spot, own_spot

__all__ = [
    "LOCAL_ELEMENT",
    "VARIABLE",
    "Distances",
    "ElementSites",
    "Nearness",
    "RoundTrip",
    "SiteFile",
    "SiteMap",
    "Spot",
    "holding_most",
    "is_among",
    "is_near",
    "nearness_of",
    "own_spot",
    "server_of",
    "site_path",
]

# Reading and merging need what lists say of storage elements, and nothing of workers.
__getattr__ = lazily(
    __name__,
    {
        "branchline.sites.nearness": (
            "Distances",
            "Nearness",
            "RoundTrip",
            "holding_most",
            "is_among",
            "is_near",
            "nearness_of",
        ),
        "branchline.sites.site_file": ("VARIABLE", "SiteFile", "site_path"),
        "branchline.sites.site_map": ("SiteMap",),
        "branchline.sites.spot": ("Spot", "own_spot"),
    },
)
